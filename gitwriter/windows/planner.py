"""Commit windows as a pure function of the journal.

The plan is a replay of what a writer would have done had it stood beside the stream the whole time: each
entry happens at its stream time, timers that were due by then fire first, and at the end the clock moves
on to now. Nothing is remembered between two plans, so a crash at any point costs nothing; what must not
change any more is the stored boundaries, which come first and take their entries out of the replay.

Clocks: silence and deadlines are counted on the Redis clock (never behind the last stream id); for the newest
entries a writer's own monotonic clock counts too, and the earlier of the two decides (J12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gitwriter.windows.plan import (
    AttachDue,
    ClosedWindow,
    OpenWindow,
    Plan,
    SweepUnit,
    TargetSettings,
    Unit,
    fold,
)
from reverser.store.model import (
    AttachEntry,
    Author,
    Boundary,
    CloseReason,
    EventEntry,
    OutcomeKind,
    RetireEntry,
    Scope,
    Stored,
    SweepEntry,
    TargetRef,
    UnsealedEntry,
    WindowKind,
)

MIN_CLOSE_DELAY_S = 1


def _username(author: Author | None) -> str:
    return author.username if author else ""


def _matches(attach: AttachEntry, target: TargetRef, author: Author | None) -> bool:
    if attach.target.uid != target.uid:
        return False
    return attach.any_author or _username(attach.author) == _username(author)


def _overlap(one: Scope, other: Scope) -> bool:
    """Whether an object can be in both scopes."""
    if (one.target_uid, one.group_resource) != (other.target_uid, other.group_resource):
        return False
    return one.namespace is None or other.namespace is None or one.namespace == other.namespace


def _was_open(boundary: Boundary, at: int) -> bool:
    """Whether a finalized window was open when a timer fired at ``at``.

    Timers fire before an entry of the same millisecond: what such an entry opened was not open yet, what
    it closed still was.
    """
    if boundary.kind is not WindowKind.WINDOW:
        return False
    opened = int(boundary.entry_ids[0].split("-", 1)[0])
    by_clock = boundary.reason in (CloseReason.TIMER, CloseReason.FINALIZE)
    return opened < at < boundary.closed_ms or (at == boundary.closed_ms > opened and not by_clock)


@dataclass(slots=True)
class _Waiting:
    """A request in the journal, with its deadline (J7)."""

    id: str
    attach: AttachEntry
    deadline: int
    delay: int


@dataclass(slots=True)
class _Window:
    """The open window while the plan is made."""

    target: TargetRef
    author: Author | None
    opened: int
    silence: int
    events: list[tuple[str, EventEntry]] = field(default_factory=list)
    last: int = 0
    size: int = 0
    weight: int = 0
    bound: _Waiting | None = None

    @property
    def deadline(self) -> int:
        """When it closes if nothing comes: by silence, or at its request's deadline."""
        by_silence = self.last + self.silence
        return min(by_silence, self.bound.deadline) if self.bound else by_silence


class _Planner:
    def __init__(
        self,
        settings: Mapping[str, TargetSettings],
        *,
        buffer_limit: int,
        finalized: Sequence[Boundary],
        withdrawn: frozenset[str],
    ) -> None:
        self.settings = settings
        self.buffer_limit = buffer_limit
        self.finalized = finalized
        self.withdrawn = withdrawn
        self.closed: list[Unit] = []
        self.window: _Window | None = None
        self.waiting: list[_Waiting] = []
        self.parked: list[tuple[str, SweepEntry]] = []
        self.attach_due: list[AttachDue] = []

    # -- time

    def advance(self, now: int) -> None:
        """Fire every timer due by ``now``, in order of time; a closing before a request's end."""
        while True:
            window, request = self.window, min(self.waiting, key=lambda w: (w.deadline, w.id), default=None)
            if window and window.deadline <= now and (not request or window.deadline <= request.deadline):
                self.close_by_time(window.deadline)
            elif request and request.deadline <= now:
                self.give_up(request)
            else:
                return

    def close_by_time(self, at: int) -> None:
        """Silence or the bound request's deadline, whichever came first."""
        window = self.window
        assert window is not None
        by_request = window.bound is not None and window.bound.deadline <= window.last + window.silence
        self.close(CloseReason.FINALIZE if by_request else CloseReason.TIMER, at)

    def give_up(self, request: _Waiting) -> None:
        """A request's deadline passed unbound: somebody else's window was open at that moment, or none."""
        self.waiting.remove(request)
        foreign = self.window is not None and not _matches(
            request.attach, self.window.target, self.window.author
        )
        # A finalized window counts as open at that moment too: the result must not depend on when the plan is
        # made.
        foreign = foreign or any(
            _was_open(boundary, request.deadline)
            and not _matches(request.attach, boundary.target, boundary.author)
            for boundary in self.finalized
        )
        kind = OutcomeKind.WINDOW_MISMATCH if foreign else OutcomeKind.NO_WINDOW
        self.attach_due.append(AttachDue(request.id, request.attach, kind, request.deadline))

    # -- entries

    def take(self, stored: Stored) -> None:
        """Let an entry of an open gate happen at its stream time, after the timers that were due by then."""
        self.advance(stored.time_ms)
        entry = stored.entry
        if isinstance(entry, EventEntry):
            self.event(stored, entry)
        elif isinstance(entry, SweepEntry):
            self.sweep(stored, entry)
        elif isinstance(entry, AttachEntry) and entry.uid in self.withdrawn:
            self.attach_due.append(AttachDue(stored.id, entry, OutcomeKind.NO_WINDOW, stored.time_ms))
        elif isinstance(entry, AttachEntry):
            self.attach(stored, entry)

    def event(self, stored: Stored, event: EventEntry) -> None:
        at = stored.time_ms
        if self.window and any(_overlap(sweep.scope, event.scope) for _, sweep in self.parked):
            self.close(CloseReason.HEAL, at)
        window = self.window
        if window and (
            window.target.uid != event.target.uid or _username(window.author) != _username(event.author)
        ):
            self.close(CloseReason.AUTHOR_OR_TARGET_CHANGE, at)
        if self.window is None:
            silence = self.settings[event.target.uid].commit_window_ms
            self.window = _Window(event.target, event.author, at, silence)
            self.bind(self.window)
        window = self.window
        window.events.append((stored.id, event))
        window.last = at
        window.size += stored.text
        window.weight += stored.size
        if window.silence <= 0:
            self.close(CloseReason.COMMIT_WINDOW_ZERO, at)
        elif window.size >= self.buffer_limit:
            self.close(CloseReason.BUFFER_LIMIT, at)

    def attach(self, stored: Stored, attach: AttachEntry) -> None:
        delay = max(attach.close_delay_seconds, MIN_CLOSE_DELAY_S) * 1000
        self.waiting.append(_Waiting(stored.id, attach, stored.time_ms + delay, delay))
        if self.window:
            self.bind(self.window)

    def sweep(self, stored: Stored, sweep: SweepEntry) -> None:
        if self.window and not sweep.first:
            self.parked.append((stored.id, sweep))
            return
        self.close(CloseReason.SWEEP, stored.time_ms)
        self.apply(stored.id, sweep)

    # -- windows

    def bind(self, window: _Window) -> None:
        """An unclaimed window takes the matching request with the earliest deadline; one at most."""
        if window.bound:
            return
        fitting = [w for w in self.waiting if _matches(w.attach, window.target, window.author)]
        if fitting:
            window.bound = min(fitting, key=lambda w: (w.deadline, w.id))
            self.waiting.remove(window.bound)

    def close(self, reason: CloseReason, at: int) -> None:
        """Close the open window, if any; then the heals that waited for it run."""
        window, self.window = self.window, None
        if window is not None:
            bound = window.bound
            message = bound.attach.message if bound and bound.attach.message.strip() else ""
            boundary = Boundary(
                id=f"w-{window.events[0][0]}",
                kind=WindowKind.WINDOW,
                target=window.target,
                entry_ids=tuple(ident for ident, _ in window.events),
                reason=reason,
                author=window.author,
                attach_id=bound.id if bound else "",
                request_uid=bound.attach.uid if bound else "",
                message=message,
                frozen=self.settings[window.target.uid].frozen,
                closed_ms=at,
            )
            self.closed.append(
                ClosedWindow(
                    boundary,
                    fold(window.events),
                    attach=bound.attach if bound else None,
                    size=window.size,
                    weight=window.weight,
                )
            )
        parked, self.parked = self.parked, []
        for ident, sweep in parked:
            self.apply(ident, sweep)

    def apply(self, ident: str, sweep: SweepEntry) -> None:
        boundary = Boundary(
            id=f"s-{ident}",
            kind=WindowKind.SWEEP,
            target=sweep.target,
            entry_ids=(ident,),
            reason=CloseReason.SWEEP,
            frozen=self.settings[sweep.target.uid].frozen,
            closed_ms=int(ident.split("-", 1)[0]),
        )
        self.closed.append(SweepUnit(boundary, sweep))

    # -- the end of the journal

    def settle_clock(self, now: int, local_now: int, first_seen: Mapping[str, int]) -> int | None:
        """Advance to now by both clocks (J12). Returns the milliseconds until the next timer fires."""

        def left(deadline: int, duration: int, ident: str) -> int:
            waited = local_now - first_seen[ident] if ident in first_seen else 0
            return min(deadline - now, duration - waited)

        while True:
            self.advance(now)
            pending: list[tuple[int, _Waiting | None]] = [
                (left(request.deadline, request.delay, request.id), request) for request in self.waiting
            ]
            if self.window:
                window = self.window
                pending.append(
                    (left(window.last + window.silence, window.silence, window.events[-1][0]), None)
                )
                if window.bound:
                    bound = window.bound
                    pending.append((left(bound.deadline, bound.delay, bound.id), None))
            if not pending:
                return None
            remaining, request = min(pending, key=lambda item: (item[0], item[1] is not None))
            if remaining > 0:
                return remaining
            if request is None:
                self.close_by_time(now)
            else:
                request.deadline = min(request.deadline, now)
                self.give_up(request)


def plan_windows(
    entries: Sequence[Stored],
    boundaries: Sequence[Boundary],
    *,
    now_ms: int,
    settings: Mapping[str, TargetSettings],
    buffer_limit: int,
    local_now_ms: int = 0,
    first_seen_ms: Mapping[str, int] | None = None,
    shutdown: bool = False,
    withdrawn: frozenset[str] = frozenset(),
) -> Plan:
    """What to commit now, what stays open, and when to look again. Pure.

    ``entries`` is the journal in stream order from its start, at least up to the last entry that a
    stored boundary names (ValueError otherwise). ``boundaries`` are the stored ones in their order.
    ``now_ms`` is the Redis clock; ``first_seen_ms`` says by entry id when this process first saw it on
    its monotonic clock, whose reading now is ``local_now_ms`` (milliseconds). ``settings`` is by target
    UID; entries of a target that is missing there stay unplanned. ``shutdown`` closes the open window.
    ``withdrawn`` are UIDs of requests that were deleted: outside finalized windows they bind to nothing.
    """
    by_id = {stored.id: stored for stored in entries}
    finalized = _finalized(by_id, boundaries)
    claimed = {ident for unit in finalized for ident in unit.settle_ids}
    free = [stored for stored in entries if stored.id not in claimed]
    gone = {uid for uid, target in settings.items() if not target.present}
    gone.update(stored.entry.target.uid for stored in free if isinstance(stored.entry, RetireEntry))

    planner = _Planner(
        settings,
        buffer_limit=buffer_limit,
        finalized=[unit.boundary for unit in finalized],
        withdrawn=withdrawn,
    )
    retired: list[Stored] = []
    unsealed: list[Stored] = []
    unplanned: list[str] = []
    for stored in free:
        target = settings.get(stored.entry.target.uid)
        if stored.entry.target.uid in gone:
            retired.append(stored)
        elif isinstance(stored.entry, UnsealedEntry):
            unsealed.append(stored)
        elif target is None or not target.gate_open:
            unplanned.append(stored.id)
        else:
            planner.take(stored)

    now = max(now_ms, entries[-1].time_ms if entries else 0)
    remaining = planner.settle_clock(now, local_now_ms, first_seen_ms or {})
    if shutdown and planner.window:
        planner.close(CloseReason.SHUTDOWN, now)
        remaining = min((w.deadline - now for w in planner.waiting), default=None)
    return Plan(
        closed=(*finalized, *planner.closed),
        open=_open(planner),
        attach_due=tuple(planner.attach_due),
        retired=tuple(retired),
        unsealed=tuple(unsealed),
        unplanned=tuple(unplanned),
        waiting=tuple(request.id for request in planner.waiting),
        last_id=entries[-1].id if entries else "",
        # On the Redis clock as it reads now, or a clock that was set back would delay the branch by that
        # much.
        due_at_ms=None if remaining is None else now_ms + remaining,
    )


def _open(planner: _Planner) -> OpenWindow | None:
    window = planner.window
    if window is None:
        return None
    return OpenWindow(
        target=window.target,
        author=window.author,
        events=fold(window.events),
        attach=window.bound.attach if window.bound else None,
        attach_id=window.bound.id if window.bound else "",
        opened_ms=window.opened,
        closes_at_ms=window.deadline,
        size=window.size,
        parked=tuple(ident for ident, _ in planner.parked),
    )


def _finalized(by_id: Mapping[str, Stored], boundaries: Sequence[Boundary]) -> list[Unit]:
    units: list[Unit] = []
    for boundary in boundaries:
        claims = (*boundary.entry_ids, *((boundary.attach_id,) if boundary.attach_id else ()))
        missing = [ident for ident in claims if ident not in by_id]
        if missing:
            raise ValueError(f"boundary {boundary.id} names entries that were not read: {missing[0]}")
        entries = [by_id[ident] for ident in boundary.entry_ids]
        if boundary.kind is WindowKind.SWEEP:
            sweep = entries[0].entry
            assert isinstance(sweep, SweepEntry)
            units.append(SweepUnit(boundary, sweep, finalized=True))
            continue
        events = [(stored.id, stored.entry) for stored in entries if isinstance(stored.entry, EventEntry)]
        attach = by_id[boundary.attach_id].entry if boundary.attach_id else None
        assert attach is None or isinstance(attach, AttachEntry)
        units.append(
            ClosedWindow(
                boundary,
                fold(events),
                attach=attach,
                finalized=True,
                size=sum(stored.text for stored in entries),
                weight=sum(stored.size for stored in entries),
            )
        )
    return units
