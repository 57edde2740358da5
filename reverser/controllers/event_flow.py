"""How many Events an object may make: repeated ones are counted instead of written again, and there is a
limit.

Something that flaps (a stream that stops and starts, a remote that comes and goes) must neither flood the API
server nor push other people's Events out of etcd. So an Event that was written within the last ten minutes
becomes a higher ``count`` on that very Event, and each object has a small budget that refills slowly; the
numbers are client-go's. A dropped Event loses nothing: the status says what is true now.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

SAME_WITHIN = 600.0
"""Seconds for which the same Event is counted instead of repeated."""
BURST = 25
REFILL = 300.0
"""Seconds until an object whose burst is used up may make one more Event."""
REMEMBERED = 4096

Sameness = tuple[str, ...]
"""What makes two Events the same: object uid, type, reason, message."""


@dataclass(slots=True)
class Written:
    """An Event that is in the API server."""

    name: str
    count: int
    first: str
    """RFC 3339."""
    at: float


class EventFlow:
    """Recent Events, and how many more each object may make."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: OrderedDict[Sameness, Written] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, uid: str) -> bool:
        """Take one Event from the budget of an object; False when there is none left."""
        now = self._clock()
        left, since = self._budgets.pop(uid, (float(BURST), now))
        left = min(float(BURST), left + (now - since) / REFILL)
        granted = left >= 1.0
        self._budgets[uid] = (left - 1.0 if granted else left, now)
        if len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        return granted

    def same(self, what: Sameness) -> Written | None:
        """The recent Event that is the same, if any."""
        known = self._written.get(what)
        if known is None or self._clock() - known.at > SAME_WITHIN:
            return None
        return known

    def note(self, what: Sameness, name: str, *, count: int, first: str) -> None:
        """An Event was written."""
        self._written.pop(what, None)
        self._written[what] = Written(name, count, first, self._clock())
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)
