"""What a script refuses or leaves alone although its answer would look the same."""

from __future__ import annotations

import pytest

from reverser.store import keys
from reverser.store.model import Fence, Gate, LeaseKind
from tests.store.world import BRANCH, TARGET, World, attach, boundary, event, staged


@pytest.fixture
def writer(world: World) -> Fence:
    return world.writer()


def score(world: World) -> float | None:
    return world.store.client.zscore(keys.DUE, BRANCH.id)


def test_a_late_holder_stores_no_boundary(world: World, writer: Fence):
    """J13: free entries that exist, but under another's lease."""
    world.append(event("x"))
    world.store.client.delete(keys.branch_lease(BRANCH))
    world.writer("second")
    assert not world.store.store_boundary(BRANCH, writer, boundary(world.ids()))
    assert world.store.read_boundaries(BRANCH) == []


@pytest.mark.parametrize("gone", ["first", "last", "attach"])
def test_a_boundary_needs_its_ends(world: World, writer: Fence, gone: str):
    """J13: a Redis that went back in time lacks the newest entries; what lacks a part is no window."""
    world.store.append_attach(BRANCH, world.fence, attach())
    world.append(event("x"), event("y"), event("z"))
    request, *events = world.ids()
    lost = {"first": events[0], "last": events[-1], "attach": request}[gone]
    world.store.client.xdel(keys.journal(BRANCH), lost)
    assert not world.store.store_boundary(BRANCH, writer, boundary(events, attach_id=request))
    assert world.store.read_boundaries(BRANCH) == []
    assert world.store.client.hlen(keys.branch_part(BRANCH, "claimed")) == 0


def test_bytes_are_read_where_nothing_vouches_for_them(world: World, writer: Fence):
    """J16: a window without its claims frees what is really there, not what the writer remembers."""
    world.append(event("x"), event("y"))
    x, y = world.store.read_entries(BRANCH)
    assert world.settle(writer, [x.id], boundary_id="w1", event_bytes=x.size + 1000)
    assert world.store.read_unsettled_bytes(BRANCH)[TARGET.uid] == y.size


def test_staging_twice_counts_once(world: World):
    """J5: a retried stage replaces what it staged, and so do its bytes."""
    for _ in range(2):
        world.store.stage(BRANCH, "r1", staged("a", "b", body=b"x" * 100))
    key, client = keys.staging(BRANCH, "r1"), world.store.client
    fields = [field for field in client.hkeys(key) if field != b"size"]
    assert int(client.hget(key, "size")) == sum(client.hstrlen(key, field) for field in fields) > 200


def test_a_lease_moves_no_score(world: World):
    """J9: it only gives one where there is none; later is for the release alone."""
    world.append(event("x"))
    world.store.claim_due(1, 2_000)
    before = score(world)
    world.writer()
    assert score(world) == before


def test_the_beat_leaves_a_leased_branch_to_its_holder(world: World, writer: Fence):
    """Nothing is woken that somebody works on."""
    world.append(event("x"))
    world.store.client.zrem(keys.DUE, BRANCH.id)
    assert world.store.sweep_journals() == 0
    assert score(world) is None


def test_the_beat_finds_a_push_that_nobody_settled(world: World, writer: Fence):
    """J15: the journal is empty, and still somebody must see whether the push arrived."""
    world.append(event("x"))
    world.store.release_branch(BRANCH, writer, world.ids()[-1], None)
    world.store.client.delete(keys.journal(BRANCH))
    world.store.client.hset(keys.branch_part(BRANCH, "intents"), "i1", b"1 {}")
    assert score(world) is None
    assert world.store.sweep_journals() == 1
    assert score(world) is not None


def test_a_target_that_wakes_a_leased_branch_is_not_lost(world: World, writer: Fence):
    """J9: the wake waits for the release."""
    world.append(event("x"))
    world.store.write_gate(TARGET.uid, Gate(True, 1, BRANCH, "live"))
    world.store.wake_target(TARGET.uid)
    assert world.store.release_branch(BRANCH, writer, world.ids()[-1], None)
    assert world.store.claim_due(1, 60_000) == [BRANCH]


def test_an_entry_of_the_same_millisecond_is_new(world: World, writer: Fence):
    """J9: stream ids are pairs; the second of a millisecond was not planned on."""
    world.append(event("x"), event("y"))
    first, second = world.ids()
    assert first.split("-")[0] == second.split("-")[0]
    world.store.client.zrem(keys.DUE, BRANCH.id)
    assert world.store.release_branch(BRANCH, writer, first, None)
    assert world.store.claim_due(1, 60_000) == [BRANCH]


def test_a_lease_is_another_kinds_own(world: World, writer: Fence):
    """A target's fence is none of the branch's, whatever its number."""
    assert not world.store.verify_branch(BRANCH, world.fence)
    assert world.store.renew_lease(LeaseKind.BRANCH, BRANCH.id, writer, 1_000)
