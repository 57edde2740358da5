"""Keeps repeating lines from flooding a log: a few of a kind in a period, then silence.

What is not logged must not be lost: callers that leave a line out show the same in a status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

_MOST_KINDS = 1000


class Sparing:
    """Counts lines by kind; safe to share between threads."""

    def __init__(self, *, lines: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines, self._seconds, self._clock = lines, seconds, clock
        self._lock = threading.Lock()
        self._said: dict[Hashable, tuple[float, int]] = {}

    def left(self, kind: Hashable) -> int:
        """How many lines of this kind may be logged now, this one included; 0 = log nothing."""
        now = self._clock()
        with self._lock:
            if len(self._said) > _MOST_KINDS:
                self._said = {key: item for key, item in self._said.items() if now < item[0]}
            until, said = self._said.get(kind, (0.0, 0))
            if now >= until:
                until, said = now + self._seconds, 0
            self._said[kind] = (until, said + 1)
            return max(self._lines - said, 0)
