"""When windows open and close, and what is in them."""

from __future__ import annotations

import pytest

from gitwriter.windows import ClosedWindow, SweepUnit, TargetSettings, plan_windows
from reverser.store.model import CloseReason, Operation
from tests.windows.build import LIMIT, SECRETS, T0, Journal, frozen, seconds, settings


def _windows(plan) -> list[ClosedWindow]:
    return [unit for unit in plan.closed if isinstance(unit, ClosedWindow)]


def _shape(plan) -> list[tuple[float, str, str, list[str]]]:
    return [
        (
            seconds(unit.boundary.closed_ms),
            unit.boundary.author.username if unit.boundary.author else "",
            str(unit.boundary.reason),
            [f"{folded.event.operation} {folded.event.object.name}" for folded in unit.events],
        )
        for unit in _windows(plan)
    ]


def test_silence_and_another_author_close_windows_in_order():
    """Alice, alice, bob, alice at 0, 3, 6, 12 s with 5 s of silence: three windows at 6, 11 and 17 s."""
    journal = Journal()
    journal.event(0, "alice", "a", operation=Operation.CREATE)
    journal.event(3, "alice", "b")
    journal.event(6, "bob", "a")
    journal.event(12, "alice", "b", operation=Operation.DELETE)

    assert _shape(journal.plan(20)) == [
        (6, "alice", "author-or-target-change", ["CREATE a", "UPDATE b"]),
        (11, "bob", "timer", ["UPDATE a"]),
        (17, "alice", "timer", ["DELETE b"]),
    ]


def test_last_write_wins_at_the_place_of_the_first():
    """D06: CREATE x, CREATE y, UPDATE x gives [UPDATE x, CREATE y], and what was replaced is named."""
    journal = Journal()
    first = journal.event(0, "alice", "x", operation=Operation.CREATE)
    journal.event(1, "alice", "y", operation=Operation.CREATE)
    journal.event(2, "alice", "x", body=b'{"v":2}')

    (window,) = _windows(journal.plan(8))

    assert [f"{e.event.operation} {e.event.object.name}" for e in window.events] == ["UPDATE x", "CREATE y"]
    assert window.events[0].replaced == (first,)
    assert window.events[0].event.body == b'{"v":2}'
    assert len(window.boundary.entry_ids) == 3


def test_delete_and_recreate_in_one_window_is_one_change():
    """D08: a DELETE followed by a CREATE of the same name is the CREATE."""
    journal = Journal()
    journal.event(0, "alice", "x", operation=Operation.DELETE, body=b"")
    journal.event(1, "alice", "x", operation=Operation.CREATE)

    (window,) = _windows(journal.plan(8))

    assert [e.event.operation for e in window.events] == [Operation.CREATE]


def test_collapsing_never_crosses_an_author():
    """A, B, A on one object are three windows."""
    journal = Journal()
    for at, author in ((0, "alice"), (1, "bob"), (2, "alice")):
        journal.event(at, author, "x")

    assert [who for _, who, _, _ in _shape(journal.plan(10))] == ["alice", "bob", "alice"]


def test_two_types_of_one_author_share_a_window():
    """D26: another type of the same author and target does not close the window."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.event(0.5, "alice", "x", type=SECRETS)

    (window,) = _windows(journal.plan(10))

    assert len(window.events) == 2


def test_unattributed_changes_are_an_identity_like_any_other():
    """The empty author shares windows with itself only."""
    journal = Journal()
    journal.event(0, "", "x")
    journal.event(1, "", "y")
    journal.event(2, "alice", "z")

    assert [(who, len(events)) for _, who, _, events in _shape(journal.plan(10))] == [("", 2), ("alice", 1)]


def test_another_target_closes_the_window():
    """A commit covers one target."""
    journal = Journal()
    journal.event(0, "alice", "x", on="a")
    journal.event(1, "alice", "x", on="b")

    assert [reason for _, _, reason, _ in _shape(journal.plan(10))] == ["author-or-target-change", "timer"]


def test_window_zero_commits_every_event():
    """D05: each event is its own window, in order, at once."""
    journal = Journal()
    for v in range(4):
        journal.event(0, "alice", "x", body=str(v).encode())

    plan = journal.plan(0, settings(window=0))

    assert [w.events[0].event.body for w in _windows(plan)] == [b"0", b"1", b"2", b"3"]
    assert {w.boundary.reason for w in _windows(plan)} == {CloseReason.COMMIT_WINDOW_ZERO}
    assert plan.open is None


def test_the_event_that_reaches_the_limit_is_inside():
    """D21: the window closes with the event that reached the limit; replaced versions count."""
    journal = Journal()
    for n in range(40):
        journal.event(n * 0.1, "alice", "x", body=b"y" * 4096)

    plan = journal.plan(4, settings(window=60), limit=64 * 1024)

    assert [len(w.boundary.entry_ids) for w in _windows(plan)] == [16, 16]
    assert {w.boundary.reason for w in _windows(plan)} == {CloseReason.BUFFER_LIMIT}
    assert plan.open is not None
    assert plan.open.size == 8 * 4096


def test_the_open_window_says_when_to_look_again():
    """The due time is the silence of the last event, and every event restarts it."""
    journal = Journal()
    journal.event(0, "alice", "x")
    assert seconds(journal.plan(1).due_at_ms) == 5
    journal.event(3, "alice", "x")
    plan = journal.plan(4)
    assert seconds(plan.due_at_ms) == 8
    assert plan.closed == ()
    assert seconds(plan.open.opened_ms) == 0


def test_nothing_to_do_means_no_due_time():
    """An empty journal never needs to be looked at by itself."""
    plan = Journal().plan(0)
    assert (plan.due_at_ms, plan.last_id, plan.closed) == (None, "", ())


def test_a_changed_window_length_applies_to_the_next_plan():
    """D25: what is not finalized obeys the length that was read now."""
    journal = Journal()
    journal.event(0, "alice", "x")
    assert seconds(journal.plan(3, settings(window=20)).due_at_ms) == 20
    assert len(journal.plan(3, settings(window=2)).closed) == 1


def test_the_local_clock_closes_a_window_when_the_redis_clock_stands_still():
    """J12: a stepped Redis clock cannot keep a window open; the earlier clock decides."""
    journal = Journal()
    ident = journal.event(0, "alice", "x")

    early = journal.plan(0, local_now_ms=104_000, first_seen_ms={ident: 100_000})
    late = journal.plan(0, local_now_ms=105_000, first_seen_ms={ident: 100_000})

    assert (early.closed, seconds(early.due_at_ms)) == ((), 1)
    assert [reason for _, _, reason, _ in _shape(late)] == ["timer"]


def test_a_redis_clock_that_was_set_back_delays_nothing():
    """J12: time is never before the last stream id, and the due time is on the clock as it stands."""
    journal = Journal()
    ident = journal.event(3600, "alice", "x")
    set_back = {"now_ms": T0, "settings": settings(), "buffer_limit": LIMIT}
    first = {"local_now_ms": 1000, "first_seen_ms": {ident: 1000}}

    plan = plan_windows(journal.entries, (), **set_back, **first)

    assert seconds(plan.open.closes_at_ms) == 3605
    assert seconds(plan.due_at_ms) == 5
    later = plan_windows(journal.entries, (), **set_back, local_now_ms=6000, first_seen_ms={ident: 1000})
    assert len(later.closed) == 1
    assert seconds(plan_windows(journal.entries, (), **set_back).due_at_ms) == 5
    ended = plan_windows(journal.entries, (), **set_back, shutdown=True)
    assert seconds(ended.closed[0].boundary.closed_ms) == 3600


def test_shutdown_closes_the_open_window():
    """A process that ends writes what it has."""
    journal = Journal()
    journal.event(0, "alice", "x")
    plan = journal.plan(1, shutdown=True)
    assert [reason for _, _, reason, _ in _shape(plan)] == ["shutdown"]
    assert plan.due_at_ms is None
    journal.attach(1, "bob", delay=30)
    assert seconds(journal.plan(2, shutdown=True).due_at_ms) == 31


def test_a_first_sweep_closes_the_window_and_follows_it():
    """J6: window, then the sweep; the next event is in a new window behind it."""
    journal = Journal()
    journal.event(0, "alice", "x", on="b")
    journal.sweep(1, first=True)
    journal.event(2, "alice", "x", on="b")

    plan = journal.plan(10)

    assert [type(unit).__name__ for unit in plan.closed] == ["ClosedWindow", "SweepUnit", "ClosedWindow"]
    assert plan.closed[0].boundary.reason is CloseReason.SWEEP


def test_a_heal_waits_for_the_window():
    """J6: a heal cuts no window and runs when it closes by itself."""
    journal = Journal()
    journal.event(0, "alice", "x")
    heal = journal.sweep(1)
    journal.event(2, "alice", "y", type=SECRETS)

    assert journal.plan(3).open.parked == (heal,)
    plan = journal.plan(8)
    assert [type(unit).__name__ for unit in plan.closed] == ["ClosedWindow", "SweepUnit"]
    assert len(plan.closed[0].boundary.entry_ids) == 2
    assert plan.closed[1].heal


def test_a_heal_runs_at_once_when_no_window_is_open():
    """J6."""
    journal = Journal()
    journal.sweep(0)
    assert [type(unit) for unit in journal.plan(0).closed] == [SweepUnit]


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_an_entry_of_the_healed_scope_lets_the_heal_run_between(namespace):
    """J6: an event of (or inside) the parked heal's scope may not be overwritten by it."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.sweep(1)
    journal.event(2, "alice", "x", namespace=namespace)

    plan = journal.plan(3)

    assert [type(unit).__name__ for unit in plan.closed] == ["ClosedWindow", "SweepUnit"]
    assert plan.closed[0].boundary.reason is CloseReason.HEAL
    assert plan.open is not None


def test_a_retired_target_keeps_only_what_is_finalized():
    """J22: entries outside finalized windows are retired, the finalized window still goes."""
    journal = Journal()
    journal.event(0, "alice", "x")
    boundaries = journal.plan(6).new_boundaries
    journal.event(7, "alice", "y")
    attach = journal.attach(8, "alice")
    journal.sweep(8, first=True)
    journal.event(8, "alice", "z", on="b")
    journal.retire(9)

    plan = journal.plan(20, boundaries=boundaries)

    assert [unit.boundary.id for unit in plan.closed if unit.finalized] == [boundaries[0].id]
    assert len(plan.retired) == 4
    assert attach in [stored.id for stored in plan.retired]
    assert [w.boundary.target.name for w in _windows(plan)] == ["a", "b"]


def test_a_target_that_is_gone_is_retired_without_a_word():
    """J22: gone when read is enough."""
    journal = Journal()
    journal.event(0, "alice", "x")
    plan = journal.plan(9, settings(a=TargetSettings(5000, present=False)))
    assert ([stored.id for stored in plan.retired], plan.closed) == ([journal.entries[0].id], ())


def test_a_closed_gate_leaves_entries_unplanned_and_others_go_on():
    """J21: the target's entries wait; the other target's window is not cut by them."""
    journal = Journal()
    journal.event(0, "alice", "x", on="b")
    held = journal.event(1, "alice", "x", on="a")
    journal.event(2, "alice", "y", on="b")

    plan = journal.plan(10, settings(a=TargetSettings(5000, gate_open=False)))

    assert plan.unplanned == (held,)
    assert [len(w.boundary.entry_ids) for w in _windows(plan)] == [2]


def test_unknown_targets_wait():
    """Nothing is decided about a target that was not read."""
    journal = Journal()
    ident = journal.event(0, "alice", "x", on="c")
    assert journal.plan(10).unplanned == (ident,)


def test_unsealed_entries_cut_no_window():
    """J20: they are settled at once."""
    journal = Journal()
    journal.event(0, "alice", "x")
    ident = journal.unsealed(1)
    journal.event(2, "alice", "y")

    plan = journal.plan(3)

    assert [stored.id for stored in plan.unsealed] == [ident]
    assert len(plan.open.events) == 2


def test_stored_boundaries_never_move():
    """J13: a stored boundary is honoured whatever the settings say now, with what it froze."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.event(1, "alice", "y")
    stored = journal.plan(7).new_boundaries
    assert stored[0].frozen == frozen("a")

    plan = journal.plan(7, settings(window=0), boundaries=stored)

    assert [(unit.boundary, unit.finalized) for unit in plan.closed] == [(stored[0], True)]
    assert plan.new_boundaries == ()


def test_a_boundary_over_unread_entries_is_an_error():
    """Half a window must never be committed."""
    journal = Journal()
    journal.event(0, "alice", "x")
    boundaries = journal.plan(7).new_boundaries
    with pytest.raises(ValueError, match="not read"):
        Journal().plan(7, boundaries=boundaries)


def test_now_may_be_far_ahead():
    """A backlog is planned as it happened, not as it is found."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.event(7, "alice", "y")
    plan = journal.plan(3600)
    assert [seconds(w.boundary.closed_ms) for w in _windows(plan)] == [5, 12]
    assert plan.closed[0].boundary.closed_ms == T0 + 5000
