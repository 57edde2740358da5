"""Boundaries, intents, settlements and what they leave: J13 to J16, J19, J20, J22, J23."""

from __future__ import annotations

import dataclasses

import pytest

from reverser.store import keys
from reverser.store.model import (
    AppendStatus,
    BranchKey,
    DigestRecord,
    Fence,
    Intent,
    IntentWindow,
    Marks,
    Outcome,
    OutcomeKind,
    ReplayWish,
    RetireEntry,
    Scope,
    digest_field,
)
from tests.store.world import BRANCH, SCOPE, TARGET, World, attach, boundary, event, unsealed

FIELD = digest_field(event().object)


@pytest.fixture
def writer(world: World) -> Fence:
    return world.writer()


def _intent(ident: str, *windows: str) -> Intent:
    return Intent(ident, "tip0", f"tip-{ident}", tuple(IntentWindow(w, (), f"c-{w}") for w in windows))


def test_a_boundary_is_stored_once_and_never_moves(world: World, writer: Fence):
    """J13: the same again is fine, another under its name or over its entries is not."""
    world.append(event("x"), event("y"), event("z"))
    ids = world.ids()
    first = boundary(ids[:2])
    store = world.store
    assert store.store_boundary(BRANCH, writer, first)
    assert store.store_boundary(BRANCH, writer, first)
    assert not store.store_boundary(BRANCH, writer, boundary(ids))
    assert not store.store_boundary(BRANCH, writer, boundary(ids[1:], "w2"))
    assert not store.store_boundary(BRANCH, writer, boundary(["1-1"], "w3"))
    assert store.store_boundary(BRANCH, writer, boundary(ids[2:], "w0"))
    assert [b.id for b in store.read_boundaries(BRANCH)] == ["w1", "w0"]
    assert store.read_boundaries(BRANCH)[0] == first


def test_a_bound_request_belongs_to_one_boundary(world: World, writer: Fence):
    """J13: an attach cannot be bound twice."""
    world.append(event("x"), event("y"))
    world.store.append_attach(BRANCH, world.fence, attach())
    x, y, request = world.ids()
    assert world.store.store_boundary(BRANCH, writer, boundary([x], "w1", attach_id=request))
    assert not world.store.store_boundary(BRANCH, writer, boundary([y], "w2", attach_id=request))


def test_everything_is_fenced(world: World, writer: Fence):
    """A late writer changes nothing at all."""
    world.append(event())
    ids = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary(ids))
    late = dataclasses.replace(writer, number=writer.number - 1)
    store = world.store
    assert not store.store_boundary(BRANCH, late, boundary(ids, "w2"))
    assert not store.store_intent(BRANCH, late, _intent("i1", "w1"))
    assert not world.settle(late, ids, boundary_id="w1")
    assert not store.note_rewrite(BRANCH, late, "tip")
    assert not store.note_refusal(BRANCH, late, _intent("i1", "w1"))
    assert not store.forget_branch(BRANCH, late)
    assert not store.forget_digests(BRANCH, late, SCOPE, [FIELD])
    assert world.ids() == ids
    assert store.read_outcomes() == []


def test_settling_is_one_step(world: World, writer: Fence):
    """J16: entries, boundary, bytes go; outcome, digests, last push, marks and base are there."""
    world.append(event())
    world.store.append_attach(BRANCH, world.fence, attach())
    x, request = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary([x], attach_id=request))
    digest = DigestRecord("hmac", "blob", 3)
    done = world.settle(
        writer,
        [x, request],
        boundary_id="w1",
        commit="c1",
        request_uid="cr-1",
        digests={FIELD: digest},
        wishes=(ReplayWish(SCOPE, "TemplateInvalid", 5000),),
        new_base="c1",
        pushed=True,
    )
    store = world.store
    assert done
    assert world.ids() == [] == store.read_boundaries(BRANCH)
    assert store.read_unsettled_bytes(BRANCH) == {}
    assert store.read_digests(TARGET.uid, [FIELD, "other"]) == {FIELD: digest}
    assert store.attach_outcome("cr-1").commit == "c1"
    now = store.time_ms()
    marks = store.read_marks(TARGET.uid)[SCOPE]
    assert (marks.wanted, marks.parked_reason, marks.attempts) == (1, "TemplateInvalid", 1)
    assert marks.is_parked(now)
    assert not marks.is_parked(now + 6000)
    record = store.read_branch(BRANCH)
    assert (record.base, record.entries, record.unsettled_bytes) == ("c1", 0, 0)
    assert 0 < store.last_push(TARGET.uid) == record.last_push_ms <= now
    assert store.read_base(BRANCH) == "c1"
    assert store.read_bases([BranchKey("a", "b", "c"), BRANCH]) == {BRANCH: "c1"}
    ((_, outcome),) = store.read_outcomes()
    assert (outcome.kind, outcome.commit, outcome.request_uid) == (OutcomeKind.PUSHED, "c1", "cr-1")


def test_settling_twice_writes_once(world: World, writer: Fence):
    """A settlement whose answer was lost is repeated: true, and nothing doubled."""
    world.append(event())
    ids = world.ids()
    wish = (ReplayWish(SCOPE),)
    assert world.settle(writer, ids, wishes=wish)
    assert world.settle(writer, ids, wishes=wish)
    assert len(world.store.read_outcomes()) == 1
    assert world.store.read_marks(TARGET.uid)[SCOPE].wanted == 1


def test_finalized_entries_leave_with_their_window_only(world: World, writer: Fence):
    """J22: retiring what is outside finalized windows cannot touch what is inside."""
    world.append(event("x"), event("y"))
    x, y = world.ids()
    world.store.store_boundary(BRANCH, writer, boundary([x]))
    assert not world.settle(writer, [x, y], OutcomeKind.RETIRED)
    assert world.ids() == [x, y]
    assert world.settle(writer, [y], OutcomeKind.RETIRED)
    assert world.settle(writer, [x], boundary_id="w1")


def test_an_intent_goes_with_the_last_window_it_names(world: World, writer: Fence):
    """J15: several windows in one push settle one by one; an older intent of the same windows goes too."""
    world.append(event("x"), event("y"))
    x, y = world.ids()
    store = world.store
    store.store_boundary(BRANCH, writer, boundary([x], "w1"))
    store.store_boundary(BRANCH, writer, boundary([y], "w2"))
    assert store.store_intent(BRANCH, writer, _intent("i1", "w1", "w2"))
    assert store.store_intent(BRANCH, writer, _intent("i2", "w1"))
    assert [intent.id for intent in store.read_intents(BRANCH)] == ["i1", "i2"]
    world.settle(writer, [x], boundary_id="w1", intent_id="i2")
    assert store.read_intents(BRANCH) == [_intent("i1", "w1", "w2")]
    world.settle(writer, [y], boundary_id="w2", intent_id="i1")
    assert store.read_intents(BRANCH) == []


def test_an_intent_needs_its_boundaries(world: World, writer: Fence):
    """J15: a push of something that is settled already must not be prepared."""
    assert not world.store.store_intent(BRANCH, writer, _intent("i1", "w1"))


def test_a_void_sweep_asks_again(world: World, writer: Fence):
    """J5, J14: missing staging settles as void with a wish, and the scope needs a replay."""
    world.sweep("r1", wanted=0)
    world.store.client.delete(keys.staging(BRANCH, "r1"))
    assert world.store.read_staging(BRANCH, "r1") is None
    world.settle(writer, world.ids(), OutcomeKind.VOID, wishes=(ReplayWish(SCOPE),))
    assert world.store.read_marks(TARGET.uid)[SCOPE].needs_replay


def test_settling_a_sweep_deletes_its_staging(world: World, writer: Fence):
    """J5: whatever became of it; a later sweep is not mistaken for it."""
    world.sweep("r1")
    world.settle(writer, world.ids(), OutcomeKind.REFUSED)
    assert world.store.read_staging(BRANCH, "r1") is None
    assert world.sweep("r2") is AppendStatus.OK
    assert len(world.store.read_outcomes()) == 1


def test_an_applied_sweep_clears_the_back_off(world: World, writer: Fence):
    """J14: attempts count since one was last applied; the park is lifted with it."""
    for n in range(2):
        world.sweep(f"r{n}", wanted=n)
        world.settle(writer, world.ids(), OutcomeKind.REFUSED, wishes=(ReplayWish(SCOPE, "", 10_000),))
    assert world.store.read_marks(TARGET.uid)[SCOPE].attempts == 2
    world.sweep("r9", wanted=2)
    world.settle(writer, world.ids(), applied_scope=SCOPE, applied_fingerprint="fp")
    assert world.store.read_marks(TARGET.uid)[SCOPE] == Marks(wanted=2, replayed=2)


def test_marks_can_be_parked_and_freed(world: World):
    """J14: a park with a reason stays until it is lifted; raising without one leaves it."""
    store = world.store
    store.raise_wanted(SCOPE, parked_reason="PathRefused")
    store.raise_wanted([SCOPE, Scope("uid-b", "secrets", "shop")])
    marks = store.read_marks(TARGET.uid)[SCOPE]
    assert (marks.wanted, marks.parked_reason) == (2, "PathRefused")
    assert marks.is_parked(store.time_ms() + 10**9)
    store.unpark(SCOPE)
    assert not store.read_marks(TARGET.uid)[SCOPE].is_parked(store.time_ms())
    store.park(SCOPE, "Backoff", 60_000)
    assert store.read_marks(TARGET.uid)[SCOPE].is_parked(store.time_ms())
    assert store.read_marks("uid-b") == {Scope("uid-b", "secrets", "shop"): Marks(wanted=1)}


def test_a_rewrite_is_noted_once_per_tip(world: World, writer: Fence):
    """J19: every scope of the branch replays, the tip is the new base; later it counts again."""
    world.append(event())
    store = world.store
    assert store.branch_scopes(BRANCH) == {SCOPE}
    assert store.note_rewrite(BRANCH, writer, "tip1")
    assert not store.note_rewrite(BRANCH, writer, "tip1")
    assert not store.note_rewrite(BRANCH, None, "tip1")
    assert store.read_marks(TARGET.uid)[SCOPE].wanted == 1
    assert store.read_base(BRANCH) == "tip1"
    world.settle(writer, world.ids(), new_base="ours", pushed=True)
    assert store.note_rewrite(BRANCH, writer, "tip1")
    assert store.read_marks(TARGET.uid)[SCOPE].wanted == 2


def test_a_branch_that_vanished_is_a_tip_too(world: World, writer: Fence):
    """J19: the empty tip is noted once as well."""
    world.append(event())
    assert world.store.note_rewrite(BRANCH, writer, "")
    assert not world.store.note_rewrite(BRANCH, writer, "")
    assert world.store.read_base(BRANCH) == ""


def test_a_retired_target_is_no_longer_a_scope_of_the_branch(world: World, writer: Fence):
    """J22, J19: nobody asks a target that is gone for a replay."""
    world.append(event())
    world.store.append_retire(BRANCH, RetireEntry(TARGET))
    world.settle(writer, world.ids(), OutcomeKind.RETIRED)
    assert world.store.branch_scopes(BRANCH) == set()
    world.store.raise_wanted(SCOPE)
    world.store.forget_target(TARGET.uid)
    assert world.store.read_marks(TARGET.uid) == {}


def test_recipients_have_generations(world: World):
    """J20: another set is another generation, another order is not; a late watcher writes none."""
    store = world.store
    assert store.read_recipients(TARGET.uid) is None
    assert store.write_recipients(TARGET.uid, world.fence, ["age1b", "age1a"]) == 1
    assert store.write_recipients(TARGET.uid, world.fence, ["age1a", "age1b", "age1a"]) == 1
    assert store.write_recipients(TARGET.uid, world.fence, ["age1c"]) == 2
    late = dataclasses.replace(world.fence, token="late")
    assert store.write_recipients(TARGET.uid, late, ["age1x"]) is None
    read = store.read_recipients(TARGET.uid)
    assert (read.generation, read.recipients) == (2, ("age1c",))


def test_a_foreign_blob_costs_the_digest_and_asks_for_a_replay(world: World, writer: Fence):
    """J20: one script, and only if there was a digest."""
    store = world.store
    assert store.forget_digests(BRANCH, writer, SCOPE, [FIELD])
    assert store.read_marks(TARGET.uid) == {}
    world.append(event())
    world.settle(writer, world.ids(), digests={FIELD: DigestRecord("h", "b", 1)})
    assert store.forget_digests(BRANCH, writer, SCOPE, [FIELD])
    assert store.read_digests(TARGET.uid, [FIELD]) == {}
    assert store.read_marks(TARGET.uid)[SCOPE].wanted == 1


def test_a_digest_is_deleted_by_its_settlement(world: World, writer: Fence):
    """J20: a deleted object leaves none behind."""
    world.append(event())
    world.settle(writer, world.ids(), digests={FIELD: DigestRecord("h", "b", 1)})
    world.append(event())
    world.settle(writer, world.ids(), digests={FIELD: None})
    assert world.store.read_digests(TARGET.uid, [FIELD]) == {}


def test_an_unsealed_object_is_shown_once_per_reason(world: World, writer: Fence):
    """J20: the same again is no new outcome, another reason is; a written object is cleared."""

    def refuse(reason: str) -> int:
        world.append(unsealed("x", reason))
        assert world.settle(writer, world.ids(), OutcomeKind.UNSEALED, reason=reason)
        return len(world.store.read_outcomes())

    assert [refuse("A"), refuse("A"), refuse("B")] == [1, 1, 2]
    assert world.store.read_unsealed(TARGET.uid) == {FIELD: "B"}
    world.append(event("x"))
    world.settle(writer, world.ids())
    assert world.store.read_unsealed(TARGET.uid) == {}
    refuse("A")
    world.store.clear_unsealed(TARGET.uid, [FIELD])
    assert world.store.read_unsealed(TARGET.uid) == {}


def test_a_held_sweep_is_released_by_its_name(world: World, writer: Fence):
    """J23: the release raises wanted, and only the sweep of that generation runs without the brake."""
    store = world.store
    world.sweep("r1")
    world.settle(writer, world.ids(), OutcomeKind.HELD, id="held-1", swept=40)
    hold = store.read_holds(TARGET.uid)[SCOPE]
    assert (hold.outcome_id, hold.held) == ("held-1", 40)
    assert store.read_staging(BRANCH, "r1") is None
    assert not store.release_hold(TARGET.uid, "another")

    assert store.release_hold(TARGET.uid, "held-1")
    assert store.release_hold(TARGET.uid, "held-1")
    assert store.read_marks(TARGET.uid)[SCOPE].wanted == 1
    world.sweep("r2", wanted=0)
    world.sweep("r3", wanted=1)
    assert [sweep.released_hold for sweep in world.sweeps()] == ["held-1"]
    world.settle(writer, world.ids(), applied_scope=SCOPE, applied_fingerprint="fp")
    assert store.read_holds(TARGET.uid) == {}
    world.sweep("r4", wanted=1)
    assert [sweep.released_hold for sweep in world.sweeps()] == [""]


def test_a_sweep_read_before_the_release_keeps_the_brake(world: World, writer: Fence):
    """J23: its generation is older."""
    world.sweep("r1")
    world.settle(writer, world.ids(), OutcomeKind.HELD, id="held-1")
    world.store.release_hold(TARGET.uid, "held-1")
    world.sweep("r2", wanted=0)
    assert [sweep.released_hold for sweep in world.sweeps()] == [""]


def test_every_request_of_a_settlement_gets_its_answer(world: World, writer: Fence):
    """J7: requests of a retired target, each with an outcome of its own."""
    for uid in ("cr-1", "cr-2"):
        world.store.append_attach(BRANCH, world.fence, attach(uid))
    answers = {
        uid: Outcome(f"o-{uid}", OutcomeKind.RETIRED, BRANCH, TARGET, request_uid=uid)
        for uid in ("cr-1", "cr-2")
    }
    world.settle(writer, world.ids(), OutcomeKind.RETIRED, attach_outcomes=answers)
    assert world.store.attach_outcome("cr-2").id == "o-cr-2"
    assert {outcome.id for _, outcome in world.store.read_outcomes()} >= {"o-cr-1", "o-cr-2"}


def test_no_request_stays_without_an_answer(world: World, writer: Fence):
    """J7: an attach that is settled has the outcome of its settlement, whoever forgot to name it."""
    world.store.append_attach(BRANCH, world.fence, attach("cr:1%"))
    world.settle(writer, world.ids(), OutcomeKind.RETIRED, id="o1")
    assert world.store.attach_outcome("cr:1%").id == "o1"
    assert world.store.append_attach(BRANCH, world.fence, attach("cr:1%")) is AppendStatus.TERMINAL


def test_bytes_never_drift(world: World, writer: Fence):
    """J8: what is counted is what is there, whatever came and went."""
    world.append(event("x"), event("y", b"z" * 77))
    world.sweep("r1")
    world.sweep("r2")
    world.store.append_attach(BRANCH, world.fence, attach())
    entries = world.store.read_entries(BRANCH)
    assert world.store.read_unsettled_bytes(BRANCH)[""] == sum(stored.size for stored in entries)
    world.settle(writer, world.ids()[:2])
    entries = world.store.read_entries(BRANCH)
    assert world.store.read_unsettled_bytes(BRANCH)[""] == sum(stored.size for stored in entries)
    world.settle(writer, world.ids(), OutcomeKind.RETIRED)
    assert world.store.read_unsettled_bytes(BRANCH) == {}


def test_a_window_is_settled_unread(world: World, writer: Fence):
    """J16, J8, J20: where its bytes are given, its entries go in pages, and what is left is the same."""
    store = world.store
    world.append(unsealed("x1"))
    world.settle(writer, world.ids(), OutcomeKind.UNSEALED, reason="A")
    world.append(*(event(f"x{n}") for n in range(1200)))
    store.append_attach(BRANCH, world.fence, attach())
    world.append(event("later"))
    *events, request, later = store.read_entries(BRANCH)
    window = boundary([stored.id for stored in events], attach_id=request.id)
    assert store.store_boundary(BRANCH, writer, window)
    light = {
        "boundary_id": "w1",
        "attach_id": request.id,
        "event_bytes": sum(stored.size for stored in events),
        "sensitive": tuple(digest_field(stored.entry.object) for stored in events),
    }
    ids = [*window.entry_ids, request.id]
    assert not world.settle(dataclasses.replace(writer, token="late"), ids, id="o1", **light)
    assert world.settle(writer, ids, id="o1", **light)
    assert store.read_entries(BRANCH) == [later]
    assert store.read_unsettled_bytes(BRANCH)[""] == later.size
    assert not store.client.exists(keys.branch_part(BRANCH, "claimed"))
    assert store.attach_outcome("cr-1").id == "o1"
    assert store.read_unsealed(TARGET.uid) == {}
    assert world.settle(writer, ids, id="o1", **light)
    assert store.read_unsettled_bytes(BRANCH)[""] == later.size


@pytest.mark.parametrize("kind", [OutcomeKind.REFUSED, OutcomeKind.RETIRED])
def test_what_was_not_written_stays_unsealed(world: World, writer: Fence, kind: OutcomeKind):
    """J20: an object is shown as unsealed until it is in Git."""
    world.append(unsealed("x"))
    world.settle(writer, world.ids(), OutcomeKind.UNSEALED, reason="A")
    world.append(event("x"))
    (stored,) = world.store.read_entries(BRANCH)
    world.store.store_boundary(BRANCH, writer, boundary([stored.id]))
    light = {"boundary_id": "w1", "event_bytes": stored.size, "sensitive": (FIELD,)}
    assert world.settle(writer, [stored.id], kind, **light)
    assert world.store.read_unsealed(TARGET.uid) == {FIELD: "A"}


def test_without_its_boundary_a_window_is_read(world: World, writer: Fence):
    """J16: a Redis that went back in time may lack boundary and newest entries; the bytes stay right."""
    world.append(event("x"), event("y"))
    x, y = world.store.read_entries(BRANCH)
    world.store.client.xdel(keys.journal(BRANCH), y.id)
    world.store.client.hset(
        keys.branch_part(BRANCH, "bytes"), mapping={f"t:{TARGET.uid}": x.size, "all": x.size}
    )
    assert world.settle(writer, [x.id, y.id], boundary_id="w1", event_bytes=x.size + y.size)
    assert world.ids() == []
    assert world.store.read_unsettled_bytes(BRANCH) == {}


def test_outcomes_are_read_on(world: World, writer: Fence):
    """A reader continues after the id it had, and may wait a little."""
    for n in range(3):
        world.append(event())
        world.settle(writer, world.ids(), id=f"o{n}")
    (first_id, first), *_ = world.store.read_outcomes("", 1)
    assert first.id == "o0"
    rest = world.store.read_outcomes(first_id)
    assert [outcome.id for _, outcome in rest] == ["o1", "o2"]
    assert world.store.read_outcomes(rest[-1][0], 10, 30) == []


def test_a_push_whose_window_was_settled_otherwise_may_still_land(world: World, writer: Fence):
    """J15: it is remembered for an hour, and found in the history it asks for replays once."""
    world.append(event("x"), event("y"))
    x, y = world.ids()
    store = world.store
    store.store_boundary(BRANCH, writer, boundary([x], "w1"))
    store.store_boundary(BRANCH, writer, boundary([y], "w2"))
    store.store_intent(BRANCH, writer, _intent("i1", "w1"))
    store.store_intent(BRANCH, writer, _intent("i2", "w2"))
    world.settle(writer, [x], OutcomeKind.REFUSED, boundary_id="w1")
    world.settle(writer, [y], boundary_id="w2", pushed=True)
    assert store.read_intents(BRANCH) == []
    assert store.read_strays(BRANCH) == [_intent("i1", "w1")]
    assert 3500 < store.client.ttl(keys.branch_part(BRANCH, "strays")) <= 3600
    assert not store.note_stray(BRANCH, dataclasses.replace(writer, token="late"), "i1")
    assert store.note_stray(BRANCH, writer, "i1")
    assert store.note_stray(BRANCH, writer, "i1")
    assert store.read_marks(TARGET.uid)[SCOPE].wanted == 1
    assert store.read_strays(BRANCH) == []


def test_pushes_that_the_remote_refused_do_not_pile_up(world: World, writer: Fence):
    """J15: one is remembered for an hour after the refusal; one that had no answer, until it is settled."""
    world.append(event("x"))
    store, now = world.store, world.store.time_ms()
    store.store_boundary(BRANCH, writer, boundary(world.ids(), "w1"))
    ages = {"old": 3_600_001, "young": 3_000_000, "last": 0}
    refused = {
        name: dataclasses.replace(_intent(name, "w1"), refused_ms=now - age) for name, age in ages.items()
    }
    store.store_intent(BRANCH, writer, _intent("unanswered", "w1"))
    for intent in refused.values():
        store.store_intent(BRANCH, writer, dataclasses.replace(intent, refused_ms=0))
        assert store.note_refusal(BRANCH, writer, intent)
    assert store.read_intents(BRANCH) == [_intent("unanswered", "w1"), refused["young"], refused["last"]]
    assert store.note_refusal(BRANCH, writer, refused["old"])
    assert [intent.id for intent in store.read_intents(BRANCH)] == ["unanswered", "young", "last"]
    world.settle(writer, world.ids(), boundary_id="w1", pushed=True)
    assert store.read_intents(BRANCH) == []


def test_a_deleted_request_is_withdrawn(world: World, writer: Fence):
    """J7: only a request without an outcome is withdrawn, and it is never appended again."""
    store, request = world.store, attach()
    assert not store.withdraw_attach(request.uid)
    assert store.append_attach(BRANCH, world.fence, request) is AppendStatus.OK
    assert store.withdrawn([request.uid, "other"]) == frozenset()
    assert store.withdraw_attach(request.uid)
    assert not store.withdraw_attach(request.uid)
    assert store.withdrawn([request.uid, "other"]) == {request.uid}
    assert store.attach_outcome(request.uid) is None
    assert not store.attach_pending(request.uid)
    assert store.append_attach(BRANCH, world.fence, request) is AppendStatus.TERMINAL
