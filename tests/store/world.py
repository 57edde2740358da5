"""One target, one shard and one branch on a real store, with the arguments that never vary filled in."""

from __future__ import annotations

from collections.abc import Sequence

from reverser.store import Store
from reverser.store.model import (
    AppendId,
    AppendStatus,
    AttachEntry,
    Author,
    Boundary,
    BranchKey,
    CloseReason,
    EventEntry,
    Fence,
    LeaseKind,
    Limits,
    ObjectRef,
    Operation,
    Outcome,
    OutcomeKind,
    Presence,
    Scope,
    Settlement,
    StagedObject,
    SweepEntry,
    TargetRef,
    TypeRef,
    UnsealedEntry,
    WindowKind,
)

BRANCH = BranchKey("shop", "provider", "main")
TARGET = TargetRef("uid-a", "shop", "a")
CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
SCOPE = Scope("uid-a", "configmaps")
PLENTY = Limits(1 << 30, 1 << 30)
ALICE = Author("alice", "Alice", "alice@example.com")


def event(name: str = "x", body: bytes = b'{"v":1}', *, target: TargetRef = TARGET) -> EventEntry:
    ref = ObjectRef(CONFIGMAPS, "shop", name)
    scope = Scope(target.uid, "configmaps")
    return EventEntry(target, scope, ref, Operation.UPDATE, f"u-{name}", "7", body, author=ALICE)


def unsealed(name: str = "s", reason: str = "EncryptionFailed") -> UnsealedEntry:
    return UnsealedEntry(TARGET, SCOPE, ObjectRef(CONFIGMAPS, "shop", name), reason, "sealing failed")


def staged(*names: str, body: bytes = b"{}") -> list[StagedObject]:
    return [StagedObject("shop", name, Presence.FULL, body) for name in names]


def attach(uid: str = "cr-1", *, target: TargetRef = TARGET) -> AttachEntry:
    return AttachEntry(target, "shop", "save", uid, ALICE, "a message", 3)


class World:
    """What a watcher, a writer and a controller hold."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.epoch = store.open_journal(BRANCH)
        self.fence = self.lease(LeaseKind.TARGET, TARGET.uid, "watcher")
        self.sequence = 0
        self.stored: AppendId | None = None

    def lease(self, kind: LeaseKind, ident: str, token: str) -> Fence:
        fence = self.store.acquire_lease(kind, ident, token, 60_000, token)
        assert fence is not None
        return fence

    def writer(self, token: str = "writer") -> Fence:
        return self.lease(LeaseKind.BRANCH, BRANCH.id, token)

    def next_id(self) -> AppendId:
        self.sequence += 1
        return AppendId("session", self.sequence)

    def append(
        self,
        *events: EventEntry | UnsealedEntry,
        rv: str = "7",
        fence: Fence | None = None,
        expected: AppendId | str | None = "stored",
        append_id: AppendId | None = None,
        epoch: str = "",
        limits: Limits = PLENTY,
        scope: Scope = SCOPE,
    ) -> AppendStatus:
        ident = append_id or self.next_id()
        status = self.store.append_events(
            BRANCH,
            scope,
            fence or self.fence,
            expected=self.stored if isinstance(expected, str) else expected,
            append_id=ident,
            epoch=epoch or self.epoch,
            fingerprint="fp",
            events=events,
            resource_version=rv,
            limits=limits,
        )
        if status is AppendStatus.OK:
            self.stored = ident
        return status

    def sweep(
        self,
        replay: str = "r1",
        objects: Sequence[StagedObject] | None = None,
        *,
        count: int | None = None,
        wanted: int = 0,
        expected: AppendId | str | None = "stored",
        append_id: AppendId | None = None,
        fingerprint: str = "fp",
        limits: Limits = PLENTY,
        fence: Fence | None = None,
        epoch: str = "",
    ) -> AppendStatus:
        items = staged("a", "b") if objects is None else objects
        if items:
            self.store.stage(BRANCH, replay, items)
        ident = append_id or self.next_id()
        total = len(items) if count is None else count
        entry = SweepEntry(TARGET, SCOPE, CONFIGMAPS, "9", replay, total, wanted, fingerprint)
        status = self.store.append_sweep(
            BRANCH,
            SCOPE,
            fence or self.fence,
            expected=self.stored if isinstance(expected, str) else expected,
            append_id=ident,
            epoch=epoch or self.epoch,
            fingerprint=fingerprint,
            sweep=entry,
            limits=limits,
        )
        if status is AppendStatus.OK:
            self.stored = ident
        return status

    def ids(self) -> list[str]:
        return [stored.id for stored in self.store.read_entries(BRANCH)]

    def sweeps(self) -> list[SweepEntry]:
        return [s.entry for s in self.store.read_entries(BRANCH) if isinstance(s.entry, SweepEntry)]

    def settle(
        self, fence: Fence, ids: Sequence[str], kind: OutcomeKind = OutcomeKind.PUSHED, **more: object
    ) -> bool:
        parts = {
            key: more.pop(key) for key in ("request_uid", "reason", "commit", "swept", "id") if key in more
        }
        parts.setdefault("id", f"o-{'-'.join(ids)}")
        outcome = Outcome(kind=kind, branch=BRANCH, target=TARGET, **parts)  # type: ignore[arg-type]
        return self.store.settle(BRANCH, fence, Settlement(outcome, tuple(ids), **more))  # type: ignore[arg-type]


def boundary(ids: Sequence[str], ident: str = "w1", *, attach_id: str = "") -> Boundary:
    return Boundary(ident, WindowKind.WINDOW, TARGET, tuple(ids), CloseReason.TIMER, ALICE, attach_id)
