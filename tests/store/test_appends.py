"""Appending: J1 to J8 on a real Valkey."""

from __future__ import annotations

import dataclasses

import pytest

from reverser.store import Store, keys
from reverser.store.model import (
    AppendId,
    AppendStatus,
    Cursor,
    Limits,
    Marks,
    OutcomeKind,
    RetireEntry,
    Scope,
)
from tests.store.world import (
    BRANCH,
    SCOPE,
    TARGET,
    World,
    attach,
    boundary,
    event,
    staged,
    unsealed,
)


def test_the_epoch_is_made_once(store: Store):
    """J1: opening again gives the same epoch, until the data is gone."""
    first = store.open_journal(BRANCH)
    assert store.open_journal(BRANCH) == first == store.read_epoch(BRANCH)
    store.client.flushall()
    assert store.read_epoch(BRANCH) is None
    assert store.open_journal(BRANCH) != first


def test_entries_and_cursor_are_one_step(world: World):
    """J2: the entries come back as they went in, and the cursor stands at the given resourceVersion."""
    events = [event("x"), event("y", b""), unsealed()]
    assert world.append(*events, rv="12") is AppendStatus.OK
    read = world.store.read_entries(BRANCH)
    assert [stored.entry for stored in read] == events
    assert sum(stored.size for stored in read) == world.store.read_unsettled_bytes(BRANCH)[TARGET.uid]
    assert world.store.read_cursor(SCOPE) == Cursor("12", AppendId("session", 1), world.epoch, "fp")


def test_the_cursor_key_is_the_documented_one(world: World):
    """The bare resourceVersion under its documented name, for one hour."""
    world.append(rv="12")
    name = "gitops-reverser:watch:v1:target:uid-a:configmaps:cluster:last-rv"
    assert world.store.client.get(name) == b"12"
    assert 3500 < world.store.client.ttl(name) <= 3600
    odd = Scope("a:b%", "apps/deployments", "n:s")
    assert keys.cursor(odd) == (
        "gitops-reverser:watch:v1:target:a%3Ab%25:apps/deployments:namespace:n%3As:last-rv"
    )


def test_a_retried_append_is_not_a_second_entry(world: World):
    """J2: the same append id is answered with DUPLICATE, also when the resourceVersion is the same."""
    ident = world.next_id()
    assert world.append(event(), append_id=ident, expected=None) is AppendStatus.OK
    assert world.append(event(), append_id=ident, expected=None) is AppendStatus.DUPLICATE
    assert world.append(event(), expected=ident) is AppendStatus.OK
    assert len(world.ids()) == 2


def test_another_fence_changes_nothing(world: World):
    """J2: token and number are compared as a pair."""
    for fence in (
        dataclasses.replace(world.fence, token="other"),
        dataclasses.replace(world.fence, number=world.fence.number + 1),
    ):
        assert world.append(event(), fence=fence) is AppendStatus.FENCED
        assert world.sweep(fence=fence) is AppendStatus.FENCED
        assert world.store.append_attach(BRANCH, fence, attach()) is AppendStatus.FENCED
    assert world.ids() == []
    assert world.store.read_cursor(SCOPE) is None


def test_an_unexpected_cursor_ends_the_session(world: World):
    """J2: what another session stored is not overwritten."""
    world.append(event(), append_id=AppendId("old", 4), expected=None)
    assert world.append(event(), expected=None) is AppendStatus.CURSOR_MISMATCH
    assert world.append(event(), expected=AppendId("old", 3)) is AppendStatus.CURSOR_MISMATCH
    assert world.append(event(), expected=AppendId("old", 4)) is AppendStatus.OK


def test_an_expired_cursor_is_a_mismatch(world: World):
    """J4: a session whose cursor ran out has to look again."""
    world.append(event())
    world.store.client.delete(keys.cursor(SCOPE), keys.cursor_append(SCOPE))
    assert world.append(event()) is AppendStatus.CURSOR_MISMATCH


def test_another_epoch_is_refused(world: World):
    """J4: an append meant for a journal that is gone."""
    assert world.append(event(), epoch="stale") is AppendStatus.EPOCH_MISMATCH
    assert world.sweep(epoch="stale") is AppendStatus.EPOCH_MISMATCH
    assert world.ids() == []


def test_a_bookmark_moves_the_cursor_only(world: World):
    """J3: no entries, but the cursor; an empty resourceVersion never replaces one."""
    world.append(rv="20")
    world.append(rv="")
    assert world.ids() == []
    assert world.store.read_cursor(SCOPE).resource_version == "20"
    assert world.store.read_cursor(SCOPE).append_id == AppendId("session", 2)


def test_a_paused_shard_keeps_its_cursor(world: World):
    """J4: the time to live is refreshed without a write."""
    assert world.store.touch_cursor(SCOPE) is False
    world.append(rv="20")
    for name in (keys.cursor(SCOPE), keys.cursor_append(SCOPE)):
        world.store.client.expire(name, 600)
    assert world.store.touch_cursor(SCOPE) is True
    assert world.store.client.ttl(keys.cursor(SCOPE)) > 3500
    assert world.store.client.ttl(keys.cursor_append(SCOPE)) > 3500


def test_limits_are_on_what_is_unsettled(world: World):
    """J8: at the limit nothing is taken, a cursor still moves, and settling makes room."""
    world.append(event("x", b"y" * 1000))
    tight = Limits(500, 1 << 30)
    assert world.append(event(), limits=tight) is AppendStatus.FULL
    assert world.append(event(), limits=Limits(1 << 30, 500)) is AppendStatus.FULL
    assert world.sweep(limits=tight) is AppendStatus.FULL
    assert world.append(rv="30", limits=tight) is AppendStatus.OK
    assert world.settle(world.writer(), world.ids())
    assert world.append(event(), limits=tight) is AppendStatus.OK


def test_one_target_at_its_limit_does_not_stop_another(world: World):
    """J8: the target at fault stops first."""
    other = dataclasses.replace(TARGET, uid="uid-b", name="b")
    world.append(event("x", b"y" * 1000))
    bytes_now = world.store.read_unsettled_bytes(BRANCH)
    limits = Limits(500, 10_000)
    assert bytes_now[""] == bytes_now[TARGET.uid] > 1000
    from reverser.store.model import LeaseKind

    fence = world.lease(LeaseKind.TARGET, other.uid, "watcher-b")
    scope = Scope(other.uid, "configmaps")
    status = world.append(event(target=other), scope=scope, fence=fence, expected=None, limits=limits)
    assert status is AppendStatus.OK
    assert set(world.store.read_unsettled_bytes(BRANCH)) == {"", TARGET.uid, other.uid}


def test_a_sweep_takes_its_staging_with_it(world: World):
    """J5: the count is checked, the staging kept for good, its bytes counted, the cursor moved."""
    assert world.sweep("r1", staged("a", "b", body=b"z" * 500)) is AppendStatus.OK
    (sweep,) = world.sweeps()
    assert (sweep.count, sweep.replay_id, sweep.first) == (2, "r1", True)
    assert world.store.client.ttl(keys.staging(BRANCH, "r1")) == -1
    assert world.store.read_unsettled_bytes(BRANCH)[TARGET.uid] > 1000
    assert world.store.read_staging(BRANCH, "r1") == staged("a", "b", body=b"z" * 500)
    assert world.store.read_cursor(SCOPE).resource_version == "9"


def test_unfinished_staging_ages_out(world: World):
    """J5: staging without a sweep has a time to live."""
    world.store.stage(BRANCH, "r1", staged("a"))
    assert 0 < world.store.client.ttl(keys.staging(BRANCH, "r1")) <= 3600
    world.store.drop_staging(BRANCH, "r1")
    assert world.store.read_staging(BRANCH, "r1") is None


def test_staging_twice_counts_once(world: World):
    """A retried stage call cannot spoil the count, nor the bytes."""
    for _ in range(2):
        world.store.stage(BRANCH, "r1", staged("a", "b"))
    assert world.sweep("r1", []) is AppendStatus.STAGING_MISMATCH
    assert world.sweep("r1", [], count=2) is AppendStatus.OK


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_count_is_refused(world: World, count: int):
    """J5: an incomplete replay never becomes a sweep."""
    assert world.sweep("r1", count=count) is AppendStatus.STAGING_MISMATCH
    assert world.sweeps() == []


def test_an_empty_replay_is_authoritative(world: World):
    """An empty list sweeps; missing staging does not look like it."""
    assert world.sweep("r1", []) is AppendStatus.OK
    assert world.store.read_staging(BRANCH, "r1") == []
    assert world.store.read_staging(BRANCH, "r2") is None


def test_a_retried_sweep_is_recognised_by_its_replay(world: World):
    """J5: also after events followed, and also after the cursor ran out."""
    ident = world.next_id()
    assert world.sweep("r1", append_id=ident) is AppendStatus.OK
    world.append(event())
    assert world.sweep("r1", append_id=ident, expected=None) is AppendStatus.DUPLICATE
    world.store.client.delete(keys.cursor(SCOPE), keys.cursor_append(SCOPE))
    assert world.sweep("r1", append_id=ident, expected=None) is AppendStatus.DUPLICATE
    assert len(world.sweeps()) == 1


def test_a_newer_sweep_supersedes_one_that_was_not_started(world: World):
    """J5: the older entry and its staging go, with an outcome; bytes do not drift; a full scope has room."""
    world.sweep("r1", staged("a", body=b"z" * 900))
    assert world.sweep("r2", staged("b"), limits=Limits(500, 500)) is AppendStatus.OK
    (sweep,) = world.store.read_entries(BRANCH)
    assert sweep.entry.replay_id == "r2"
    assert world.store.read_staging(BRANCH, "r1") is None
    assert world.store.read_unsettled_bytes(BRANCH)[""] == sweep.size
    ((_, outcome),) = world.store.read_outcomes()
    assert (outcome.kind, outcome.target) == (OutcomeKind.SUPERSEDED, TARGET)
    assert outcome.settled_ms > 0


def test_a_started_sweep_is_not_superseded(world: World):
    """J5: once a boundary holds it, it runs, and the newer one follows."""
    world.sweep("r1")
    writer = world.writer()
    assert world.store.store_boundary(BRANCH, writer, boundary(world.ids()))
    assert world.sweep("r2") is AppendStatus.OK
    assert [sweep.replay_id for sweep in world.sweeps()] == ["r1", "r2"]


def test_a_late_sweep_cannot_turn_the_cursor_back(world: World):
    """A message of an earlier step of the same session that arrives late is refused."""
    late = world.next_id()
    world.append(event())
    assert world.sweep("r1", append_id=late, expected=None) is AppendStatus.CURSOR_MISMATCH
    assert world.sweep("r1", expected=AppendId("else", 1)) is AppendStatus.CURSOR_MISMATCH


def test_a_sweep_replaces_an_invalid_cursor(world: World):
    """J5: with nothing expected it is always appended."""
    world.append(event(), append_id=AppendId("old", 1))
    assert world.sweep("r1", expected=None) is AppendStatus.OK


def test_first_means_never_applied_under_this_fingerprint(world: World):
    """J6: refused or superseded sweeps do not count; each fingerprint counts for itself."""
    writer = world.writer()

    def run(replay: str, kind: OutcomeKind, fingerprint: str = "fp") -> bool:
        world.sweep(replay, fingerprint=fingerprint)
        (sweep,) = world.sweeps()
        applied = (
            {}
            if kind is OutcomeKind.REFUSED
            else {"applied_scope": SCOPE, "applied_fingerprint": fingerprint}
        )
        assert world.settle(writer, world.ids(), kind, **applied)
        return sweep.first

    assert run("r1", OutcomeKind.REFUSED) is True
    assert run("r2", OutcomeKind.PUSHED) is True
    assert run("r3", OutcomeKind.NO_CHANGE) is False
    assert run("r4", OutcomeKind.PUSHED, "fp2") is True
    assert run("r5", OutcomeKind.PUSHED) is False


def test_a_sweep_answers_the_wish_it_carries(world: World):
    """J14: replayed becomes the number that was read before the replay, never less."""
    world.store.raise_wanted(SCOPE)
    world.store.raise_wanted([SCOPE])
    world.sweep("r1", wanted=1)
    assert world.store.read_marks(TARGET.uid) == {SCOPE: Marks(wanted=2, replayed=1)}
    world.sweep("r2", wanted=2)
    world.sweep("r3", wanted=1)
    assert world.store.read_marks(TARGET.uid)[SCOPE].replayed == 2
    assert not world.store.read_marks(TARGET.uid)[SCOPE].needs_replay


def test_a_request_is_handed_over_once(world: World):
    """J7, I25, I26: pending is DUPLICATE, settled is TERMINAL, another UID is another request."""
    append = world.store.append_attach
    assert append(BRANCH, world.fence, attach()) is AppendStatus.OK
    assert append(BRANCH, world.fence, attach()) is AppendStatus.DUPLICATE
    assert world.store.attach_pending("cr-1")
    assert world.store.attach_outcome("cr-1") is None
    writer = world.writer()
    assert world.settle(writer, world.ids(), OutcomeKind.NO_WINDOW, request_uid="cr-1")
    assert append(BRANCH, world.fence, attach()) is AppendStatus.TERMINAL
    assert world.store.attach_outcome("cr-1").kind is OutcomeKind.NO_WINDOW
    assert 3500 < world.store.client.ttl(keys.request("cr-1")) <= 3600
    assert append(BRANCH, None, attach("cr-2")) is AppendStatus.OK


def test_requests_and_retirement_pass_the_limits(world: World):
    """They let a full branch move on."""
    world.append(event("x", b"y" * 1000))
    assert world.store.append_attach(BRANCH, world.fence, attach()) is AppendStatus.OK
    assert world.store.append_retire(BRANCH, RetireEntry(TARGET)) is AppendStatus.OK
    assert [type(s.entry).__name__ for s in world.store.read_entries(BRANCH)][1:] == [
        "AttachEntry",
        "RetireEntry",
    ]


def test_reading_is_incremental_and_bounded(world: World):
    """Pages by bytes, at least one entry each, nothing twice."""
    world.append(*(event(f"x{n}", b"y" * 100) for n in range(600)))
    first = world.store.read_entries(BRANCH, max_bytes=1)
    assert len(first) == 1
    ids, last = [], ""
    while page := world.store.read_entries(BRANCH, last, 50_000):
        ids += [stored.id for stored in page]
        last = ids[-1]
    assert ids == world.ids() == world.store.entry_ids(BRANCH)
    assert len(ids) == 600
    assert world.store.entry_ids(BRANCH, ids[-2]) == ids[-1:]
    assert world.store.entry_ids(BRANCH, ids[0], 2) == ids[1:3]


def test_what_went_away_inside_a_replay_is_unstaged(world: World):
    """J5: count and bytes are those of what is left, also when the call is repeated."""
    world.store.stage(BRANCH, "r1", staged("a", "b", body=b"z" * 500))
    for _ in range(2):
        world.store.unstage(BRANCH, "r1", [("shop", "a"), ("shop", "never")])
    assert world.sweep("r1", [], count=1) is AppendStatus.OK
    assert world.store.read_staging(BRANCH, "r1") == staged("b", body=b"z" * 500)
    assert 500 < world.store.read_unsettled_bytes(BRANCH)[TARGET.uid] < 1500


def test_a_plan_reads_no_texts(world: World):
    """J8, J9: what a dead remote lets pile up is planned on by its lengths; texts are read to be written."""
    bodies = [b"a" * 300, b"", b"c" * 500]
    world.append(*(event(f"x{n}", body) for n, body in enumerate(bodies)), unsealed())
    whole = world.store.read_entries(BRANCH)
    bare = world.store.read_entries(BRANCH, texts=False)
    assert [stored.entry for stored in bare] == [*(event(f"x{n}", b"") for n in range(3)), unsealed()]
    assert [(s.id, s.size, s.text) for s in bare] == [(s.id, s.size, s.text) for s in whole]
    assert [stored.text for stored in bare] == [300, 0, 500, 0]
    ids = [stored.id for stored in bare[:3]]
    assert world.store.read_texts(BRANCH, ids) == bodies
    assert world.store.read_texts(BRANCH, ids, 200) == bodies[:1]
    assert world.store.read_texts(BRANCH, [*ids[:1], "1-1", ids[2]]) == bodies[:1]
