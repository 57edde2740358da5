"""A queue of keys to reconcile, not of events: a key that is added twice is processed once.

Invariants: a key is worked on by one worker at a time; a key that is added while it is worked on is worked on
again afterwards; a key that failed comes back with growing pauses (1 s to 60 s) until it succeeds. No wake-up
is lost, and none is stored: whoever works on a key reads the present state.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY = 1.0
LONGEST_RETRY = 60.0


class WorkQueue(Generic[K]):
    """Keys with due times, for one event loop."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def add(self, key: K, after: float = 0.0) -> None:
        """Process ``key`` in ``after`` seconds, or earlier where that is planned already."""
        due = self._now() + max(after, 0.0)
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        if key not in self._working:
            heapq.heappush(self._heap, (due, next(self._order), key))
            self._changed.set()

    async def get(self) -> K:
        """The next due key; the caller must answer with ``done`` or ``failed``."""
        while True:
            now = self._now()
            while self._heap:
                due, _, key = self._heap[0]
                if key in self._working or self._due.get(key) != due:
                    heapq.heappop(self._heap)
                    continue
                if due > now:
                    break
                heapq.heappop(self._heap)
                del self._due[key]
                self._working.add(key)
                return key
            self._changed.clear()
            timeout = self._heap[0][0] - now if self._heap else None
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K, requeue: float | None) -> None:
        """The pass succeeded; the next one is in ``requeue`` seconds (None = when something changes)."""
        self._failures.pop(key, None)
        self._finish(key, requeue)

    def failed(self, key: K, retry_after: float | None = None) -> float:
        """The pass failed; returns the seconds until the next one."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(min(FIRST_RETRY * 2.0 ** min(count, 10), LONGEST_RETRY), retry_after or 0.0)
        self._finish(key, delay)
        return delay

    def _finish(self, key: K, after: float | None) -> None:
        self._working.discard(key)
        waiting = self._due.pop(key, None)
        if waiting is not None:
            self.add(key, waiting - self._now())
        if after is not None:
            self.add(key, after)
