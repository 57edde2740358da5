"""When to try again: pure."""

from __future__ import annotations

TRANSIENT_FIRST_SECONDS = 1.0
TRANSIENT_MOST_SECONDS = 60.0
STALLED_FIRST_SECONDS = 15.0
STALLED_MOST_SECONDS = 300.0
RESCAN_FIRST_SECONDS = 10.0
RESCAN_MOST_SECONDS = 300.0


def _doubled(first: float, attempts: int, most: float) -> float:
    """``first`` doubled per attempt, ``most`` at the most."""
    return min(first * float(2 ** min(attempts, 16)), most)


def transient_delay(attempts: int, *, jitter: float, asked: float | None = None) -> float:
    """Seconds before try ``attempts + 1``; ``jitter`` is in 0..1, ``asked`` what the other side demands."""
    delay = _doubled(TRANSIENT_FIRST_SECONDS, attempts, TRANSIENT_MOST_SECONDS)
    return max(delay * (0.8 + 0.4 * jitter), asked or 0.0)


def stalled_delay(attempts: int) -> float:
    """Seconds before a push that policy refused is tried again."""
    return _doubled(STALLED_FIRST_SECONDS, attempts, STALLED_MOST_SECONDS)


def rescan_delay(attempts: int) -> float:
    """Seconds before a refused folder is checked again."""
    return _doubled(RESCAN_FIRST_SECONDS, attempts, RESCAN_MOST_SECONDS)
