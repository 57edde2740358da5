"""Replays: pages that never hold the whole set, names that come and go between them, and what is counted."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.store.model import ALL_OPERATIONS, Operation, Presence, Scope, TypeRef
from watchers import fold as folding
from watchers.fold import Fold
from watchers.noop import NoopCache
from watchers.sanitize import canonical, project
from watchers.table import ShardSpec
from watchers.terminating import Terminating

CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
SPEC = ShardSpec(Scope("u", "configmaps", "shop"), CONFIGMAPS, ALL_OPERATIONS)


def configmap(name: str, value: str, *, terminating: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if terminating:
        meta["deletionTimestamp"] = "2031-01-01T00:00:00Z"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": value}}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "terminating", "flush"]),
        st.sampled_from("abc"),
        st.text("xy", max_size=2),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_pages_add_up_to_what_exists(steps: list[tuple[str, str, str]]) -> None:
    """B2: wherever the pages are cut, what is staged at the end is the last state of what exists."""
    fold = Fold(SPEC, filter_noise=True, table=None)
    staged: dict[str, bytes] = {}
    exists: dict[str, bytes] = {}

    def flush() -> None:
        page = fold.take()
        for _, name in page.gone:
            staged.pop(name, None)
        for item in page.objects:
            staged[item.name] = item.body

    for step, name, value in steps:
        obj = configmap(name, value, terminating=step == "terminating")
        if step == "flush":
            flush()
        elif step == "remove":
            fold.remove(obj)
            exists.pop(name, None)
        else:
            fold.add(obj)
            exists.pop(name, None)
            if step == "add":
                exists[name] = canonical(project(obj))
    flush()
    assert staged == exists
    assert {name for _, name in fold.present} == exists.keys()
    cache = NoopCache()
    fold.seed(cache)
    assert all(cache.remember(f"uid-{name}", body) for name, body in exists.items())


def test_noise_and_odd_shapes_are_present_and_no_more() -> None:
    """B20, S4: what is filtered or cannot be projected is protected, never written; a nameless one counts."""
    fold = Fold(SPEC, filter_noise=True, table=None)
    owned = configmap("owned", "1")
    owned["metadata"]["ownerReferences"] = [{"controller": True}]
    odd = configmap("odd", "1")
    odd["data"] = {"v": 2**70}
    for obj in (owned, odd, {"metadata": {}}):
        fold.add(obj)
    assert [(item.name, item.presence) for item in fold.take().objects] == [
        ("odd", Presence.PRESENT),
        ("owned", Presence.PRESENT),
    ]
    assert (len(fold.present), fold.malformed) == (2, 1)


@pytest.mark.parametrize("operation", list(Operation))
def test_operations_take_nothing_out_of_the_set(operation: Operation) -> None:
    """B18: the writer judges by operation; what exists is all there, else it would be taken for deleted."""
    fold = Fold(replace(SPEC, operations=frozenset({operation})), filter_noise=True, table=None)
    fold.add(configmap("a", "1"))
    assert [(item.name, item.presence) for item in fold.take().objects] == [("a", Presence.FULL)]
    assert list(fold.present) == [("shop", "a")]


def test_a_large_replay_needs_little_memory() -> None:
    """Pain 80: of 1,000 objects of 20 KB no more than a page of bodies is held at any time."""
    fold = Fold(SPEC, filter_noise=True, table=None)
    total = 0
    tracemalloc.start()
    for index in range(1000):
        fold.add(configmap(f"o{index}", f"{index}" + "x" * 20_000))
        if fold.full:
            total += sum(len(item.body) for item in fold.take().objects)
    total += sum(len(item.body) for item in fold.take().objects)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total > 20_000_000
    assert peak < 4 * folding.PAGE_BYTES


def test_terminating_objects_are_counted_once() -> None:
    """`terminating_objects`: two watches of one object are one; gone or let go is none; a replay corrects."""
    kind = TypeRef("lab.test", "v1", "counted", "Counted", True)

    def shown() -> float:
        from watchers.metrics import TERMINATING, type_labels

        return float(TERMINATING.labels(*type_labels(kind))._value.get())

    one, two = Terminating(kind), Terminating(kind)
    one.saw("a", gone=False, terminating=True)
    two.saw("a", gone=False, terminating=True)
    one.saw("b", gone=False, terminating=True)
    assert shown() == 2
    one.saw("a", gone=True, terminating=True)
    assert shown() == 2
    two.saw("a", gone=True, terminating=True)
    assert shown() == 1
    one.replace(["c", "d"])
    assert shown() == 2
    one.replace(())
    assert shown() == 0
