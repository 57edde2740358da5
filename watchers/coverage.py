"""Which types the audit stream is worth waiting for.

Audit policies leave types out, and managed clusters have no audit stream at all. Nothing announces this, but
a type whose events waited in vain several times in a row, without a single fact, is taken as not covered: its
events are then looked up once and no longer wait. The first fact of the type, whenever it comes, turns
waiting on again. Waits that ran at the same time count once, so one slow batch condemns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

IN_VAIN = 3


@dataclass(slots=True)
class _Misses:
    count: int = 0
    ended: float = 0.0


class Coverage:
    """What one process has observed, by group/resource."""

    def __init__(self, in_vain: int = IN_VAIN) -> None:
        self._in_vain = in_vain
        self._misses: dict[str, _Misses] = {}

    def worth_waiting(self, group_resource: str) -> bool:
        """Whether a fact of this type can be expected."""
        known = self._misses.get(group_resource)
        return known is None or known.count < self._in_vain

    def heard(self, group_resource: str) -> None:
        """A fact of this type exists."""
        self._misses.pop(group_resource, None)

    def in_vain(self, group_resource: str, *, started: float, ended: float) -> None:
        """An event waited its full grace and found no fact."""
        known = self._misses.setdefault(group_resource, _Misses())
        if started >= known.ended:
            known.count += 1
            known.ended = ended
