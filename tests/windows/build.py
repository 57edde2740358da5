"""A journal in a few words: entries at seconds, with authors and targets by one letter."""

from __future__ import annotations

from gitwriter.windows import Plan, TargetSettings, plan_windows
from reverser.store.model import (
    AttachEntry,
    Author,
    Boundary,
    EventEntry,
    Frozen,
    ObjectRef,
    Operation,
    RetireEntry,
    Scope,
    Stored,
    SweepEntry,
    TargetRef,
    TypeRef,
    UnsealedEntry,
)

T0 = 1_700_000_000_000
CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
SECRETS = TypeRef("", "v1", "secrets", "Secret", True)
LIMIT = 8 * 1024 * 1024


def target(name: str) -> TargetRef:
    return TargetRef(f"uid-{name}", "shop", name)


def frozen(path: str) -> Frozen:
    return Frozen("GitOps Reverser", "noreply@configbutler.ai", "", "", "", path)


def settings(*, window: float = 5, names: str = "ab", **changes: TargetSettings) -> dict[str, TargetSettings]:
    """Targets by letter, each in a folder of its name."""
    out = {
        f"uid-{name}": TargetSettings(int(window * 1000), path=name, frozen=frozen(name)) for name in names
    }
    out.update({f"uid-{name}": value for name, value in changes.items()})
    return out


class Journal:
    """Entries of one branch in stream order."""

    def __init__(self) -> None:
        self.entries: list[Stored] = []

    def _add(self, at: float, entry: object, size: int = 100) -> str:
        ms = T0 + round(at * 1000)
        taken = [int(stored.id.split("-")[1]) for stored in self.entries if stored.time_ms == ms]
        ident = f"{ms}-{max(taken, default=-1) + 1}"
        text = len(getattr(entry, "body", b""))
        self.entries.append(Stored(ident, entry, size, text))  # type: ignore[arg-type]
        return ident

    def event(
        self,
        at: float,
        author: str,
        name: str = "x",
        *,
        on: str = "a",
        type: TypeRef = CONFIGMAPS,
        operation: Operation = Operation.UPDATE,
        body: bytes = b"{}",
        namespace: str | None = None,
    ) -> str:
        who = Author(author) if author else None
        scope = Scope(target(on).uid, type.group_resource, namespace)
        ref = ObjectRef(type, namespace or "shop", name)
        return self._add(
            at, EventEntry(target(on), scope, ref, operation, f"u-{name}", "1", body, author=who)
        )

    def attach(
        self,
        at: float,
        author: str,
        *,
        delay: int = 0,
        on: str = "a",
        message: str = "",
        any_author: bool = False,
        uid: str = "",
    ) -> str:
        name = uid or f"cr{len(self.entries)}"
        who = Author(author) if author else None
        return self._add(
            at, AttachEntry(target(on), "shop", name, f"uid-{name}", who, message, delay, any_author)
        )

    def sweep(self, at: float, *, on: str = "a", first: bool = False, type: TypeRef = CONFIGMAPS) -> str:
        scope = Scope(target(on).uid, type.group_resource)
        replay = f"r{len(self.entries)}"
        return self._add(at, SweepEntry(target(on), scope, type, "9", replay, 0, 0, "fp", first=first))

    def retire(self, at: float, *, on: str = "a") -> str:
        return self._add(at, RetireEntry(target(on)))

    def unsealed(self, at: float, *, on: str = "a") -> str:
        scope = Scope(target(on).uid, "secrets")
        ref = ObjectRef(SECRETS, "shop", "s")
        return self._add(
            at, UnsealedEntry(target(on), scope, ref, "EncryptionNotConfigured", "no recipients")
        )

    def plan(
        self,
        at: float,
        known: dict[str, TargetSettings] | None = None,
        boundaries: tuple[Boundary, ...] = (),
        *,
        limit: int = LIMIT,
        **more: object,
    ) -> Plan:
        """The plan at second ``at`` over what had been appended by then."""
        now = T0 + round(at * 1000)
        seen = [stored for stored in self.entries if stored.time_ms <= now]
        return plan_windows(
            seen,
            boundaries,
            now_ms=now,
            settings=known if known is not None else settings(),
            buffer_limit=limit,
            **more,  # type: ignore[arg-type]
        )


def seconds(ms: int | None) -> float | None:
    """A time of the plan as seconds of the journal."""
    return None if ms is None else (ms - T0) / 1000
