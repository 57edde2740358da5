"""The branch writer: one run under one lease, from the journal to the remote and back.

A run plans, stores the boundaries of closed windows, attempts what may be written, and gives the lease back
together with the moment at which the branch is due again (J9). It keeps no state that matters: a writer that
is killed anywhere is followed by another that reads the same journal. What is remembered between runs (when
an entry was first seen, inventories) only saves time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from gitwriter import metrics
from gitwriter.attempt import Attempt
from gitwriter.backoff import stalled_delay
from gitwriter.claims import plan_with_certain_names
from gitwriter.edges import AttemptEdges
from gitwriter.freezing import freeze, repository_of
from gitwriter.git.repository import BareRepository
from gitwriter.health import HealthRecorder
from gitwriter.lease import BranchLease
from gitwriter.memory import BranchMemory
from gitwriter.outcomes import refusal_of, retired_together, retirement_of, simple_settlement
from gitwriter.rescan import Rescanner
from gitwriter.sources import Sources
from gitwriter.targettree import InventoryShelf
from gitwriter.windows import (
    Plan,
    SweepUnit,
    TargetSettings,
    Unit,
    displaced_by,
    instead_of,
    passable,
    plan_windows,
    scopes_of,
)
from reverser.config import Config
from reverser.errors import LostRace, RemoteRejected, StalledError, TransientError
from reverser.kinds.model import GitProvider
from reverser.store import Store
from reverser.store.model import (
    AttachEntry,
    BranchKey,
    BranchRecord,
    Gate,
    OutcomeKind,
    Settlement,
    TargetRef,
)

logger = logging.getLogger(__name__)

PUSH_COOLDOWN_MS = 5_000
RACE_ATTEMPTS = 3
UNITS_PER_PUSH = 200
CLOSED_GATE_RECHECK_MS = 30_000
REFUSED_BEFORE_GIVING_UP = 3
SHUTDOWN_HOLD_SECONDS = 3.0
"""How long a shutdown waits for names; what is not certain by then stays in the journal."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One look at the journal."""

    plan: Plan
    waiting: set[str]
    """Boundaries of closed windows that may not go now (J15: gates; J18: offenders)."""
    provider: GitProvider | None
    """None: it is gone, or nothing is pending and it was not read."""
    now: int
    """The moment of the plan (Redis clock, ms)."""
    held: float = 0.0
    """Seconds until the first closed window that waits for its names may be finalized; 0 = none waits."""


@dataclass(frozen=True, slots=True)
class WriterEdges:
    """What every run of a process shares."""

    store: Store
    sources: Sources
    config: Config
    shelf: InventoryShelf
    open_clone: Callable[[BranchKey, GitProvider], BareRepository]
    stopping: Callable[[], bool]


class BranchWriter:
    """One run on one branch."""

    def __init__(self, edges: WriterEdges, lease: BranchLease, memory: BranchMemory) -> None:
        self._edges = edges
        self._store = edges.store
        self._lease = lease
        self._branch = lease.branch
        self._memory = memory
        self._health = HealthRecorder(edges.store, memory)
        self._rescanner = Rescanner(edges.store, memory, self._open_idle)

    def run(self) -> tuple[str, int | None]:
        """Write until nothing more may be written now. Returns the arguments of ``release_branch``: the last
        entry planned on, and when the branch is due (Redis clock, ms; None = never).

        Raises LostRace when the lease is lost, StoreUnavailable, and bugs.
        """
        races = 0
        patient_until = time.monotonic() + SHUTDOWN_HOLD_SECONDS
        while True:
            self._lease.check()
            try:
                step = self._plan()
            except LostRace:
                raise
            except TransientError as error:
                return self._memory.last_listed, self._health.failed(error, self._store.time_ms())
            except StalledError as error:  # the API server refuses us: a permission is missing
                return self._memory.last_listed, self._health.stalled(error, self._store.time_ms())
            if step.held and self._edges.stopping() and time.monotonic() + step.held < patient_until:
                time.sleep(step.held)
                continue
            plan, waiting, now = step.plan, step.waiting, step.now
            try:
                self._settle_simple(plan)
                self._store_boundaries(plan)
            except LostRace:
                self._lease.check()
                continue
            record = self._health.report(now)
            units = passable(plan.closed, waiting)
            wait = self._seconds_to_attempt(units, record, now)
            if wait > 0:
                if not plan.last_id:
                    self._check_remote()
                return plan.last_id, self._due(plan, wait, now, held=bool(waiting))
            try:
                self._attempt(units, step.provider)
            except LostRace as race:
                self._lease.check()
                races += 1
                metrics.PUSH_CONFLICTS.labels(*metrics.branch_labels(self._branch)).inc()
                if races >= RACE_ATTEMPTS:
                    return plan.last_id, self._health.failed(race, now)
            except StalledError as error:
                return plan.last_id, self._health.stalled(error, now)
            except TransientError as error:
                return plan.last_id, self._health.failed(error, now)
            else:
                races = 0

    def _plan(self) -> _Step:
        """What may be written now; targets and provider are read here, at close and right before the push
        (J22)."""
        memory = self._memory
        entries, local = memory.read_journal(self._store), _local_ms()
        memory.first_seen = {stored.id: memory.first_seen.get(stored.id, local) for stored in entries}
        boundaries = self._store.read_boundaries(self._branch)
        targets = {stored.entry.target.uid: stored.entry.target for stored in entries}
        provider = self._edges.sources.provider(self._branch) if entries else None
        settings = {uid: self._settings(ref, provider) for uid, ref in targets.items()}
        requests = [stored.entry.uid for stored in entries if isinstance(stored.entry, AttachEntry)]
        now = self._store.time_ms()
        look = partial(
            plan_windows,
            boundaries=boundaries,
            now_ms=now,
            settings=settings,
            buffer_limit=self._edges.config.branch_buffer_max_size,
            local_now_ms=_local_ms(),
            first_seen_ms=memory.first_seen,
            shutdown=self._edges.stopping(),
            withdrawn=self._store.withdrawn(requests) if requests else frozenset(),
        )
        certain = plan_with_certain_names(self._store, entries, look, now=now)
        memory.entries, plan = certain.entries, certain.plan
        closed_gates = {uid for uid, found in settings.items() if found.present and not found.gate_open}
        clock = time.monotonic()
        alive = {unit.boundary.id for unit in plan.closed}
        memory.offenders = {key: at for key, at in memory.offenders.items() if key in alive}
        memory.replaced &= alive
        waiting = {key for key, at in memory.offenders.items() if at > clock}
        waiting |= {unit.boundary.id for unit in plan.closed if unit.boundary.target.uid in closed_gates}
        held = 0.0 if certain.held_until is None else (certain.held_until - now) / 1000
        return _Step(plan, waiting, provider, now, held)

    def _settings(self, ref: TargetRef, provider: GitProvider | None) -> TargetSettings:
        target = self._edges.sources.target(ref)
        if target is None or provider is None:
            return TargetSettings(commit_window_ms=0, present=False)
        gate: Gate | None = self._store.read_gate(ref.uid)
        return TargetSettings(
            commit_window_ms=max(int(provider.commit_window * 1000), 0),
            gate_open=gate is not None and gate.open,
            path=target.path,
            frozen=freeze(provider, target),
        )

    def _store_boundaries(self, plan: Plan) -> None:
        """Before anything later is settled (J13). Raises LostRace where an entry is gone: plan again."""
        for boundary in plan.new_boundaries:
            if not self._store.store_boundary(self._branch, self._lease.fence, boundary):
                raise LostRace("an entry of a window was superseded while it closed")

    def _settle_simple(self, plan: Plan) -> None:
        """Entries that need no commit: unsealed objects, requests that found no window, retired targets."""
        for stored in plan.unsealed:
            entry = stored.entry
            self._settle(
                simple_settlement(
                    [stored],
                    branch=self._branch,
                    kind=OutcomeKind.UNSEALED,
                    reason=getattr(entry, "reason", ""),
                    detail=getattr(entry, "message", ""),
                )
            )
        by_id = {stored.id: stored for stored in self._memory.entries}
        for due in plan.attach_due:
            self._settle(simple_settlement([by_id[due.id]], branch=self._branch, kind=due.kind))
        for group in retired_together(plan.retired):
            self._settle(
                simple_settlement(group, branch=self._branch, kind=OutcomeKind.RETIRED, reason="TargetGone")
            )

    def _settle(self, settlement: Settlement) -> None:
        if not self._store.settle(self._branch, self._lease.fence, settlement):
            self._lease.check()

    def _seconds_to_attempt(self, units: Sequence[Unit], record: BranchRecord, now: int) -> float:
        """0 or less = now; ``inf`` = there is nothing to attempt."""
        if not units:
            return float("inf")
        waits = [self._memory.retry_at - time.monotonic()]
        if not self._edges.stopping():
            left = record.last_push_ms + PUSH_COOLDOWN_MS - now
            # Clearly more than the whole of it: the clock was put back since, and would end it too late.
            waits.append(left / 1000 if left <= PUSH_COOLDOWN_MS + 1000 else 0.0)
        return max(waits)

    def _attempt(self, closed: Sequence[Unit], provider: GitProvider | None) -> None:
        """One attempt over the units that may go; a refused push is isolated to its offenders (J18)."""
        alive = self._drop_displaced(closed)
        units, later = alive[:UNITS_PER_PUSH], alive[UNITS_PER_PUSH:]
        if provider is None:
            for unit in units:
                detail = f"GitProvider {self._branch.namespace}/{self._branch.provider} no longer exists"
                self._retire(unit, reason="ProviderGone", detail=detail)
            return
        units = self._drop_homeless(units, provider)
        with self._edges.open_clone(self._branch, provider) as repository:
            attempt = Attempt(self._attempt_edges(provider, repository))
            base, settled = attempt.prepare(units)
            units = [unit for unit in units if unit.boundary.id not in settled]
            try:
                attempt.write(units, base)
            except RemoteRejected as refusal:
                self._isolate(attempt, units, later, refusal)
            else:
                for done in (*settled, *(unit.boundary.id for unit in units)):
                    self._memory.offenders.pop(done, None)
            repository.maintenance()
        self._health.healthy()

    def _isolate(
        self, attempt: Attempt, units: Sequence[Unit], later: Sequence[Unit], refusal: RemoteRejected
    ) -> None:
        """Push window by window. Offenders wait, and with them whatever shares their folders (J17), unless
        that can go in their place; when none of the first ones gets through, the rest is not tried: the
        remote refuses the branch."""
        delay = stalled_delay(self._memory.refusals)
        again = time.monotonic() + delay
        before, refused, gone = set(self._memory.offenders), set[str](), set[str]()
        passed = False
        for unit in units:
            if unit.boundary.id in gone or unit not in passable(units, refused):
                continue
            if len(units) == 1 or (len(refused) >= REFUSED_BEFORE_GIVING_UP and not passed):
                refused.add(unit.boundary.id)
                continue
            base, settled = attempt.prepare([unit])
            try:
                if unit.boundary.id not in settled:
                    attempt.write([unit], base)
                    passed = True
                self._memory.offenders.pop(unit.boundary.id, None)
            except RemoteRejected as error:
                refusal = error
                # What is refused once may pass the next time; only what is refused again is given up.
                known = unit.boundary.id in before
                instead = self._replace(attempt, unit, (*units, *later), error) if known else None
                if instead:
                    gone |= instead
                    passed = True
                else:
                    refused.add(unit.boundary.id)
        if not refused:
            return
        self._memory.offenders.update(dict.fromkeys(refused, again))
        self._memory.refusals += 1
        self._health.note_failure(
            refusal.reason,
            str(refusal),
            attempts=self._memory.refusals,
            delay=delay,
            now=self._store.time_ms(),
        )

    def _replace(
        self, attempt: Attempt, offender: Unit, units: Sequence[Unit], refusal: RemoteRejected
    ) -> set[str]:
        """Push, in place of a unit that the remote refuses again, what follows and changes its objects again;
        where that passes the unit is given up, and what else was in it is replayed. A remote that looks into
        every commit would never let the correction pass on top of what it corrects. Returns the boundary ids
        of what went, the unit's own included; empty where it is kept.

        The replay is asked for before: whatever happens between the push and the settlement, it comes last.
        """
        instead = instead_of(offender, units)[:UNITS_PER_PUSH]
        if not instead:
            return set()
        key, target = offender.boundary.id, offender.boundary.target
        if key not in self._memory.replaced:
            self._memory.replaced.add(key)
            self._store.raise_wanted(scopes_of(offender))
        base, settled = attempt.prepare(instead)
        try:
            attempt.write([unit for unit in instead if unit.boundary.id not in settled], base)
        except RemoteRejected:
            return set()
        logger.warning(
            "a refused window is given up, later changes went in its place",
            extra={
                "branch": str(self._branch),
                "target": f"{target.namespace}/{target.name}",
                "reason": refusal.reason,
                "detail": str(refusal),
            },
        )
        self._settle(refusal_of(offender, branch=self._branch, reason=refusal.reason, detail=str(refusal)))
        gone = {key, *(unit.boundary.id for unit in instead)}
        for done in gone:
            self._memory.offenders.pop(done, None)
        return gone

    def _drop_displaced(self, units: Sequence[Unit]) -> list[Unit]:
        """Settle what a successor's first sweep makes obsolete (J17)."""
        displaced: dict[str, Unit] = {}
        for unit in units:
            if isinstance(unit, SweepUnit):
                displaced.update({found.boundary.id: found for found in displaced_by(unit, units)})
        for unit in displaced.values():
            self._retire(unit, reason="Succeeded", detail="a successor of the target replays the folder")
        return [unit for unit in units if unit.boundary.id not in displaced]

    def _drop_homeless(self, units: Sequence[Unit], provider: GitProvider) -> list[Unit]:
        """Settle what a target that is gone left for another repository than the one that the GitProvider of
        this name has now (J22). A target that is there brings its changes along, and replays.
        """
        here = repository_of(provider)
        gone: dict[str, bool] = {}
        kept: list[Unit] = []
        for unit in units:
            frozen, target = unit.boundary.frozen, unit.boundary.target
            if frozen is not None and frozen.repository not in ("", here):
                if target.uid not in gone:
                    gone[target.uid] = self._edges.sources.target(target) is None
                if gone[target.uid]:
                    detail = (
                        f"GitProvider {self._branch.namespace}/{self._branch.provider} was made anew for "
                    )
                    self._retire(unit, reason="RepositoryChanged", detail=f"{detail}another repository")
                    continue
            kept.append(unit)
        return kept

    def _retire(self, unit: Unit, *, reason: str, detail: str) -> None:
        self._settle(retirement_of(unit, branch=self._branch, reason=reason, detail=detail))
        self._memory.offenders.pop(unit.boundary.id, None)

    def _attempt_edges(self, provider: GitProvider, repository: BareRepository) -> AttemptEdges:
        sources, namespace = self._edges.sources, provider.meta.namespace
        return AttemptEdges(
            store=self._store,
            lease=self._lease,
            branch=self._branch,
            repository=repository,
            remote=sources.remote(provider),
            shelf=self._edges.shelf,
            signer=lambda secret: sources.signer(namespace, secret),
            sensitive=self._edges.config.additional_sensitive_resources,
            brake_percent=self._edges.config.sweep_brake,
        )

    @contextmanager
    def _open_idle(self) -> Iterator[Attempt | None]:
        """The clone for a look that writes nothing; None where the provider is gone."""
        provider = self._edges.sources.provider(self._branch)
        if provider is None:
            yield None
            return
        with self._edges.open_clone(self._branch, provider) as repository:
            yield Attempt(self._attempt_edges(provider, repository))

    def _check_remote(self) -> None:
        """Nothing is pending, so the branch was woken to check whether its history was rewritten (J19)."""
        try:
            self._rescanner.check_remote()
        except LostRace:
            self._lease.check()

    # -- when next

    def _due(self, plan: Plan, wait: float, now: int, *, held: bool) -> int | None:
        moments = [plan.due_at_ms] if plan.due_at_ms is not None else []
        if wait != float("inf"):
            moments.append(now + int(wait * 1000) + 1)
        if plan.unplanned or held:
            moments.append(now + CLOSED_GATE_RECHECK_MS)
        clock = time.monotonic()
        moments += [now + int(max(at - clock, 0) * 1000) for at in self._memory.offenders.values()]
        rescan = self._rescanner.rescan(now)
        if rescan is not None:
            moments.append(rescan)
        return min(moments) if moments else None


def _local_ms() -> int:
    return int(time.monotonic() * 1000)
