"""What happens to types over time, in five words: activated, wobbling, recovered, removed, refused.

``advance(lives, before, after, now)`` is pure. A type is activated once in its life, and only after it was
followable for a settle window without a gap: one that comes and goes while its server starts is not reported
yet. This delays the report only; watches are opened at once. A new type that is refused is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchers.registry import Registry, TypeKey, TypeRecord, Verdict


class Transition(StrEnum):
    """How a type changed; a metric label."""

    ACTIVATED = "TypeActivated"
    WOBBLING = "TypeWobbling"
    RECOVERED = "TypeRecovered"
    REMOVED = "TypeRemoved"
    REFUSED = "TypeRefused"


@dataclass(frozen=True, slots=True)
class Lives:
    """What is remembered of types between two judgements."""

    settling: Mapping[TypeKey, float] = field(default_factory=dict)
    """Since when types that are not activated yet are followable without a gap."""
    active: frozenset[TypeKey] = frozenset()

    def next_settled(self, settle: float) -> float | None:
        """When the first of the settling types will be activated; None when no type is settling."""
        return min(self.settling.values()) + settle if self.settling else None


def advance(
    lives: Lives, before: Registry, after: Registry, now: float, *, settle: float
) -> tuple[Lives, tuple[tuple[Transition, TypeRecord], ...]]:
    """The lives after a judgement, and what happened, in order of types. ``now`` is a monotonic time and
    ``settle`` the window, both in seconds; ``after`` may be ``before``, when only time has passed.
    """
    told: list[tuple[Transition, TypeRecord]] = []
    settling: dict[TypeKey, float] = {}
    active: set[TypeKey] = set()
    for key in sorted(before.records.keys() | after.records.keys()):
        old, new = before.records.get(key), after.records.get(key)
        change = _change(old, new)
        if change is not None:
            told.append(change)
        if new is None or not new.live:
            continue
        if key in lives.active:
            active.add(key)
        elif new.verdict is Verdict.FOLLOWABLE:
            unbroken = old is not None and old.verdict is Verdict.FOLLOWABLE
            since = lives.settling.get(key, now) if unbroken else now
            if now - since >= settle:
                active.add(key)
                told.append((Transition.ACTIVATED, new))
            else:
                settling[key] = since
    return Lives(settling, frozenset(active)), tuple(told)


def _change(old: TypeRecord | None, new: TypeRecord | None) -> tuple[Transition, TypeRecord] | None:
    """The transition between two verdicts on a type, if any."""
    if old is None or not old.live:
        return None
    if new is None:
        return Transition.REMOVED, old
    if new.verdict is old.verdict:
        return None
    if new.verdict is Verdict.REFUSED:
        return Transition.REFUSED, new
    return (Transition.WOBBLING if new.verdict is Verdict.RETAINED else Transition.RECOVERED), new
