"""What holds for every journal, however authors, targets, requests, sweeps, gaps and crashes fall."""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitwriter.windows import (
    ClosedWindow,
    Plan,
    SweepUnit,
    displaced_by,
    instead_of,
    passable,
    paths_overlap,
)
from reverser.store.model import (
    AttachEntry,
    Boundary,
    EventEntry,
    Operation,
    OutcomeKind,
    SweepEntry,
)
from tests.windows.build import CONFIGMAPS, SECRETS, T0, Journal, frozen
from tests.windows.build import settings as known

PROFILE = settings(
    max_examples=int(os.environ.get("SOAK_EXAMPLES", "200")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

GAPS = st.sampled_from([0.0, 0.0, 0.3, 1.0, 2.0, 4.9, 5.0, 6.0, 15.0])
AUTHORS = st.sampled_from(["alice", "bob", ""])
TARGETS = st.sampled_from("ab")
TYPES = st.sampled_from([CONFIGMAPS, SECRETS])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), GAPS, AUTHORS, TARGETS, TYPES, st.sampled_from("xyz")),
        st.tuples(st.just("event"), GAPS, AUTHORS, TARGETS, TYPES, st.sampled_from("xyz")),
        st.tuples(st.just("delete"), GAPS, AUTHORS, TARGETS, TYPES, st.sampled_from("xyz")),
        st.tuples(st.just("attach"), GAPS, AUTHORS, TARGETS, st.integers(0, 8), st.booleans()),
        st.tuples(st.just("sweep"), GAPS, TARGETS, TYPES, st.booleans()),
        st.tuples(st.just("unsealed"), GAPS, TARGETS),
        st.tuples(st.just("retire"), GAPS, TARGETS),
    ),
    max_size=25,
)
WINDOWS = st.sampled_from([0.0, 1.0, 5.0])


def _journal(steps, *, retire: bool = True) -> tuple[Journal, float]:
    journal, at = Journal(), 0.0
    for kind, gap, *rest in steps:
        at = round(at + gap, 3)
        if kind in ("event", "delete"):
            author, on, type_, name = rest
            gone = kind == "delete"
            body = b"" if gone else f"{len(journal.entries)}".encode() * 10
            operation = Operation.DELETE if gone else Operation.UPDATE
            journal.event(at, author, name, on=on, type=type_, operation=operation, body=body)
        elif kind == "attach":
            author, on, delay, anyone = rest
            journal.attach(
                at, author, delay=delay, on=on, any_author=anyone, message=f"m{len(journal.entries)}"
            )
        elif kind == "sweep":
            on, type_, first = rest
            journal.sweep(at, on=on, type=type_, first=first)
        elif kind == "unsealed":
            journal.unsealed(at, on=rest[0])
        elif retire:
            journal.retire(at, on=rest[0])
    return journal, at


def _places(plan: Plan) -> list[str]:
    out = [ident for unit in plan.closed for ident in unit.settle_ids]
    if plan.open:
        out += [ident for e in plan.open.events for ident in (e.id, *e.replaced)]
        out += [*plan.open.parked, *([plan.open.attach_id] if plan.open.attach_id else [])]
    out += [due.id for due in plan.attach_due]
    out += [stored.id for stored in (*plan.retired, *plan.unsealed)]
    return [*out, *plan.unplanned, *plan.waiting]


@PROFILE
@given(STEPS, WINDOWS, st.sampled_from([0, 1, 20]), st.sampled_from([30, 10_000]), st.booleans())
def test_every_entry_is_in_exactly_one_place(steps, window, later, limit, gate):
    """Nothing is lost between the parts of a plan and nothing is in two."""
    journal, at = _journal(steps)
    targets = known(window=window)
    if not gate:
        del targets["uid-b"]
    plan = journal.plan(at + later, targets, limit=limit)
    assert sorted(_places(plan)) == sorted(stored.id for stored in journal.entries)


@PROFILE
@given(STEPS, WINDOWS, st.sampled_from([30, 10_000]))
def test_windows_mix_nothing_and_fold_rightly(steps, window, limit):
    """One author and one target per window; per object the last event wins at the first one's place."""
    journal, at = _journal(steps)
    by_id = {stored.id: stored.entry for stored in journal.entries}
    for unit in journal.plan(at + 30, known(window=window), limit=limit).closed:
        if not isinstance(unit, ClosedWindow):
            continue
        events = [(ident, by_id[ident]) for ident in unit.boundary.entry_ids]
        assert {e.target.uid for _, e in events} == {unit.boundary.target.uid}
        assert {e.author for _, e in events} == {unit.boundary.author}
        order = list(dict.fromkeys(e.object for _, e in events))
        last = {e.object: (ident, e) for ident, e in events}
        assert [(f.id, f.event) for f in unit.events] == [last[ref] for ref in order]


@PROFILE
@given(STEPS, WINDOWS, st.sampled_from([30, 10_000]))
def test_order_per_object_and_around_sweeps(steps, window, limit):
    """An object's events are committed in the order in which they came, sweeps between."""
    journal, at = _journal(steps)
    plan = journal.plan(at + 30, known(window=window), limit=limit)
    by_id = {stored.id: stored.entry for stored in journal.entries}
    place = {stored.id: n for n, stored in enumerate(journal.entries)}
    seen: dict[object, list[int]] = {}
    for unit in plan.closed:
        for ident in unit.boundary.entry_ids:
            entry = by_id[ident]
            assert isinstance(entry, EventEntry | SweepEntry)
            seen.setdefault((entry.target.uid, entry.scope.group_resource), []).append(place[ident])
    for order in seen.values():
        assert order == sorted(order)


@PROFILE
@given(STEPS, WINDOWS)
def test_requests_end_as_they_must(steps, window):
    """At most one request per window, of its author and target; an outcome exactly at the deadline."""
    journal, at = _journal(steps, retire=False)
    plan = journal.plan(at + 60, known(window=window))
    attaches = {s.id: (s, s.entry) for s in journal.entries if isinstance(s.entry, AttachEntry)}
    bound = [u for u in plan.closed if isinstance(u, ClosedWindow) and u.boundary.attach_id]
    assert len({u.boundary.attach_id for u in bound}) == len(bound)
    assert len(bound) + len(plan.attach_due) == len(attaches)
    for unit in bound:
        stored, attach = attaches[unit.boundary.attach_id]
        deadline = stored.time_ms + max(1, attach.close_delay_seconds) * 1000
        assert unit.boundary.target == attach.target
        assert attach.any_author or attach.author == unit.boundary.author
        assert unit.boundary.closed_ms <= deadline
        assert unit.boundary.message == attach.message
    for due in plan.attach_due:
        stored, attach = attaches[due.id]
        assert due.due_ms == stored.time_ms + max(1, attach.close_delay_seconds) * 1000
        assert due.kind in (OutcomeKind.NO_WINDOW, OutcomeKind.WINDOW_MISMATCH)


def _crashing_writer(
    journal: Journal, ends: list[float], data: st.DataObject, targets, limit: int
) -> tuple[list[Boundary], list[tuple[str, OutcomeKind]]]:
    """A writer that looks at odd moments and dies between any two of its steps."""
    stored: list[Boundary] = []
    history: list[Boundary] = []
    outcomes: list[tuple[str, OutcomeKind]] = []
    settled: set[str] = set()
    for at in ends:
        last = at == ends[-1]
        now = T0 + round(at * 1000)
        view = Journal()
        view.entries = [s for s in journal.entries if s.id not in settled and s.time_ms <= now]
        plan = view.plan(at, targets, tuple(stored), limit=limit)
        fresh = plan.new_boundaries
        keep = len(fresh) if last else data.draw(st.integers(0, len(fresh)), label="boundaries stored")
        stored += fresh[:keep]
        history += fresh[:keep]
        if keep < len(fresh):
            continue
        for due in plan.attach_due:
            settled.add(due.id)
            outcomes.append((due.id, due.kind))
        gone = data.draw(st.integers(0, len(stored)), label="windows settled")
        for boundary in stored[:gone]:
            settled.update(boundary.entry_ids)
            settled.add(boundary.attach_id)
        del stored[:gone]
    return history, sorted(outcomes)


@PROFILE
@given(STEPS, WINDOWS, st.sampled_from([30, 10_000]), st.data())
def test_a_crash_at_any_point_changes_nothing(steps, window, limit, data):
    """J13: looking often, seldom, or dying in between gives the same boundaries, messages and outcomes."""
    journal, at = _journal(steps, retire=False)
    targets = known(window=window)
    moments = data.draw(st.lists(st.floats(0, at + 20), max_size=8), label="moments")
    ends = [*sorted(round(moment, 3) for moment in moments), at + 60]

    plan = journal.plan(at + 60, targets, limit=limit)
    boundaries, outcomes = _crashing_writer(journal, ends, data, targets, limit)

    assert boundaries == list(plan.new_boundaries)
    assert outcomes == sorted((due.id, due.kind) for due in plan.attach_due)


@PROFILE
@given(STEPS, WINDOWS, st.floats(0, 30))
def test_nothing_happens_before_the_due_time_and_something_does_then(steps, window, later):
    """The due time is exact: a plan right before it is the same, a plan at it is not."""
    journal, at = _journal(steps)
    targets = known(window=window)
    plan = journal.plan(round(at + later, 3), targets)
    if plan.due_at_ms is None:
        assert plan.open is None
        assert plan.waiting == ()
        return
    due = (plan.due_at_ms - T0) / 1000
    before, then = journal.plan(due - 0.001, targets), journal.plan(due, targets)
    assert (before.closed, before.attach_due) == (plan.closed, plan.attach_due)
    assert (then.closed, then.attach_due) != (plan.closed, plan.attach_due)


PATHS = st.lists(st.sampled_from(["live", "live/a", "live/ab", "team", ""]), min_size=1, max_size=8)


@PROFILE
@given(PATHS, st.data())
def test_only_disjoint_folders_pass(paths, data):
    """J17: whatever goes ahead of a waiting window shares no folder with anything it passed."""
    journal = Journal()
    for n in range(len(paths)):
        journal.event(n, "alice", f"x{n}", on="a" if n % 2 else "b")
    units = [
        replace(unit, boundary=replace(unit.boundary, frozen=frozen(path)))
        for unit, path in zip(journal.plan(99, known(window=0)).closed, paths, strict=True)
    ]
    waiting = set(data.draw(st.lists(st.sampled_from([unit.boundary.id for unit in units]))))
    going = passable(units, waiting)
    assert not {unit.boundary.id for unit in going} & waiting
    for n, unit in enumerate(units):
        if unit in going:
            held = [other for other in units[:n] if other not in going]
            assert not any(
                paths_overlap(unit.boundary.frozen.path, other.boundary.frozen.path) for other in held
            )


def test_a_successors_first_sweep_displaces_what_waits_before_it():
    """J17: a re-created target on the same folder makes its predecessor's waiting windows pointless."""
    journal = Journal()
    journal.event(0, "alice", "x", on="a")
    journal.event(0.5, "alice", "own", on="b")
    journal.sweep(1, on="b", first=True)
    journal.event(2, "alice", "y", on="a")
    units = [
        replace(unit, boundary=replace(unit.boundary, frozen=frozen("live/")))
        for unit in journal.plan(99).closed
    ]
    sweep = next(unit for unit in units if isinstance(unit, SweepUnit))
    assert displaced_by(sweep, units) == [units[0]]
    heal = replace(sweep, sweep=replace(sweep.sweep, first=False))
    assert displaced_by(heal, units) == []


def test_what_may_go_instead_ends_with_the_first_later_state_of_something_refused():
    """J18, pain 92: what stands between goes with it, other folders do not; else nothing."""
    journal = Journal()
    journal.event(0, "alice", "x", on="a")
    journal.event(1, "bob", "y", on="a")
    journal.event(2, "carol", "z", on="b")
    journal.event(3, "carol", "x", on="a")
    journal.event(4, "bob", "x", on="a")
    closed = journal.plan(
        99, {target: replace(found, path=target) for target, found in known(window=0).items()}
    )
    units = [
        replace(unit, boundary=replace(unit.boundary, frozen=frozen(unit.boundary.target.uid)))
        for unit in closed.closed
    ]
    x, y, z, again, last = units
    assert instead_of(x, units) == [y, again]
    assert instead_of(again, units) == [last]
    assert instead_of(y, units) == instead_of(z, units) == instead_of(last, units) == []
    assert instead_of(x, units[1:]) == []
    stranger = replace(y, boundary=replace(y.boundary, target=z.boundary.target))
    assert instead_of(x, [x, stranger, again]) == [], "a folder that two targets write keeps its order"
