"""Every duration of ingestion, in seconds, in one value, so that tests can shrink them all."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Defaults are those of the product."""

    retry_first: float = 1.0
    retry_max: float = 30.0
    forbidden_first: float = 30.0
    forbidden_max: float = 300.0
    healthy: float = 60.0
    """A session that lasted this long resets the back-off."""
    steady: float = 5.0
    """A session that streamed this long, and no less than was waited before, makes the next pause short."""
    blocked_after: float = 30.0
    """Failures for this long (or three in a row) are shown as Blocked."""
    open_timeout: float = 30.0
    watch_silence: float = 180.0
    watch_least: int = 300
    watch_most: int = 600
    """Bounds of the random ``timeoutSeconds`` of a watch."""
    marker_silence: float = 30.0
    marker_total: float = 300.0
    """How long a replay may wait for its end marker: between two events, and in all."""
    probe_after: float = 5.0
    """Silence after a resume before the cursor is compared with a list (a cursor from the future is
    silent).
    """
    quick_close: float = 1.0
    quick_closes: int = 5
    """After this many consecutive closes within ``quick_close`` of opening, without an event: replay."""
    backlog_gap: float = 0.2
    """A pause in a resumed stream after which events count as live."""
    drain: float = 10.0
    """How long a shard that is stopped waits for its buffer to reach the journal."""
    lease: float = 15.0
    renew: float = 5.0
    claim: float = 2.0
    discovery: float = 30.0
    debounce: float = 1.0
    settle: float = 5.0
    """How long a type must be followable without a gap before it is reported as activated."""
    secrets: float = 15.0
    sealing_first: float = 10.0
    sealing_max: float = 300.0
    """Pause until a type with objects that could not be sealed is replayed, doubled each time (J14)."""
    skipped_first: float = 300.0
    skipped_max: float = 3600.0
    """The same for objects that the writer skipped, which only a person's edit can help."""

    def watch_timeout(self) -> str:
        """A random ``timeoutSeconds``, so that many watches do not end together."""
        return str(random.randint(self.watch_least, self.watch_most))  # noqa: S311

    def backoff(self, failures: int, *, forbidden: bool = False) -> float:
        """The wait in seconds after ``failures`` in a row, doubled each time, with a jitter of a quarter."""
        first, most = (
            (self.forbidden_first, self.forbidden_max) if forbidden else (self.retry_first, self.retry_max)
        )
        wait: float = min(most, first * 2.0 ** min(max(failures - 1, 0), 16))
        low = first if forbidden else wait * 0.75
        return max(low, wait * random.uniform(0.75, 1.25))  # noqa: S311
