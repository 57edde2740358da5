"""Which item of a new list is which item of the old one."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitwriter.manifests.editing.alignment import align

ITEMS = st.lists(st.sampled_from(["a", "b", 1, {}, ["x"], {"k": "v", "l": [1, 2]}, None]), max_size=12)
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@settings(deadline=None)
@given(ITEMS, ITEMS)
def test_equal_items_find_each_other_and_those_that_stay_keep_their_order(
    old: list[Any], new: list[Any]
) -> None:
    """No item is used twice; what stays is in order; an item is lost only where no place for it is left."""
    alignment = align(old, new)
    used = [index for index in alignment.match if index is not None]
    assert len(used) == len(set(used))
    staying = [index for index in used if index in alignment.staying]
    assert staying == sorted(alignment.staying)
    assert len(alignment.match) == len(new)
    assert align(old, old).match == tuple(range(len(old)))
    if max(len(old), len(new)) > 1:
        _assert_equal_items_matched(old, new, alignment.match)


def _assert_equal_items_matched(old: list[Any], new: list[Any], match: tuple[int | None, ...]) -> None:
    counts = [Counter(map(str, items)) for items in (old, new)]
    equal = sum(1 for index, item in zip(match, new, strict=True) if index is not None and old[index] == item)
    assert equal == (counts[0] & counts[1]).total()


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        # The changed item is edited in place, though its old value stands further on.
        (["c", {}, ["x", "y"], {}], ["c", {"k": 1}, ["x", "z"], {}], [0, 1, 2, 3]),
        ([{}, ["x", "y"], {}, "end"], [{"k": 1}, ["x", "z"], {}, "END"], [0, 1, 2, 3]),
        (["-p", "80", "-q", "81"], ["-p", "81", "-q", "81"], [0, 1, 2, 3]),
        # One of two equal ones goes; one more comes between them.
        (["a", "a", "b"], ["a", "b"], [0, 2]),
        (["a", "a"], ["a", "b", "a"], [0, None, 1]),
        # Moved items are found again, also where they changed a little; another item is not taken for them.
        (["a", "b", "c"], ["c", "a", "b"], [2, 0, 1]),
        ([RULE, "n", "d"], ["n", "d", {**RULE, "verbs": ["get", "list", "watch"]}], [1, 2, 0]),
        ([RULE, "n", "d"], ["n", "d", {**RULE, "resources": ["services"]}], [1, 2, None]),
        # Items with a key are matched by it, whatever else they hold.
        ([{"name": "a", "v": 1}, {"name": "b"}], [{"name": "b", "v": 1}, {"name": "c"}], [1, None]),
    ],
)
def test_a_match(old: list[Any], new: list[Any], match: list[int | None]) -> None:
    """What a careful human would take for the same item."""
    assert list(align(old, new).match) == match


def _repeated(size: int) -> tuple[list[Any], list[Any]]:
    rnd = random.Random(1)
    return [rnd.choice("xyz") for _ in range(size)], [rnd.choice("xyz") for _ in range(size)]


def _changed(size: int) -> tuple[list[Any], list[Any]]:
    old = [f"item {index}" for index in range(size)]
    return old, [item if index % 100 == 0 else f"{item} more" for index, item in enumerate(old)]


@pytest.mark.parametrize("lists", [_repeated(10_000), _changed(10_000)], ids=["repeated", "changed"])
def test_ten_thousand_items_are_matched_in_a_moment(lists: tuple[list[Any], list[Any]]) -> None:
    """The work is bounded, and the bound loses no equal item."""
    old, new = lists
    started = time.process_time()
    match = align(old, new).match
    assert time.process_time() - started < 5
    _assert_equal_items_matched(old, new, match)
