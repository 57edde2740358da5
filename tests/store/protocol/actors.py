"""Watcher and writer as small steps: at every ``yield`` a process can stop, die, or fall behind.

They do what docs/journal.md says and no more; the store under them is the real one. Whoever holds a
generator may step it, drop it (a crash), or step it long after its lease went to another (a late process).
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from gitwriter.windows import (
    ClosedWindow,
    SweepUnit,
    TargetSettings,
    Unit,
    displaced_by,
    passable,
    plan_windows,
)
from reverser.store import Store
from reverser.store.model import (
    AppendId,
    AppendStatus,
    AttachEntry,
    Author,
    BranchKey,
    EventEntry,
    Fence,
    Frozen,
    Intent,
    IntentWindow,
    LeaseKind,
    Limits,
    Marks,
    ObjectRef,
    Operation,
    Outcome,
    OutcomeKind,
    Presence,
    ReplayWish,
    Scope,
    Settlement,
    StagedObject,
    Stored,
    SweepEntry,
    TargetRef,
    TypeRef,
)
from tests.store.protocol.reality import Change, Cluster, Commit, Push, Remote, Tree

BRANCH = BranchKey("shop", "provider", "main")
PLENTY = Limits(1 << 30, 1 << 30)
LEASE_MS = 600_000
Steps = Generator[None, None, None]


@dataclass
class Target:
    """A GitTarget as its owner wrote it, and what befalls its folder."""

    ref: TargetRef
    path: str
    kinds: tuple[str, ...]
    cluster: Cluster
    fingerprint: int = 0
    gate_open: bool = True
    alive: bool = True
    refused: bool = False
    stalled: bool = False
    brake: bool = False

    def frozen(self) -> Frozen:
        return Frozen("GitOps Reverser", "noreply@configbutler.ai", "", "", "", self.path)


@dataclass
class World:
    """Everything that the actors share."""

    store: Store
    rng: random.Random
    window_ms: int
    targets: dict[str, Target] = field(default_factory=dict)
    remote: Remote = field(default_factory=Remote)
    pushes: list[Push] = field(default_factory=list)
    requests: dict[str, AttachEntry] = field(default_factory=dict)
    appended: set[tuple[str, str, int]] = field(default_factory=set)
    """(target UID, object, revision) of every live event that was appended."""
    settled: dict[str, set[OutcomeKind]] = field(default_factory=dict)
    """By entry id, the outcomes that settlements gave it."""
    tokens: int = 0
    revision: int = 1
    """The clusters' newest resourceVersion."""
    lossy: bool = False
    """Redis lost data or the remote was rewritten: history may repeat, the tree must still become right."""

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"


def type_of(kind: str) -> TypeRef:
    return TypeRef("", "v1", kind, kind.title(), True)


# -- the watcher


class _Stopped(Exception):
    """The lease is another's: end without draining."""


@dataclass
class _Session:
    scope: Scope
    session: str
    sequence: int
    stored: AppendId | None
    revision: int
    epoch: str
    fingerprint: str

    def next_id(self) -> AppendId:
        self.sequence += 1
        return AppendId(self.session, self.sequence)


class Watcher:
    """One process that wants to hold one target."""

    def __init__(self, world: World, uid: str) -> None:
        self.world = world
        self.uid = uid
        self.target = world.targets[uid]
        self.fence: Fence | None = None
        self.sessions: dict[str, _Session] = {}

    def steps(self) -> Steps:
        token = self.world.token()
        self.fence = self.world.store.acquire_lease(LeaseKind.TARGET, self.uid, token, LEASE_MS, token)
        if self.fence is None:
            return
        try:
            while True:
                yield
                yield from self.round()
        except _Stopped:
            return

    def round(self) -> Steps:
        """Look at the gate, at every shard once, then at the requests."""
        store = self.world.store
        gate = store.read_gate(self.uid)
        if gate is None or not gate.open:
            self.sessions.clear()
            return
        for kind in self.target.kinds:
            session = self.sessions.get(kind)
            scope = Scope(self.uid, kind)
            marks = store.read_marks(self.uid).get(scope, Marks())
            again = marks.needs_replay and not marks.is_parked(store.time_ms())
            if session is None or again or session.fingerprint != self.fingerprint:
                self.sessions.pop(kind, None)
                opened = yield from self.open(scope, replay=again)
                if opened:
                    self.sessions[kind] = opened
            else:
                yield from self.deliver(kind, session)
            yield
        for attach in list(self.world.requests.values()):
            if attach.target.uid == self.uid and not store.attach_outcome(attach.uid):
                self.check(store.append_attach(BRANCH, self.fence, attach))
                yield

    @property
    def fingerprint(self) -> str:
        return f"fp{self.target.fingerprint}"

    def check(self, status: AppendStatus) -> AppendStatus:
        if status is AppendStatus.FENCED:
            raise _Stopped
        return status

    def open(self, scope: Scope, *, replay: bool) -> Generator[None, None, _Session | None]:
        """Resume from the cursor where it is valid, else replay."""
        store, cluster = self.world.store, self.target.cluster
        epoch = store.open_journal(BRANCH)
        cursor = store.read_cursor(scope)
        session = _Session(scope, self.world.token(), 0, None, 0, epoch, self.fingerprint)
        yield
        if (
            cursor
            and not replay
            and (cursor.epoch, cursor.fingerprint) == (epoch, self.fingerprint)
            and int(cursor.resource_version) >= cluster.compacted
        ):
            session.stored, session.revision = cursor.append_id, int(cursor.resource_version)
            return session
        wanted = store.read_marks(self.uid).get(scope, Marks()).wanted
        yield
        return (yield from self.replay(session, cursor.append_id if cursor else None, wanted))

    def replay(
        self, session: _Session, expected: AppendId | None, wanted: int
    ) -> Generator[None, None, _Session | None]:
        store, cluster = self.world.store, self.target.cluster
        kind = session.scope.group_resource
        revision = self.world.revision
        objects = [
            StagedObject("shop", name, Presence.FULL, str(value).encode())
            for name, value in cluster.at(kind, revision).items()
        ]
        replay_id = self.world.token()
        for item in objects:
            store.stage(BRANCH, replay_id, [item])
            yield
        ident = session.next_id()
        sweep = SweepEntry(
            self.target.ref,
            session.scope,
            type_of(kind),
            str(revision),
            replay_id,
            len(objects),
            wanted,
            session.fingerprint,
        )
        for _ in range(self.world.rng.choice([1, 1, 2])):  # an answer that was lost is asked for again
            status = self.check(
                store.append_sweep(
                    BRANCH,
                    session.scope,
                    self.fence_now(),
                    expected=expected,
                    append_id=ident,
                    epoch=session.epoch,
                    fingerprint=session.fingerprint,
                    sweep=sweep,
                    limits=PLENTY,
                )
            )
            yield
        if status not in (AppendStatus.OK, AppendStatus.DUPLICATE):
            return None
        session.stored, session.revision = ident, revision
        return session

    def fence_now(self) -> Fence:
        assert self.fence is not None
        return self.fence

    def deliver(self, kind: str, session: _Session) -> Steps:
        """Append what the watch delivered next, in order."""
        if session.revision < self.target.cluster.compacted:
            del self.sessions[kind]
            return
        changes = self.target.cluster.after(kind, session.revision)[: self.world.rng.choice([1, 2, 3])]
        if not changes:
            return
        events = [self.event(change) for change in changes]
        yield
        ident = session.next_id()
        status = AppendStatus.FULL
        limits = self.world.rng.choice([PLENTY, PLENTY, Limits(1, 1 << 30)])
        for _ in range(self.world.rng.choice([1, 1, 2])):
            status = self.check(
                self.world.store.append_events(
                    BRANCH,
                    session.scope,
                    self.fence_now(),
                    expected=session.stored,
                    append_id=ident,
                    epoch=session.epoch,
                    fingerprint=session.fingerprint,
                    events=events,
                    resource_version=str(changes[-1].revision),
                    limits=limits,
                )
            )
            if status is AppendStatus.OK:
                for change in changes:
                    self.note(change)
            yield
        if status in (AppendStatus.OK, AppendStatus.DUPLICATE):
            session.stored, session.revision = ident, changes[-1].revision
        elif status is not AppendStatus.FULL:
            del self.sessions[kind]

    def note(self, change: Change) -> None:
        """No live event may enter the journal twice while Redis keeps its data."""
        key = (self.uid, f"{change.kind}/{change.name}", change.revision)
        assert self.world.lossy or key not in self.world.appended
        self.world.appended.add(key)

    def event(self, change: Change) -> EventEntry:
        operation = Operation.DELETE if change.deleted else Operation.UPDATE
        return EventEntry(
            self.target.ref,
            Scope(self.uid, change.kind),
            ObjectRef(type_of(change.kind), "shop", change.name),
            operation,
            "u",
            str(change.revision),
            b"" if change.deleted else str(change.revision).encode(),
            author=Author(change.author) if change.author else None,
        )

    def idle(self) -> bool:
        """Every shard stands at the head of its watch and owes no replay."""
        marks = self.world.store.read_marks(self.uid)
        return all(
            kind in self.sessions
            and self.sessions[kind].fingerprint == self.fingerprint
            and not self.target.cluster.after(kind, self.sessions[kind].revision)
            and not marks.get(Scope(self.uid, kind), Marks()).needs_replay
            for kind in self.target.kinds
        )


# -- the writer


@dataclass
class _Built:
    """A unit and what became of it on the tip that was fetched."""

    unit: Unit
    commit: Commit | None
    held: int = 0


class Writer:
    """One run of ``write_branch``."""

    def __init__(self, world: World, *, now_ahead_ms: int) -> None:
        self.world = world
        self.store = world.store
        self.now_ahead_ms = now_ahead_ms
        self.fence = Fence("", 0)

    def steps(self) -> Steps:
        token = self.world.token()
        fence = self.store.acquire_lease(LeaseKind.BRANCH, BRANCH.id, token, LEASE_MS, token)
        if fence is None:
            return
        self.fence = fence
        yield
        try:
            yield from self.run()
        except _Stopped:
            return

    def done(self, answer: bool) -> None:
        """False of a fenced script means: stop, and let whoever comes next begin anew."""
        if not answer:
            raise _Stopped

    def run(self) -> Steps:
        entries: list[Stored] = []
        while page := self.store.read_entries(BRANCH, entries[-1].id if entries else "", 2000):
            entries += page
        yield
        boundaries = self.store.read_boundaries(BRANCH)
        yield
        ids = {stored.id for stored in entries}
        if any(ident not in ids for boundary in boundaries for ident in boundary.entry_ids):
            raise _Stopped
        plan = plan_windows(
            entries,
            boundaries,
            now_ms=self.store.time_ms() + self.now_ahead_ms,
            settings=self.settings(),
            buffer_limit=1 << 20,
        )
        for boundary in plan.new_boundaries:
            self.done(self.store.store_boundary(BRANCH, self.fence, boundary))
            yield
        for due in plan.attach_due:
            self.settle_plain(due.attach.target, [Stored(due.id, due.attach)], due.kind)
            yield
        by_target: dict[str, list[Stored]] = {}
        for stored in plan.retired:
            by_target.setdefault(stored.entry.target.uid, []).append(stored)
        for gone in by_target.values():
            self.settle_plain(gone[0].entry.target, gone, OutcomeKind.RETIRED)
            yield
        left = yield from self.push_all(list(plan.closed))
        due_at = plan.due_at_ms
        if left:
            due_at = self.store.time_ms() + 5000
        self.done(self.store.release_branch(BRANCH, self.fence, plan.last_id, due_at))

    def settings(self) -> dict[str, TargetSettings]:
        gates = self.store.read_gates()
        return {
            uid: TargetSettings(
                self.world.window_ms,
                gate_open=uid in gates and gates[uid].open,
                present=target.alive,
                path=target.path,
                frozen=target.frozen(),
            )
            for uid, target in self.world.targets.items()
        }

    # -- one attempt after the other

    def push_all(self, units: list[Unit]) -> Generator[None, None, bool]:
        """Attempts until everything that may go has gone; answers whether something waits."""
        while True:
            yield
            tip = self.world.remote.tip
            base = self.store.read_base(BRANCH)
            if base is not None and not _reaches(tip, base):
                self.store.note_rewrite(BRANCH, self.fence, tip.id if tip else "")
                yield
            yield from self.recognise(tip, units)
            stored = {boundary.id for boundary in self.store.read_boundaries(BRANCH)}
            units = [unit for unit in units if unit.boundary.id in stored]
            yield from self.displace(units)
            waiting = {unit.boundary.id for unit in units if self.waits(unit)}
            going = passable(units, waiting)[: self.world.rng.choice([1, 2, 5])]
            if not going:
                return bool(units)
            yield from self.attempt(tip, going)

    def displace(self, units: list[Unit]) -> Steps:
        """J17: what a predecessor still has waiting is pointless once its successor's first sweep may go."""
        for sweep in [u for u in units if isinstance(u, SweepUnit) and not self.waits(u)]:
            for old in displaced_by(sweep, list(units)):
                if not self.world.targets[old.boundary.target.uid].alive and self.waits(old):
                    self.settle_outcome(old, OutcomeKind.RETIRED)
                    units.remove(old)
                    yield

    def waits(self, unit: Unit) -> bool:
        target = self.world.targets[unit.boundary.target.uid]
        gate = self.store.read_gate(target.ref.uid)
        return target.stalled or (target.alive and not (gate and gate.open))

    def recognise(self, tip: Commit | None, units: list[Unit]) -> Steps:
        """J15: earlier pushes of ours that have arrived are settled, not repeated."""
        by_id = {unit.boundary.id: unit for unit in units}
        for stray in self.store.read_strays(BRANCH):
            if _reaches(tip, stray.new_tip):
                self.done(self.store.note_stray(BRANCH, self.fence, stray.id))
                yield
        for intent in self.store.read_intents(BRANCH):
            if not _reaches(tip, intent.new_tip):
                continue
            stored = {boundary.id for boundary in self.store.read_boundaries(BRANCH)}
            for window in intent.windows:
                unit = by_id.get(window.boundary_id)
                if window.boundary_id in stored and unit:
                    self.settle_unit(
                        unit, window.commit, window.held, tip.id if tip else "", intent_id=intent.id
                    )
                    yield

    def attempt(self, tip: Commit | None, going: list[Unit]) -> Steps:
        built: list[_Built] = []
        head = tip
        for unit in going:
            refusal = self.refusal(unit)
            if refusal:
                self.settle_refused(unit, refusal)
                yield
                continue
            tree, held = self.apply(unit, head.tree if head else {})
            commit = None
            if tree != (head.tree if head else {}):
                commit = head = Commit(head, tree, unit.boundary.id, unit.boundary.request_uid)
            built.append(_Built(unit, commit, held))
        if not built:
            return
        self.done(self.store.verify_branch(BRANCH, self.fence))
        yield
        if head is tip:
            for item in built:
                self.settle_unit(item.unit, "", item.held, tip.id if tip else "")
                yield
            return
        assert head is not None
        windows = tuple(
            IntentWindow(
                item.unit.boundary.id,
                item.unit.boundary.entry_ids,
                item.commit.id if item.commit else "",
                item.held,
            )
            for item in built
        )
        intent = Intent(self.world.token(), tip.id if tip else "", head.id, windows)
        self.done(self.store.store_intent(BRANCH, self.fence, intent))
        yield
        push = Push(intent.expected_tip, head)
        self.world.pushes.append(push)
        yield
        if not self.world.remote.land(push):
            return
        yield
        for item in built:
            commit_id = item.commit.id if item.commit else ""
            self.settle_unit(item.unit, commit_id, item.held, head.id, intent_id=intent.id)
            yield

    def refusal(self, unit: Unit) -> OutcomeKind | None:
        target = self.world.targets[unit.boundary.target.uid]
        if target.refused:
            return OutcomeKind.REFUSED
        if isinstance(unit, SweepUnit):
            staging = self.store.read_staging(BRANCH, unit.sweep.replay_id)
            if staging is None or len(staging) != unit.sweep.count:
                return OutcomeKind.VOID
        return None

    def apply(self, unit: Unit, before: Tree) -> tuple[Tree, int]:
        """The tree with this unit on top, and how many deletions were held back."""
        target = self.world.targets[unit.boundary.target.uid]
        tree = dict(before)
        if isinstance(unit, ClosedWindow):
            for folded in unit.events:
                key = (target.path, folded.event.object.type.resource, folded.event.object.name)
                tree.pop(key, None)
                if folded.event.operation is not Operation.DELETE:
                    tree[key] = int(folded.event.body)
            return tree, 0
        kind = unit.sweep.type.resource
        staging = self.store.read_staging(BRANCH, unit.sweep.replay_id)
        wanted = {item.name: int(item.body) for item in staging or ()}
        assert wanted == target.cluster.at(kind, int(unit.sweep.resource_version))
        tree.update({(target.path, kind, name): value for name, value in wanted.items()})
        extra = [key for key in tree if key[:2] == (target.path, kind) and key[2] not in wanted]
        if target.brake and extra and not unit.sweep.released_hold:
            return tree, len(extra)
        for key in extra:
            del tree[key]
        return tree, 0

    # -- settling

    def settle_unit(self, unit: Unit, commit: str, held: int, tip: str, intent_id: str = "") -> None:
        kind = OutcomeKind.PUSHED if commit else OutcomeKind.NO_CHANGE
        applied = isinstance(unit, SweepUnit) and not held
        self._settle(
            unit.boundary.target,
            unit.settle_ids,
            OutcomeKind.HELD if held else kind,
            commit=commit,
            boundary_id=unit.boundary.id,
            request_uid=unit.boundary.request_uid,
            intent_id=intent_id,
            applied_scope=unit.sweep.scope if isinstance(unit, SweepUnit) and applied else None,
            applied_fingerprint=unit.sweep.fingerprint if isinstance(unit, SweepUnit) else "",
            new_base=tip,
            pushed=bool(commit),
            **self.weight(unit),
        )

    def settle_refused(self, unit: Unit, kind: OutcomeKind) -> None:
        """J14: what was refused or void is asked for again; a refused path waits for its repair."""
        reason = "PathRefused" if kind is OutcomeKind.REFUSED else ""
        if isinstance(unit, SweepUnit):
            scopes = {unit.sweep.scope}
        else:
            scopes = {folded.event.scope for folded in unit.events}
        self._settle(
            unit.boundary.target,
            unit.settle_ids,
            kind,
            boundary_id=unit.boundary.id,
            request_uid=unit.boundary.request_uid,
            wishes=tuple(ReplayWish(scope, reason) for scope in sorted(scopes, key=str)),
            **self.weight(unit),
        )

    def settle_outcome(self, unit: Unit, kind: OutcomeKind) -> None:
        self._settle(
            unit.boundary.target,
            unit.settle_ids,
            kind,
            boundary_id=unit.boundary.id,
            request_uid=unit.boundary.request_uid,
        )

    @staticmethod
    def weight(unit: Unit) -> dict[str, object]:
        """What lets the script settle a window without reading its entries."""
        weight = unit.weight if isinstance(unit, ClosedWindow) else 0
        return {"attach_id": unit.boundary.attach_id, "event_bytes": weight}

    def settle_plain(self, target: TargetRef, entries: list[Stored], kind: OutcomeKind) -> None:
        attaches = {s.entry.uid for s in entries if isinstance(s.entry, AttachEntry)}
        answers = {
            uid: Outcome(f"r-{uid}", kind, BRANCH, target, request_uid=uid) for uid in sorted(attaches)
        }
        self._settle(target, [s.id for s in entries], kind, attach_outcomes=answers)

    def _settle(
        self, target: TargetRef, ids: Iterator[str] | object, kind: OutcomeKind, **more: object
    ) -> None:
        entry_ids = tuple(ids)  # type: ignore[arg-type]
        outcome = Outcome(
            f"o-{entry_ids[0]}",
            kind,
            BRANCH,
            target,
            commit=str(more.pop("commit", "")),
            request_uid=str(more.pop("request_uid", "")),
        )
        self.done(
            self.store.settle(BRANCH, self.fence, Settlement(outcome, entry_ids, **more))  # type: ignore[arg-type]
        )
        for ident in entry_ids:
            self.world.settled.setdefault(ident, set()).add(kind)


def _reaches(tip: Commit | None, commit_id: str) -> bool:
    return Remote(tip).reaches(commit_id)
