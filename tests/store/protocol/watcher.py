"""The watcher as small steps: at every ``yield`` the process can stop, die, or fall behind.

It does what docs/journal.md says and no more; the store under it is the real one. Whoever holds the
generator may step it, drop it (a crash), or step it long after its lease went to another (a late process).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from reverser.store.model import (
    AppendId,
    AppendStatus,
    Author,
    EventEntry,
    Fence,
    LeaseKind,
    Limits,
    Marks,
    ObjectRef,
    Operation,
    Presence,
    Scope,
    StagedObject,
    SweepEntry,
)
from tests.store.protocol.reality import Change
from tests.store.protocol.world import BRANCH, LEASE_MS, PLENTY, Steps, Stopped, World, type_of


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
        except Stopped:
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
            raise Stopped
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
