"""Author names that later evidence may still contradict, re-checked before their window is finalized.

Two people may send the same change at the same moment. One request writes the new version, the other is a
no-op, and both are answered with that version. Nothing in the two audit events tells them apart, and one of
them arrives first. A name that rests on such evidence therefore carries a claim. Before the boundary of its
window is stored, the attribution index is read again: an author who has a rival by then is dropped, and the
change is the committer's. A window that closes before a rival could have been reported is held back until
then. A window that was silent for longer anyway is not delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gitwriter.windows import Plan
from reverser.factmetrics import FACTS
from reverser.store import Store
from reverser.store.attribution import Claims, evidence_key, version_key
from reverser.store.model import EventEntry, Operation, Stored

SLOTS_AT_ONCE = 500
LEAST_PAUSE_MS = 200
"""Many windows that wait are finalized in steps of this length, not one by one."""


@dataclass(frozen=True, slots=True)
class CertainPlan:
    """A plan whose closed windows may be finalized: none of their names can still be contradicted."""

    entries: list[Stored]
    """The journal that was planned on, without the names that have a rival."""
    plan: Plan
    held_until: int | None = None
    """When the first window that is held back may be finalized (Redis clock, ms); None: none is held back."""


def plan_with_certain_names(
    store: Store, entries: list[Stored], plan: Callable[[Sequence[Stored]], Plan], *, now: int
) -> CertainPlan:
    """Plan, and plan again whenever a name is dropped, because another author means another window.

    Raises StoreUnavailable when the index cannot be read: what cannot be checked is not committed.
    """
    asked: set[str] = set()
    while True:
        made = plan(entries)
        known = {stored.id: stored for stored in entries}
        closing = [
            [known[ident] for ident in unit.boundary.entry_ids] if not unit.finalized else []
            for unit in made.closed
        ]
        contested = [
            stored for window in closing for stored in window if _claim(stored) and stored.id not in asked
        ]
        if not contested:
            return _ripe(entries, made, closing, now)
        asked.update(stored.id for stored in contested)
        doubtful = _doubtful(store, contested)
        if doubtful:
            FACTS.labels("contradicted").inc(len(doubtful))
            entries = [_unnamed(stored) if stored.id in doubtful else stored for stored in entries]


def _ripe(entries: list[Stored], plan: Plan, closing: Sequence[Iterable[Stored]], now: int) -> CertainPlan:
    """The plan up to the first window that must wait; windows keep their order."""
    for place, window in enumerate(closing):
        at = max((_ripe_at(stored) for stored in window), default=now)
        if at > now:
            again = max(at, now + LEAST_PAUSE_MS)
            due = again if plan.due_at_ms is None else min(again, plan.due_at_ms)
            return CertainPlan(entries, replace(plan, closed=plan.closed[:place], due_at_ms=due), at)
    return CertainPlan(entries, plan)


def _claim(stored: Stored) -> bool:
    return isinstance(stored.entry, EventEntry) and stored.entry.claim is not None


def _ripe_at(stored: Stored) -> int:
    entry = stored.entry
    claim = entry.claim if isinstance(entry, EventEntry) else None
    return stored.time_ms + claim.ripe_ms if claim is not None else 0


def _unnamed(stored: Stored) -> Stored:
    assert isinstance(stored.entry, EventEntry)
    return replace(stored, entry=replace(stored.entry, author=None, claim=None))


def _doubtful(store: Store, contested: Sequence[Stored]) -> set[str]:
    """The ids of those whose author has a rival."""
    found: set[str] = set()
    for start in range(0, len(contested), SLOTS_AT_ONCE):
        page = contested[start : start + SLOTS_AT_ONCE]
        events = [stored.entry for stored in page if isinstance(stored.entry, EventEntry)]
        claims = store.read_claims([name for event in events for name in _slots(event)])
        for place, (stored, event) in enumerate(zip(page, events, strict=True)):
            own, version = claims[2 * place : 2 * place + 2]
            if has_rival(event, own or version):
                found.add(stored.id)
    return found


def _slots(event: EventEntry) -> tuple[str, str]:
    """The key of the evidence, and its key if the audit event had no uid."""
    kind = event.object.type.group_resource
    removal = event.operation is Operation.DELETE
    own = evidence_key(kind, event.object_uid, event.resource_version, removal=removal)
    return own, version_key(kind, event.resource_version)


def has_rival(event: EventEntry, claims: Claims) -> bool:
    """Whether another user's request may have made the change that an event shows."""
    if event.claim is None or event.author is None:
        return False
    return any(
        user != event.author.username and received <= event.claim.until for user, received in claims.items()
    )
