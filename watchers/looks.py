"""What every target asks the store every few seconds, batched over all targets of a process.

A process may hold hundreds of targets. One round trip each would cost more than all idle watches; so targets
look at the same moments of the clock, and those that ask within one turn of the event loop share a round
trip.
"""

from __future__ import annotations

import asyncio

from reverser.store import AsyncStore
from reverser.store.model import TargetLook

TARGETS_AT_ONCE = 100


def until_next(now: float, period: float) -> float:
    """Seconds until the next moment at which all targets look."""
    return period - now % period


class Looks:
    """Asks for the targets of one process."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._waiting: dict[str, asyncio.Future[TargetLook]] = {}
        self._task: asyncio.Task[None] | None = None

    async def look(self, uid: str) -> TargetLook:
        """Gate, marks, skipped and kept objects of a target. Raises StoreUnavailable."""
        future = self._waiting.get(uid)
        if future is None:
            future = self._waiting[uid] = asyncio.get_running_loop().create_future()
        if self._task is None:
            self._task = asyncio.create_task(self._answer(), name="looks")
        return await asyncio.shield(future)

    async def _answer(self) -> None:
        await asyncio.sleep(0)  # others that are due in this turn join
        waiting, self._waiting, self._task = self._waiting, {}, None
        uids = list(waiting)
        for first in range(0, len(uids), TARGETS_AT_ONCE):
            asked = uids[first : first + TARGETS_AT_ONCE]
            try:
                found = await self._store.look_at_targets(asked)
            except Exception as error:  # noqa: BLE001 - every caller handles it
                for uid in asked:
                    waiting[uid].set_exception(error)
                    waiting[uid].exception()  # mark it retrieved, also where nobody waits any more
                continue
            for uid, look in zip(asked, found, strict=True):
                waiting[uid].set_result(look)
