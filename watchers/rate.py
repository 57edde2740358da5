"""How many events a stream saw in the last hour, counted by minute: sixty numbers, however many events."""

from __future__ import annotations

MINUTES = 60


class EventRate:
    """Counts events; forgets those that are older than an hour, to the minute."""

    __slots__ = ("_counts", "_minute")

    def __init__(self) -> None:
        self._counts = [0] * MINUTES
        self._minute = 0

    def note(self, now: float) -> None:
        """One event, at ``now`` in seconds."""
        self._advance(now)
        self._counts[self._minute % MINUTES] += 1

    def hourly(self, now: float) -> int:
        """Events of the hour before ``now``."""
        self._advance(now)
        return sum(self._counts)

    def _advance(self, now: float) -> None:
        minute = int(now // 60)
        for passed in range(self._minute + 1, min(minute, self._minute + MINUTES) + 1):
            self._counts[passed % MINUTES] = 0
        self._minute = max(self._minute, minute)
