"""CommitRequests: binding, deadlines, outcomes (J7)."""

from __future__ import annotations

from dataclasses import replace

from gitwriter.windows import ClosedWindow
from reverser.store.model import CloseReason, OutcomeKind
from tests.windows.build import Journal, seconds, settings


def _bound(plan) -> list[tuple[float, str, str, str]]:
    return [
        (
            seconds(unit.boundary.closed_ms),
            unit.boundary.request_uid,
            str(unit.boundary.reason),
            unit.boundary.message,
        )
        for unit in plan.closed
        if isinstance(unit, ClosedWindow)
    ]


def _due(plan) -> list[tuple[float, str, OutcomeKind]]:
    return [(seconds(due.due_ms), due.attach.uid, due.kind) for due in plan.attach_due]


LONG = settings(window=60)


def test_a_request_closes_its_window_with_its_message():
    """I01: a request without delay closes one second after it arrived, message verbatim."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.attach(4, "alice", message="Menu for spring\n\n- soup", uid="save")

    assert seconds(journal.plan(4, LONG).due_at_ms) == 5
    assert _bound(journal.plan(5, LONG)) == [(5, "uid-save", "finalize-signal", "Menu for spring\n\n- soup")]


def test_later_changes_join_until_the_deadline():
    """I03: at 9 s one commit of a, b, c; what comes at 15 s is in another window."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", delay=8)
    journal.event(5, "alice", "b")
    journal.event(7, "alice", "c")
    journal.event(15, "alice", "d")

    plan = journal.plan(20, LONG)

    assert [len(unit.events) for unit in plan.closed] == [3]
    assert seconds(plan.closed[0].boundary.closed_ms) == 9
    assert len(plan.open.events) == 1


def test_the_longest_delay():
    """R6: five minutes wait for a change, and end the window; silence after the change may end it sooner, and
    the message goes with it.
    """
    late, early = Journal(), Journal()
    for journal in (late, early):
        journal.attach(1, "alice", delay=300, message="m", uid="save")
    late.event(299, "alice", "a")
    early.event(2, "alice", "a")

    assert seconds(late.plan(2, LONG).due_at_ms) == 301
    assert _bound(late.plan(300, LONG)) == []
    assert _bound(late.plan(301, LONG)) == [(301, "uid-save", "finalize-signal", "m")]
    assert _bound(early.plan(61, LONG)) == []
    assert _bound(early.plan(62, LONG)) == [(62, "uid-save", "timer", "m")]


def test_the_request_may_come_first():
    """I05: it waits, and binds to the window when it opens."""
    journal = Journal()
    journal.attach(0, "alice", delay=6, message="all ten", uid="save")
    for n in range(10):
        journal.event(0.1, "alice", f"c{n}")

    plan = journal.plan(6, LONG)

    assert _bound(plan) == [(6, "uid-save", "finalize-signal", "all ten")]
    assert len(plan.closed[0].events) == 10
    assert plan.waiting == ()


def test_another_authors_window_is_neither_closed_nor_named():
    """I06: both of bob's requests end as a mismatch; alice's window closes by silence, unnamed."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(2, "bob", uid="one")
    journal.attach(3, "bob", delay=5, uid="two")

    plan = journal.plan(61, LONG)

    assert _due(plan) == [
        (3, "uid-one", OutcomeKind.WINDOW_MISMATCH),
        (8, "uid-two", OutcomeKind.WINDOW_MISMATCH),
    ]
    assert _bound(plan) == [(60, "", "timer", "")]


def test_another_targets_window_is_a_mismatch_too():
    """The identity is author and target."""
    journal = Journal()
    journal.event(0, "alice", "a", on="b")
    journal.attach(1, "alice", on="a", uid="one")
    assert _due(journal.plan(3, LONG)) == [(2, "uid-one", OutcomeKind.WINDOW_MISMATCH)]


def test_no_window_at_all():
    """Nothing to close by the deadline."""
    journal = Journal()
    journal.attach(0, "alice", delay=3, uid="one")
    assert journal.plan(2, LONG).attach_due == ()
    assert seconds(journal.plan(2, LONG).due_at_ms) == 3
    assert _due(journal.plan(3, LONG)) == [(3, "uid-one", OutcomeKind.NO_WINDOW)]


def test_another_author_closes_a_bound_window():
    """I08: the message and the request go with the window, whatever closed it."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", delay=30, message="mine", uid="save")
    journal.event(5, "bob", "b")

    plan = journal.plan(6, LONG)

    assert _bound(plan) == [(5, "uid-save", "author-or-target-change", "mine")]
    assert plan.attach_due == ()


def test_one_request_per_window_bound_on_receipt():
    """I10, first run: the first is bound on receipt, the second ends at its own deadline."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", delay=10, uid="one")
    journal.attach(2, "alice", delay=5, uid="two")

    plan = journal.plan(12, LONG)

    assert _bound(plan) == [(11, "uid-one", "finalize-signal", "")]
    assert _due(plan) == [(7, "uid-two", OutcomeKind.NO_WINDOW)]


def test_the_earlier_deadline_binds_when_the_window_opens():
    """I10, second run: the other waits for the next window until its own deadline."""
    journal = Journal()
    journal.attach(0, "alice", delay=10, uid="one")
    journal.attach(1, "alice", delay=5, uid="two")
    journal.event(2, "alice", "a")

    plan = journal.plan(7, LONG)
    assert [request for _, request, _, _ in _bound(plan)] == ["uid-two"]
    assert len(plan.waiting) == 1

    journal.event(8, "alice", "b")
    assert [request for _, request, _, _ in _bound(journal.plan(10, LONG))] == ["uid-two", "uid-one"]


def test_silence_may_close_a_bound_window_before_the_deadline():
    """Binding does not stop the silence timer."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", delay=30, message="m", uid="save")
    assert _bound(journal.plan(6, settings(window=5))) == [(5, "uid-save", "timer", "m")]


def test_window_zero_binds_a_waiting_request():
    """I21: with no window length the first change takes the waiting request with it; the next does not."""
    journal = Journal()
    journal.attach(0, "alice", delay=10, message="m", uid="save")
    journal.event(2, "alice", "a")
    journal.event(2, "alice", "b")

    plan = journal.plan(2, settings(window=0))

    assert _bound(plan) == [
        (2, "uid-save", "commit-window-zero", "m"),
        (2, "", "commit-window-zero", ""),
    ]


def test_without_attribution_a_request_takes_any_window_of_its_target():
    """I20: the request matches whatever the author of the target's window is."""
    journal = Journal()
    journal.event(0, "", "a")
    journal.attach(1, "alice", message="m", any_author=True, uid="save")
    assert _bound(journal.plan(2, LONG)) == [(2, "uid-save", "finalize-signal", "m")]


def test_a_blank_message_is_no_message():
    """Only a non-blank message replaces the generated one."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", message=" \n ", uid="save")
    assert _bound(journal.plan(2, LONG)) == [(2, "uid-save", "finalize-signal", "")]


def test_a_mismatch_stays_one_after_the_window_was_finalized():
    """The answer does not depend on whether the plan is made before or after a crash."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "bob", uid="one")
    before = journal.plan(70, LONG)
    after = journal.plan(70, LONG, boundaries=before.new_boundaries)
    assert _due(before) == _due(after) == [(2, "uid-one", OutcomeKind.WINDOW_MISMATCH)]


def test_the_answer_is_the_same_whenever_it_is_asked_for():
    """R9 at one millisecond: timers fire before an entry, and a window closes before a request gives up. What
    closed or opened then reads the same once it is finalized.
    """
    by_silence, by_entry, opened = Journal(), Journal(), Journal()
    by_silence.event(0, "alice", "a")
    by_silence.attach(58, "bob", delay=2, uid="one")
    by_entry.event(0, "alice", "a")
    by_entry.attach(3, "bob", delay=2, uid="one")
    by_entry.event(5, "carol", "b")
    opened.attach(3, "bob", delay=2, uid="one")
    opened.event(5, "alice", "a")
    answers = []
    for journal in (by_silence, by_entry, opened):
        before = journal.plan(200, LONG)
        after = journal.plan(200, LONG, boundaries=before.new_boundaries)
        assert _due(before) == _due(after)
        answers += [kind for _, _, kind in _due(after)]
    assert answers == [OutcomeKind.NO_WINDOW, OutcomeKind.WINDOW_MISMATCH, OutcomeKind.NO_WINDOW]


def test_a_deadline_at_the_end_of_the_silence_is_the_requests():
    """I01: the request asked for that moment."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(3, "alice", delay=2, uid="save")
    assert _bound(journal.plan(6)) == [(5, "uid-save", "finalize-signal", "")]


def test_a_namesake_in_another_namespace_is_another_target():
    """R8: targets are told apart by their UID."""
    journal = Journal()
    journal.event(0, "alice", "a")
    journal.attach(1, "alice", delay=2, on="b", uid="other")
    entry = journal.entries[1].entry
    namesake = replace(entry, target=replace(entry.target, namespace="depot", name="a"))
    journal.entries[1] = replace(journal.entries[1], entry=namesake)
    assert _due(journal.plan(4, LONG)) == [(3, "uid-other", OutcomeKind.WINDOW_MISMATCH)]


def test_a_standing_redis_clock_does_not_hold_a_request():
    """J12 for requests: the local clock counts for what is last."""
    journal = Journal()
    journal.event(0, "alice", "a")
    ident = journal.attach(0, "alice", delay=3, uid="save")
    plan = journal.plan(0, LONG, local_now_ms=3000, first_seen_ms={ident: 0})
    assert plan.closed[0].boundary.reason is CloseReason.FINALIZE
    journal = Journal()
    ident = journal.attach(0, "alice", delay=3, uid="save")
    plan = journal.plan(0, LONG, local_now_ms=3000, first_seen_ms={ident: 0})
    assert _due(plan) == [(0, "uid-save", OutcomeKind.NO_WINDOW)]


def test_a_deleted_request_binds_to_nothing():
    """I21: once withdrawn, a request neither closes nor names a window, and is settled at once."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.attach(1, "alice", delay=5, message="gone", uid="gone")
    journal.attach(2, "alice", delay=20, message="kept", uid="kept")

    plan = journal.plan(3, LONG, withdrawn=frozenset({"uid-gone"}))
    assert _due(plan) == [(1, "uid-gone", OutcomeKind.NO_WINDOW)]
    assert plan.open is not None
    assert plan.open.attach is not None
    assert plan.open.attach.uid == "uid-kept"
    assert _bound(journal.plan(30, LONG, withdrawn=frozenset({"uid-gone"}))) == [
        (22, "uid-kept", "finalize-signal", "kept")
    ]


def test_a_finalized_window_keeps_its_request():
    """J13: what was closed for a request stays closed for it, deleted or not."""
    journal = Journal()
    journal.event(0, "alice", "x")
    journal.attach(1, "alice", message="done", uid="done")
    (closed,) = journal.plan(3, LONG).closed

    plan = journal.plan(4, LONG, (closed.boundary,), withdrawn=frozenset({"uid-done"}))
    assert [unit.boundary for unit in plan.closed] == [closed.boundary]
    assert plan.attach_due == ()
