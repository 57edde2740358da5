"""What each script owes beside its answer: who is woken, what ages out, what is left behind, what is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from reverser.store import keys
from reverser.store.model import (
    AppendId,
    AppendStatus,
    DigestRecord,
    Fence,
    LeaseKind,
    Limits,
    OutcomeKind,
    ReplayWish,
    RetireEntry,
    Scope,
    TargetRef,
    digest_field,
)
from tests.store.world import BRANCH, SCOPE, TARGET, World, attach, boundary, event, staged, unsealed

HOUR = 3600


@pytest.fixture
def writer(world: World) -> Fence:
    return world.writer()


def heard(world: World, act: Callable[[], object]) -> set[str]:
    """The topics on which something was told while ``act`` ran."""
    with world.store.client.pubsub(ignore_subscribe_messages=True) as channel:
        channel.psubscribe(keys.HINT_PREFIX + "*")
        channel.get_message(ignore_subscribe_messages=False, timeout=60)
        act()
        world.store.client.publish(keys.hint("end"), "")
        topics = set()
        while True:
            message = channel.get_message(timeout=60)
            topic = message["channel"].decode().removeprefix(keys.HINT_PREFIX) if message else ""
            if topic == "end":
                return topics
            assert topic or message is None
            topics.add(topic)


def ttl(world: World, key: str) -> int:
    return int(world.store.client.ttl(key))


# -- who is woken


def append_event(world: World) -> object:
    return world.append(event())


def append_sweep(world: World) -> object:
    return world.sweep()


def append_attach(world: World) -> object:
    return world.store.append_attach(BRANCH, world.fence, attach())


def append_retire(world: World) -> object:
    return world.store.append_retire(BRANCH, RetireEntry(TARGET))


@pytest.mark.parametrize("append", [append_event, append_sweep, append_attach, append_retire])
def test_every_entry_wakes_its_branch(world: World, append: Callable[[World], object]):
    """J9, J10: also one that was forgotten between two entries, and by a hint for who sleeps."""
    world.store.client.delete(keys.BRANCHES)
    told = heard(world, lambda: append(world))
    assert any(topic.startswith("due") for topic in told)
    assert world.store.claim_due(10, 60_000) == [BRANCH]


def test_a_due_branch_that_nobody_knows_is_dropped(world: World):
    """J10: a score without a branch is no work, and is not looked at for ever."""
    world.store.client.zadd(keys.DUE, {"unknown": 5})
    assert world.store.claim_due(10, 60_000) == []
    assert world.store.client.zscore(keys.DUE, "unknown") is None


def test_a_release_before_anything_was_read(world: World, writer: Fence):
    """J9: what arrived while a writer saw an empty journal makes the branch due now."""
    world.append(event())
    assert world.store.release_branch(BRANCH, writer, "", None)
    assert not world.store.client.exists(keys.lease_index(LeaseKind.BRANCH))
    assert world.store.claim_due(1, 60_000) == [BRANCH]


# -- what ages out


def test_what_a_shard_left_ages_out(world: World):
    """J4: cursor and append id live an hour from the last step, bookmarks without a version included."""
    names = (keys.cursor(SCOPE), keys.cursor_append(SCOPE))
    world.append(rv="20")
    assert all(0 < ttl(world, name) <= HOUR for name in names)
    for name in names:
        world.store.client.expire(name, 600)
    world.append(rv="")
    assert all(HOUR - 100 < ttl(world, name) <= HOUR for name in names)


@pytest.mark.parametrize("key", [keys.cursor(SCOPE), keys.cursor_append(SCOPE)])
def test_half_a_cursor_is_none(world: World, key: str):
    """J4: a version without its epoch, or the reverse, is nothing to resume from."""
    world.append(rv="20")
    world.store.client.delete(key)
    assert world.store.read_cursor(SCOPE) is None


def test_fencing_numbers_do_not_stay_for_ever(world: World, writer: Fence):
    """A counter outlives its lease by far, and ends some time after the last one."""
    del writer
    assert ttl(world, keys.lease_number(LeaseKind.BRANCH, BRANCH.id)) > HOUR


# -- who may append


def test_an_append_id_is_a_pair(world: World):
    """J2: the same number of another session is another append."""
    world.append(event(), append_id=AppendId("session", 1), expected=None)
    other, mine = AppendId("else", 1), AppendId("session", 2)
    assert world.append(event(), expected=other, append_id=mine) is AppendStatus.CURSOR_MISMATCH
    assert len(world.ids()) == 1


def test_a_replay_that_is_settled_is_still_recognised(world: World, writer: Fence):
    """J5: the answer was lost, and the writer was faster than the retry."""
    ident = world.next_id()
    world.sweep("r1", append_id=ident)
    world.settle(writer, world.ids())
    assert world.sweep("r1", append_id=ident, expected=None) is AppendStatus.DUPLICATE
    assert world.ids() == []


def test_a_sweep_cannot_take_the_number_of_an_event(world: World):
    """J2: an append id stands for one append."""
    ident = world.next_id()
    world.append(event(), append_id=ident)
    assert world.sweep("r1", append_id=ident, expected=None) is AppendStatus.CURSOR_MISMATCH


def test_a_sweep_needs_no_cursor_to_replace(world: World):
    """J4, J5: the cursor ran out while the replay was read."""
    world.append(event())
    world.store.client.delete(keys.cursor(SCOPE), keys.cursor_append(SCOPE))
    assert world.sweep("r1") is AppendStatus.OK


@pytest.mark.parametrize("before", [AppendId("old", 9), AppendId("session", 1)])
def test_a_sweep_for_whatever_is_stored(world: World, before: AppendId):
    """J5: another session's higher number is not late, and neither is an own lower one."""
    world.append(event(), append_id=before, expected=None)
    assert world.sweep("r1", append_id=AppendId("session", 3), expected=None) is AppendStatus.OK


def test_a_full_journal_takes_nothing(world: World):
    """J8: exactly at the limit is full, for the target and for the branch."""
    world.append(event())
    size = world.store.read_unsettled_bytes(BRANCH)[""]
    plenty = 1 << 30
    assert world.append(event(), limits=Limits(size, plenty)) is AppendStatus.FULL
    assert world.append(event(), limits=Limits(plenty, size)) is AppendStatus.FULL
    assert world.append(event(), limits=Limits(size + 1, size + 1)) is AppendStatus.OK


def test_a_sweep_without_its_staging_leaves_none(world: World):
    """J5: what is refused makes no staging that would never age out."""
    assert world.sweep("r1", [], count=2) is AppendStatus.STAGING_MISMATCH
    assert world.store.read_staging(BRANCH, "r1") is None


def test_a_replay_makes_its_type_one_of_the_branch(world: World):
    """J19: a type that never had an event replays after a rewrite too."""
    world.sweep("r1", staged("a"))
    assert world.store.branch_scopes(BRANCH) == {SCOPE}


# -- what settling leaves


def test_nothing_is_left_of_a_settled_window(world: World, writer: Fence):
    """J16: neither its claims nor the note of its sweep; also where an entry had gone before."""
    world.append(event("x"), event("y"))
    ids = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary(ids))
    world.store.client.xdel(keys.journal(BRANCH), ids[0])
    assert world.settle(writer, ids, boundary_id="w1")
    world.sweep("r1")
    assert world.settle(writer, world.ids())
    assert not world.store.client.exists(keys.branch_part(BRANCH, "sweeps"))
    world.sweep("r2")
    world.store.store_boundary(BRANCH, writer, boundary(world.ids(), "w2"))
    assert world.settle(writer, world.ids(), boundary_id="w2")
    parts = [keys.branch_part(BRANCH, part) for part in ("claimed", "sweeps", "boundaries")]
    assert [part for part in parts if world.store.client.exists(part)] == []


def test_a_window_whose_entries_are_gone_still_ends(world: World, writer: Fence):
    """J16: a Redis that went back may hold the boundary alone; settling takes it away, once."""
    world.append(event())
    ids = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary(ids))
    world.store.client.xdel(keys.journal(BRANCH), *ids)
    for _ in range(2):
        assert world.settle(writer, ids, boundary_id="w1")
        assert world.store.read_boundaries(BRANCH) == []
        assert len(world.store.read_outcomes()) == 1


def test_the_claims_of_a_large_window_are_all_looked_at(world: World, writer: Fence):
    """J22: the last of many entries is another window's."""
    world.append(*(event(f"x{number}") for number in range(501)))
    ids = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary(ids[-1:]))
    assert not world.settle(writer, ids, OutcomeKind.RETIRED)
    assert world.ids() == ids
    assert world.settle(writer, ids[:-1], OutcomeKind.RETIRED)
    assert world.settle(writer, ids[-1:], boundary_id="w1")


def test_what_is_refused_seals_nothing(world: World, writer: Fence):
    """J20: an object stays shown as unsealed until one of its events is written."""
    world.append(unsealed("x", "A"))
    world.settle(writer, world.ids(), OutcomeKind.UNSEALED, reason="A")
    world.append(event("x"))
    world.settle(writer, world.ids(), OutcomeKind.REFUSED)
    assert list(world.store.read_unsealed(TARGET.uid).values()) == ["A"]


def test_a_retired_target_takes_only_its_own_types(world: World, writer: Fence):
    """J22: its neighbours on the branch still replay after a rewrite."""
    neighbour = TargetRef("uid-b", "shop", "b")
    world.append(event())
    world.store.append_retire(BRANCH, RetireEntry(neighbour))
    assert world.settle(writer, world.ids()[1:], OutcomeKind.RETIRED)
    assert world.store.branch_scopes(BRANCH) == {SCOPE}


def test_a_refused_sweep_releases_nothing(world: World, writer: Fence):
    """J23: what is held stays held until a sweep is applied."""
    world.sweep("r1")
    world.settle(writer, world.ids(), OutcomeKind.HELD, id="held-1", swept=3)
    world.sweep("r2")
    world.settle(writer, world.ids(), OutcomeKind.REFUSED)
    assert world.store.read_holds(TARGET.uid)[SCOPE].outcome_id == "held-1"


def test_a_release_waits_for_the_sweep_that_carries_it(world: World, writer: Fence):
    """J23: one that was on its way before does not use it up."""
    world.sweep("r1")
    world.settle(writer, world.ids(), OutcomeKind.HELD, id="held-1")
    world.sweep("r2")
    world.store.release_hold(TARGET.uid, "held-1")
    world.settle(writer, world.ids(), applied_scope=SCOPE, applied_fingerprint="fp")
    world.sweep("r3", wanted=1)
    assert [sweep.released_hold for sweep in world.sweeps()] == ["held-1"]


def test_staging_goes_although_its_entry_is_gone(world: World, writer: Fence):
    """J5, J16: a settlement names the staging that it ends."""
    world.sweep("r1")
    ids = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary(ids))
    world.store.client.xdel(keys.journal(BRANCH), *ids)
    world.settle(writer, ids, OutcomeKind.VOID, boundary_id="w1", staging_ids=("r1",))
    assert world.store.read_staging(BRANCH, "r1") is None


def test_a_settlement_without_a_push_moves_neither_base_nor_clock(world: World, writer: Fence):
    """J16: only a push is a push, and only what was seen on the remote is a base."""
    world.append(event("x"), event("y"))
    x, y = world.ids()
    world.settle(writer, [x], new_base="tip", pushed=True)
    key = keys.branch_part(BRANCH, "record")
    world.store.client.hset(key, "last_push", 5)
    world.settle(writer, [y], OutcomeKind.NO_CHANGE)
    record = world.store.read_branch(BRANCH)
    assert (record.base, record.last_push_ms) == ("tip", 5)
    assert not world.store.client.exists(keys.target_part(TARGET.uid, "applied"))


def test_a_rewrite_stays_noted_while_its_tip_is_the_base(world: World, writer: Fence):
    """J19: settling on the same tip is no reason to replay everything again."""
    world.append(event())
    world.store.note_rewrite(BRANCH, writer, "tip")
    world.settle(writer, world.ids(), OutcomeKind.NO_CHANGE, new_base="tip")
    assert not world.store.note_rewrite(BRANCH, writer, "tip")


def test_settling_a_started_sweep_spares_the_one_behind_it(world: World, writer: Fence):
    """J5: the newer one can still be superseded by the next, and is not run beside it."""
    world.sweep("r1")
    (first,) = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary([first]))
    world.sweep("r2")
    assert world.settle(writer, [first], boundary_id="w1")
    world.sweep("r3")
    assert [sweep.replay_id for sweep in world.sweeps()] == ["r3"]


def test_only_the_holder_forgets_an_empty_branch(world: World, writer: Fence):
    """A late writer takes nothing away; the holder leaves no trace."""
    world.store.wake_branch(BRANCH)
    late = dataclasses.replace(writer, number=writer.number + 1)
    assert not world.store.forget_branch(BRANCH, late)
    assert world.store.client.hexists(keys.BRANCHES, BRANCH.id)
    assert world.store.forget_branch(BRANCH, writer)
    assert world.store.client.zscore(keys.DUE, BRANCH.id) is None
    assert not world.store.client.hexists(keys.lease_index(LeaseKind.BRANCH), BRANCH.id)


def test_the_provider_check_notes_a_rewrite_without_a_lease(world: World):
    """J19: an idle branch has no writer that could."""
    world.append(event())
    assert world.store.note_rewrite(BRANCH, None, "tip")
    assert world.store.read_marks(TARGET.uid)[SCOPE].needs_replay


def test_a_park_ends_by_its_time_or_by_its_reason(world: World):
    """J14: with a time it is over then; with a reason alone it stays."""
    store = world.store
    now = store.time_ms()
    store.park(SCOPE, "Backoff", 60_000)
    assert not store.read_marks(TARGET.uid)[SCOPE].is_parked(now + 600_000)
    store.park(SCOPE, "PathRefused", 0)
    assert store.read_marks(TARGET.uid)[SCOPE].is_parked(now + 10**9)


# -- what is told


def test_watchers_hear_of_every_wish(world: World, writer: Fence):
    """J14: whatever raises, parks or frees a mark is told at once."""
    store, topic = world.store, {f"wanted:{TARGET.uid}"}
    world.append(event())
    field = digest_field(event().object)
    world.settle(writer, world.ids(), OutcomeKind.PUSHED, digests={field: DigestRecord("h", "b", 1)})
    assert heard(world, lambda: store.raise_wanted(SCOPE)) >= topic
    assert heard(world, lambda: store.raise_wanted([SCOPE, Scope("uid-b", "secrets")])) >= topic
    assert heard(world, lambda: store.unpark(SCOPE)) >= topic
    assert heard(world, lambda: store.forget_digests(BRANCH, writer, SCOPE, [field])) >= topic
    world.append(event())
    wish = (ReplayWish(SCOPE),)
    assert heard(world, lambda: world.settle(writer, world.ids(), OutcomeKind.REFUSED, wishes=wish)) >= topic
    assert heard(world, lambda: store.note_rewrite(BRANCH, writer, "tip")) >= topic


def test_the_outcome_of_a_request_is_told(world: World, writer: Fence):
    """J7: its controller need not wait for its next look; nor those of the target and the history."""
    world.store.append_attach(BRANCH, world.fence, attach("cr-1"))
    told = heard(world, lambda: world.settle(writer, world.ids(), OutcomeKind.RETIRED))
    assert told >= {"request:cr-1", f"target:{TARGET.uid}", "outcomes"}
