"""What facts become in the store, and what the store says when two of them disagree."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest

from reverser.store import Store
from reverser.store.attribution import (
    CONFLICT,
    TOPIC,
    Fact,
    announced,
    decode_slot,
    encode,
    exact_key,
    last_key,
    removal_key,
    slots_of,
    version_key,
)
from reverser.store.keys import AUTHOR_UNUSED
from reverser.store.model import Author

FACT = Fact(
    "apps/deployments",
    "till",
    "alice",
    "update",
    namespace="shop",
    uid="u1",
    resource_version="101",
    stage_timestamp="2026-01-01T10:00:00.000000000Z",
)
LATER = "2026-01-01T10:00:05.000000000Z"
ROOT = "gitops-reverser:author:v1:audit:"


def read(store: Store, key: str) -> object:
    return store.read_slots([key])[0]


def test_key_formats() -> None:
    """The key names are a contract; fields are escaped, so no name imitates another key."""
    assert exact_key("configmaps", "u", "5") == f"{ROOT}configmaps:object:u:5"
    assert last_key("apps/deployments", "u") == f"{ROOT}apps/deployments:object:u:last"
    assert removal_key("configmaps", "u") == f"{ROOT}configmaps:object:u:removal"
    assert version_key("configmaps", "5") == f"{ROOT}configmaps:rv:5"
    assert exact_key("a:b", "u%:", "removal:") == f"{ROOT}a%3Ab:object:u%25%3A:removal%3A"


def test_where_facts_are_filed() -> None:
    """A write goes by uid and version, a removal by uid alone, no uid by version; else nowhere."""
    exact, last = exact_key("apps/deployments", "u1", "101"), last_key("apps/deployments", "u1")
    assert slots_of(FACT) == [(exact, "claim"), (last, "last")]
    gone = replace(FACT, verb="delete")
    assert slots_of(gone) == [(removal_key("apps/deployments", "u1"), "removal"), (last, "last")]
    assert slots_of(replace(FACT, resource_version="")) == [(last, "last")]
    assert slots_of(replace(FACT, uid="")) == [(version_key("apps/deployments", "101"), "claim")]
    assert slots_of(replace(FACT, uid="", resource_version="")) == []


def test_value_survives_the_store() -> None:
    """What is read is what was written; a value without an author, or no JSON, reads as nothing."""
    assert decode_slot(encode(FACT)) == FACT
    robot = replace(FACT, author="system:serviceaccount:ci:bot", surely_wrote=True, display_name="Bot")
    robot = replace(robot, manager="flux", only_sets=True)
    assert decode_slot(encode(robot)) == robot
    assert b'"isServiceAccount":true' in encode(robot)
    for value in (None, b"", b"[]", b"{}", b'{"author": 5}', encode(replace(FACT, author=""))):
        assert decode_slot(value) is None


def test_writing_twice_changes_nothing(store: Store) -> None:
    """H06: a repeated batch changes neither values nor authors, and no fact lives longer for it."""
    gone = replace(FACT, verb="delete")
    store.write_facts([FACT, gone], 60_000)
    key = exact_key("apps/deployments", "u1", "101")
    before = {name: store.client.get(name) for name in store.client.keys(f"{ROOT}*")}
    store.client.pexpire(key, 30_000)
    store.write_facts([FACT, gone], 60_000)
    assert {name: store.client.get(name) for name in store.client.keys(f"{ROOT}*")} == before
    assert 0 < store.client.pttl(key) <= 30_000


@pytest.mark.parametrize("slot", ["exact", "version"])
def test_two_authors_of_one_version_are_a_conflict(store: Store, slot: str) -> None:
    """G15: a version has one maker; when two claim it nobody is named, in whatever order they come."""
    fact = FACT if slot == "exact" else replace(FACT, uid="")
    key = slots_of(fact)[0][0]
    for one, other in itertools.permutations(("alice", "dave")):
        store.client.flushall()
        store.write_facts([replace(fact, author=one)], 60_000)
        assert read(store, key) == replace(fact, author=one)
        store.write_facts([replace(fact, author=other, stage_timestamp=LATER)], 60_000)
        assert read(store, key) is CONFLICT
        store.write_facts([replace(fact, author=one)], 60_000)
        assert read(store, key) is CONFLICT


def test_a_conflict_remembers_who_asked_first(store: Store) -> None:
    """F3, F4: in whatever order and however often they come, the two who asked first stay known, each by his
    earliest request; what an older version noted of a conflict is anybody's."""
    key = exact_key("apps/deployments", "u1", "101")
    facts = [
        replace(FACT, author=author, received_timestamp=f"2026-01-01T10:00:0{second}.000000000Z")
        for author, second in (("erin", 4), ("alice", 1), ("dave", 3), ("alice", 2), ("dave", 5))
    ]
    assert store.read_claims([key]) == [{}]
    store.write_facts([facts[0]], 60_000)
    assert store.read_claims([key]) == [{"erin": facts[0].received_timestamp}]
    for order in itertools.permutations(facts):
        store.client.flushall()
        store.write_facts([*order, *order[:2]], 60_000)
        (claims,) = store.read_claims([key])
        assert claims == {"alice": facts[1].received_timestamp, "dave": facts[2].received_timestamp}
        assert read(store, key) is CONFLICT
    store.client.set(key, '{"conflict":true}')
    store.write_facts(facts, 60_000)
    assert store.read_claims([key]) == [{"": ""}]


def test_removals_at_the_same_time_are_nobodys(store: Store) -> None:
    """F5, T3: of two requests that overlap the one that ended first need not have been the first."""
    key = removal_key("apps/deployments", "u1")
    bob = replace(FACT, verb="delete", author="bob", received_timestamp="2026-01-01T09:59:59.990000000Z")
    for second, first in (("09:59:59.995", False), ("10:00:01.000", True)):
        received = f"2026-01-01T{second}000000Z"
        gc = replace(bob, author="gc", received_timestamp=received, stage_timestamp=LATER)
        store.client.flushall()
        store.write_facts([bob, gc], 60_000)
        assert read(store, key) == (bob if first else CONFLICT)


def test_removal_keeps_who_asked_first(store: Store) -> None:
    """G16: a repeated delete by somebody else changes nothing; an earlier one that is heard later does."""
    first = replace(FACT, verb="delete", author="bob")
    again = replace(FACT, verb="delete", author="gc", stage_timestamp=LATER)
    key = removal_key("apps/deployments", "u1")
    store.write_facts([first, again], 60_000)
    assert read(store, key) == first
    store.client.flushall()
    store.write_facts([again], 60_000)
    store.write_facts([first], 60_000)
    assert read(store, key) is CONFLICT


def test_removal_never_touches_the_version(store: Store) -> None:
    """G16: a finalizer patch that repeats the version of the deletion meets no fact of the deleter."""
    store.write_facts([replace(FACT, verb="delete", author="bob")], 60_000)
    store.write_facts([replace(FACT, verb="patch", author="controller")], 60_000)
    kind = "apps/deployments"
    assert isinstance(found := read(store, removal_key(kind, "u1")), Fact)
    assert found.author == "bob"
    assert isinstance(found := read(store, exact_key(kind, "u1", "101")), Fact)
    assert found.author == "controller"


def test_last_is_the_newest_by_time(store: Store) -> None:
    """Batches arrive in any order; the last editor is who edited last."""
    newer = replace(FACT, author="bob", resource_version="102", stage_timestamp=LATER)
    store.write_facts([newer], 60_000)
    store.write_facts([FACT], 60_000)
    assert read(store, last_key("apps/deployments", "u1")) == newer


def test_facts_age_out(store: Store) -> None:
    """G30: every key has its own time to live."""
    store.write_facts([FACT, replace(FACT, uid="")], 900_000)
    keys = store.client.keys(f"{ROOT}*")
    assert len(keys) == 3
    assert all(890_000 < store.client.pttl(key) <= 900_000 for key in keys)


def test_a_batch_is_announced_once(store: Store) -> None:
    """Whoever waits is told what to look at, by one message per batch."""
    with store.subscribe(TOPIC) as hints:
        while hints.get(0.1) is not None:
            pass
        store.write_facts([FACT, replace(FACT, uid="", resource_version="7")], 60_000)
        hint = hints.get(2.0)
        assert hint is not None
        assert announced(hint.payload) == {"apps/deployments": ["uu1", "v7"]}
    assert announced("no json") == {}


def test_first_submitter_stays(store: Store) -> None:
    """H11: the first record of a request's uid wins; it lives for an hour."""
    store.write_submitter("r1", Author("alice", "Alice", "a@lab.test"), "2026-01-01T10:00:00Z")
    store.write_submitter("r1", Author("eve"), "2026-01-01T10:00:01Z")
    assert store.read_submitter("r1") == Author("alice", "Alice", "a@lab.test")
    assert store.read_submitter("r2") is None
    assert 3500 < store.client.ttl("gitops-reverser:author:v1:command:r1") <= 3600
    store.client.set("gitops-reverser:author:v1:command:r3", "garbage")
    assert store.read_submitter("r3") is None


def test_counting_keys(store: Store) -> None:
    """The size of the index is counted step by step and counts nothing else."""
    store.write_facts([replace(FACT, uid=f"u{number}") for number in range(1500)], 60_000)
    store.client.set("gitops-reverser:other", "x")
    total, cursor = 0, 0
    while True:
        cursor, met = store.count_fact_keys(cursor)
        total += met
        if cursor == 0:
            break
    assert total == 3000


def test_facts_that_age_out_unused(store: Store) -> None:
    """M2: a fact that named nobody is counted once when it is gone; used, living, repeated ones are not."""
    used, unused = replace(FACT, uid="u2"), replace(FACT, uid="u3")
    gone = replace(FACT, uid="u4", verb="delete")
    store.write_facts([used, unused, gone], 30)
    store.write_facts([FACT], 60_000)
    assert store.mark_used([slots_of(used)[0][0]]) == 1
    waited = store.drop_expired()
    for _ in range(200):
        if waited == 2:
            break
        time.sleep(0.01)
        waited += store.drop_expired()
    assert waited == 2
    assert store.drop_expired() == 0
    store.write_facts([FACT], 60_000)
    assert store.client.zcard(AUTHOR_UNUSED) == 1
