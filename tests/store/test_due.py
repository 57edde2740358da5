"""When a branch is due: J9, J10."""

from __future__ import annotations

from reverser.store import keys
from reverser.store.model import BranchKey, Gate, RetireEntry
from tests.store.world import BRANCH, TARGET, World, event


def _score(world: World) -> float | None:
    return world.store.client.zscore(keys.DUE, BRANCH.id)


def test_an_append_makes_the_branch_due_now(world: World):
    """J9, J10: it is claimed once per lease time."""
    world.append(event())
    assert _score(world) <= world.store.time_ms()
    assert world.store.claim_due(10, 60_000) == [BRANCH]
    assert world.store.claim_due(10, 60_000) == []
    assert _score(world) > world.store.time_ms() + 50_000


def test_a_bookmark_wakes_nobody(world: World):
    """Nothing to write, nothing due."""
    world.append(rv="8")
    assert _score(world) is None


def test_claims_are_bounded(world: World):
    """J10: a worker takes as many as it can carry."""
    branches = [BranchKey("shop", "provider", f"b{n}") for n in range(3)]
    for branch in branches:
        world.store.wake_branch(branch)
    first = world.store.claim_due(2, 60_000)
    assert len(first) == 2
    assert set(first + world.store.claim_due(2, 60_000)) == set(branches)


def test_appends_only_lower_a_score(world: World):
    """J9: an earlier time stays."""
    world.store.client.zadd(keys.DUE, {BRANCH.id: 5})
    world.append(event())
    assert _score(world) == 5


def test_appends_leave_the_score_alone_while_leased(world: World):
    """J9: the release decides then, and finds what is newer than the plan."""
    world.append(event())
    world.store.claim_due(1, 60_000)
    before = _score(world)
    writer = world.writer()
    (planned,) = world.ids()
    world.append(event())
    assert _score(world) == before
    assert world.store.release_branch(BRANCH, writer, planned, world.store.time_ms() + 90_000)
    assert world.store.claim_due(1, 60_000) == [BRANCH]


def test_the_release_moves_the_score_where_the_plan_says(world: World):
    """J9: later, or away."""
    world.append(event())
    writer = world.writer()
    (planned,) = world.ids()
    later = world.store.time_ms() + 90_000
    assert world.store.release_branch(BRANCH, writer, planned, later)
    assert _score(world) == later
    writer = world.writer("second")
    assert world.store.release_branch(BRANCH, writer, planned, None)
    assert _score(world) is None


def test_settled_entries_do_not_look_new(world: World):
    """J9: the last one planned on may be settled by then."""
    world.append(event())
    writer = world.writer()
    (planned,) = world.ids()
    world.settle(writer, [planned])
    assert world.store.release_branch(BRANCH, writer, planned, None)
    assert _score(world) is None


def test_another_fence_releases_nothing(world: World):
    """J9: only the holder."""
    old = world.writer()
    world.store.client.delete(keys.branch_lease(BRANCH))
    new = world.writer("second")
    assert not world.store.release_branch(BRANCH, old, "", None)
    assert world.store.verify_branch(BRANCH, new)


def test_a_wake_while_leased_is_not_lost(world: World):
    """J9: a gate that opened during an attempt is looked at right after it; one before it is seen by it."""
    world.store.wake_branch(BRANCH)
    writer = world.writer()
    assert world.store.release_branch(BRANCH, writer, "", None)
    assert _score(world) is None
    writer = world.writer("second")
    world.store.wake_branch(BRANCH)
    assert world.store.release_branch(BRANCH, writer, "", None)
    assert world.store.claim_due(1, 60_000) == [BRANCH]


def test_what_arrives_under_a_holder_that_dies_is_found(world: World):
    """J9, J10: a message that came late started a writer without a score; its death loses no wake."""
    world.writer()
    world.append(event())
    world.store.client.delete(keys.branch_lease(BRANCH))
    assert world.store.time_ms() < _score(world) <= world.store.time_ms() + 60_000


def test_a_target_wakes_its_branch(world: World):
    """The gate names the branch; without one nothing happens."""
    world.store.wake_target(TARGET.uid)
    assert _score(world) is None
    world.store.write_gate(TARGET.uid, Gate(True, 1, BRANCH, "live"))
    world.store.wake_target(TARGET.uid)
    assert world.store.claim_due(1, 60_000) == [BRANCH]


def test_the_beat_finds_a_branch_without_a_score(world: World):
    """A lost score is set again; a leased branch, a settled one and a due one are left alone."""
    world.append(event())
    assert world.store.sweep_journals() == 0
    world.store.client.delete(keys.DUE)
    assert world.store.sweep_journals() == 1
    world.store.client.delete(keys.DUE)
    writer = world.writer()
    assert world.store.sweep_journals() == 0
    world.settle(writer, world.ids())
    world.store.release_branch(BRANCH, writer, "", None)
    assert world.store.sweep_journals() == 0


def test_branches_are_known_until_forgotten(world: World):
    """Only the holder of an empty branch forgets it, and nothing of it stays behind."""
    world.store.append_retire(BRANCH, RetireEntry(TARGET))
    writer = world.writer()
    assert world.store.known_branches() == [BRANCH]
    assert not world.store.forget_branch(BRANCH, writer)
    world.settle(writer, world.ids())
    world.store.client.delete(keys.OUTCOMES)
    assert world.store.forget_branch(BRANCH, writer)
    assert world.store.known_branches() == []
    left = {key.decode() for key in world.store.client.keys("*") if BRANCH.id.encode() in key}
    assert left == {f"gitops-reverser:lease:v1:branch:{BRANCH.id}:number"}


def test_a_clock_that_was_put_back_makes_everything_due(world: World):
    """Q05: what is due by the earlier clock would wait for an hour; and once more a minute later, for a run
    that had read the clock before and gave its lease back after."""
    client, hour = world.store.client, 3_600_000
    world.store.wake_branch(BRANCH)
    assert world.store.claim_due(1, hour) == [BRANCH]
    assert world.store.claim_due(1, hour) == []
    client.hset(keys.DUE_CLOCK, "last", world.store.time_ms() + hour)
    assert world.store.claim_due(1, hour) == [BRANCH]
    assert world.store.claim_due(1, hour) == []
    assert 0 < int(client.hget(keys.DUE_CLOCK, "again")) - world.store.time_ms() <= 60_000
    client.hset(keys.DUE_CLOCK, "again", world.store.time_ms())
    assert world.store.claim_due(1, hour) == [BRANCH]
    assert world.store.claim_due(1, hour) == []
    assert set(client.hkeys(keys.DUE_CLOCK)) == {b"last"}
