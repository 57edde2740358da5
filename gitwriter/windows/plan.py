"""What a plan is made of. Plain values; docs/journal.md holds the rules (J6, J7, J12, J13, J17, J21, J22)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reverser.store.model import (
    AttachEntry,
    Author,
    Boundary,
    EventEntry,
    Frozen,
    OutcomeKind,
    Scope,
    Stored,
    SweepEntry,
    TargetRef,
)


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """A target as it was read for this plan. ``frozen`` is what a window that closes now freezes (J13)."""

    commit_window_ms: int
    gate_open: bool = True
    present: bool = True
    path: str = ""
    frozen: Frozen | None = None


@dataclass(frozen=True, slots=True)
class FoldedEvent:
    """The last write of one object in a window, at the position of its first; ``replaced`` names the earlier
    ones."""

    id: str
    event: EventEntry
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """Becomes one commit, or one recorded outcome. ``finalized``: its boundary is stored already (J13)."""

    boundary: Boundary
    events: tuple[FoldedEvent, ...]
    attach: AttachEntry | None = None
    finalized: bool = False
    size: int = 0
    """Bytes of text of all its events, replaced ones included."""
    weight: int = 0
    """The journal bytes of its events."""

    @property
    def settle_ids(self) -> tuple[str, ...]:
        """Every entry that settling this window deletes: its events and the attach bound to it."""
        attach = self.boundary.attach_id
        return (*self.boundary.entry_ids, attach) if attach else self.boundary.entry_ids


@dataclass(frozen=True, slots=True)
class SweepUnit:
    """A replay to be applied. ``heal``: it did not close a window (J6)."""

    boundary: Boundary
    sweep: SweepEntry
    finalized: bool = False

    @property
    def heal(self) -> bool:
        return not self.sweep.first

    @property
    def settle_ids(self) -> tuple[str, ...]:
        """The sweep's own entry."""
        return self.boundary.entry_ids


Unit = ClosedWindow | SweepUnit


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The window that still takes events. ``closes_at_ms`` (Redis clock) if nothing else happens."""

    target: TargetRef
    author: Author | None
    events: tuple[FoldedEvent, ...]
    attach: AttachEntry | None
    opened_ms: int
    closes_at_ms: int
    size: int
    parked: tuple[str, ...] = ()
    """Heals that wait for this window to close."""
    attach_id: str = ""


@dataclass(frozen=True, slots=True)
class AttachDue:
    """A request whose deadline passed with nothing to bind to; ``kind`` says which of the two it was."""

    id: str
    attach: AttachEntry
    kind: OutcomeKind
    due_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that follows from the journal now. Every entry is in exactly one of its fields."""

    closed: tuple[Unit, ...] = ()
    """In the order in which they closed, finalized ones first."""
    open: OpenWindow | None = None
    attach_due: tuple[AttachDue, ...] = ()
    retired: tuple[Stored, ...] = ()
    """Entries of targets that are gone, outside finalized windows (J22)."""
    unsealed: tuple[Stored, ...] = ()
    unplanned: tuple[str, ...] = ()
    """Entries of targets whose gate is closed or not yet known (J21)."""
    waiting: tuple[str, ...] = ()
    """Requests that are neither bound nor due."""
    last_id: str = ""
    """The last entry that this plan saw, for ``release_branch``."""
    due_at_ms: int | None = None
    """When the next timer fires (Redis clock, ms); None = only a new entry changes anything."""

    @property
    def new_boundaries(self) -> tuple[Boundary, ...]:
        """To be stored, in this order, before anything else is settled (J13)."""
        return tuple(unit.boundary for unit in self.closed if not unit.finalized)


def scopes_of(unit: Unit) -> tuple[Scope, ...]:
    """The scopes whose entries a unit holds."""
    if isinstance(unit, SweepUnit):
        return (unit.sweep.scope,)
    return tuple(dict.fromkeys(folded.event.scope for folded in unit.events))


def object_key(event: EventEntry) -> tuple[str, str, str]:
    """Which object an event is of, whatever version of its type: group/resource, namespace, name."""
    ref = event.object
    return (ref.type.group_resource, ref.namespace, ref.name)


def fold(events: Iterable[tuple[str, EventEntry]]) -> tuple[FoldedEvent, ...]:
    """Last write wins at the position of the first, per (group/resource, namespace, name)."""
    kept: dict[tuple[str, str, str], FoldedEvent] = {}
    for ident, event in events:
        key = object_key(event)
        before = kept.get(key)
        kept[key] = FoldedEvent(ident, event, (*before.replaced, before.id) if before else ())
    return tuple(kept.values())
