"""Who owns a path: one election over all GitTargets of a repository, decided from plain values."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.controllers.decide_target import validate
from reverser.controllers.overlap import elect
from reverser.kinds.paths import normalize_path, paths_overlap
from tests.controllers.builders import provider, target

REPO = {("shop", "gp"): "file:///r"}


@pytest.mark.parametrize(
    ("other", "loses", "nested"),
    [
        ({"path": "team/app"}, True, False),
        ({"path": "team"}, True, True),
        ({"path": "team/app/sub"}, True, True),
        ({"path": "."}, True, True),
        ({"path": "./team//app/"}, True, False),
        ({"path": "team/app-staging"}, False, False),
        ({"path": "team/ap"}, False, False),
        ({"path": "Team/App"}, False, False),
        ({"path": "team/app", "branch": "env/x"}, False, False),
    ],
)
def test_overlap_table(other: dict[str, Any], loses: bool, nested: bool) -> None:
    """B06: the later one loses and is told why; the winner is untouched."""
    first = target("first", path="team/app")
    late = target("late", created="2030-06-01T00:00:00Z", **other)
    losers = elect([late, first], REPO)
    assert set(losers) == ({late.meta.uid} if loses else set())
    if loses:
        message = validate(late, provider(), rival=losers[late.meta.uid]).message
        assert "'shop/first'" in message
        assert "created later" in message
        assert "2030-01-01T00:00:00Z" in message
        assert ("overlaps" in message) is nested


def test_a_loser_does_not_block_a_third() -> None:
    """B08, I8: owners are elected in one pass; ties go to the lexically smaller key."""
    one, two, three = target("a", path="x"), target("b", path="."), target("c", path="y")
    assert set(elect([three, two, one], REPO)) == {two.meta.uid}
    assert set(elect([three, two], REPO)) == {three.meta.uid}


PATHS = st.lists(st.sampled_from(["a", "b", "a-b", "."]), max_size=3).map("/".join).map(lambda p: p or ".")


@given(
    st.lists(st.tuples(PATHS, st.integers(0, 3), st.sampled_from("xyz")), max_size=8, unique_by=lambda t: t),
    st.randoms(),
)
def test_owners_never_overlap_and_every_loser_has_a_reason(
    wanted: list[tuple[str, int, str]], shuffle: Random
) -> None:
    """N2, O4: whatever the order of looking, the same owners; none overlaps another; each loser overlaps
    the older owner that it is told.
    """
    targets = [
        target(f"{name}{number}", path=path, created=f"2030-01-01T00:00:0{age}Z")
        for number, (path, age, name) in enumerate(wanted)
    ]
    losers = elect(targets, REPO)
    again = list(targets)
    shuffle.shuffle(again)
    assert elect(again, REPO) == losers
    owners = {t.meta.key: t for t in targets if t.meta.uid not in losers}
    for one, other in itertools.combinations(owners.values(), 2):
        assert not paths_overlap(normalize_path(one.path), normalize_path(other.path))
    for loser in targets:
        if loser.meta.uid in losers:
            owner = owners[losers[loser.meta.uid].key]
            assert paths_overlap(normalize_path(owner.path), normalize_path(loser.path))
            assert (owner.meta.creation_timestamp, owner.meta.key) < (
                loser.meta.creation_timestamp,
                loser.meta.key,
            )


def test_an_election_of_many_targets_is_cheap() -> None:
    """Each look at a target asks for the owners: a thousand targets must not compare each with each."""
    many = [target(f"t{number}", path=f"clusters/c{number}/apps") for number in range(2000)]
    counted = [0]

    def count(*_: Any) -> None:
        counted[0] += 1

    sys.setprofile(lambda frame, event, arg: count() if event == "call" else None)
    try:
        assert elect(many, REPO) == {}
    finally:
        sys.setprofile(None)
    assert counted[0] < 100 * len(many)  # calls, not a clock


def test_equivalent_repositories_compete_across_providers_and_namespaces() -> None:
    """I7: F18's configuration is seen as one repository."""
    mine = target("a")
    theirs = target("b", created="2030-02-01T00:00:00Z", provider="other")
    theirs = replace(theirs, meta=replace(theirs.meta, namespace="depot", uid="uid-depot-b"))
    same = {("shop", "gp"): "git.example.test/r", ("depot", "other"): "git.example.test/r"}
    assert set(elect([mine, theirs], same)) == {"uid-depot-b"}
    assert elect([mine, theirs], {**same, ("depot", "other"): "elsewhere"}) == {}
