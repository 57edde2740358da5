"""The ordered buffer of one shard, between its watch and the journal.

Everything that moves the cursor passes here in the order of the watch (J3): an event that waits for its
author or its seal is never overtaken. The buffer is bounded; a full one stops the reading of the watch,
which is how back-pressure reaches the API server. Whoever needs "everything so far is appended" waits at
a barrier.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from reverser.store.model import EventEntry, UnsealedEntry

MAX_ITEMS = 5000
MAX_BYTES = 16 * 2**20

Work = asyncio.Task[EventEntry | UnsealedEntry | None]


@dataclass(slots=True)
class Item:
    """One step of the cursor: to ``resource_version``, with an entry, or with work that yields one."""

    resource_version: str
    entry: EventEntry | UnsealedEntry | None = None
    work: Work | None = None
    size: int = 0
    at: float = 0.0
    """When it entered the buffer, in the event loop's time."""

    @property
    def plain(self) -> bool:
        """Whether it only moves the cursor."""
        return self.entry is None and self.work is None


@dataclass(frozen=True, slots=True)
class Batch:
    """A ready prefix of the buffer: its entries in order and the cursor after them."""

    entries: Sequence[EventEntry | UnsealedEntry]
    resource_version: str
    count: int
    oldest: float = 0.0
    """When its first entry entered the buffer."""


class ShardBuffer:
    """Single producer, single consumer, one event loop."""

    def __init__(self, *, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES) -> None:
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._in_flight = 0
        self._taken = 0
        self._added = 0
        self._filled = asyncio.Event()
        self._freed = asyncio.Event()
        self._news = asyncio.Event()
        """Set when something other than a bare cursor arrives."""
        self._barriers: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, item: Item) -> None:
        """Adds at the end; waits while the buffer is full. Cursor-only steps in a row become one."""
        if item.plain and len(self._items) > self._in_flight and self._items[-1].plain:
            self._items[-1].resource_version = item.resource_version or self._items[-1].resource_version
            return
        while len(self._items) >= self._max_items or self._bytes >= self._max_bytes:
            self._freed.clear()
            await self._freed.wait()
        item.at = asyncio.get_running_loop().time()
        self._items.append(item)
        self._bytes += item.size
        self._added += 1
        self._filled.set()
        if not item.plain:
            self._news.set()

    async def rest(self, seconds: float) -> None:
        """Waits, but only until an entry is ready: bare cursors may be delayed, entries may not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (left := deadline - loop.time()) > 0:
            item = next((item for item in self._items if not item.plain), None)
            if item is None:
                self._news.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), left)
            elif item.work is None or item.work.done():
                return
            else:
                await asyncio.wait((item.work,), timeout=left)

    async def next_batch(self, *, max_items: int, max_bytes: int) -> Batch:
        """Waits for the first item and its work, and returns the ready prefix without removing it."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        head = self._items[0]
        if head.work is not None and not head.work.done():
            await asyncio.wait((head.work,))
        entries: list[EventEntry | UnsealedEntry] = []
        version, count, size, oldest = "", 0, 0, 0.0
        for item in self._items:
            if count >= max_items or (count and size + item.size > max_bytes):
                break
            if item.work is not None and not item.work.done():
                break
            entry = item.work.result() if item.work is not None else item.entry
            if entry is not None:
                entries.append(entry)
                oldest = oldest or item.at
            version = item.resource_version or version
            size += item.size
            count += 1
        self._in_flight = count
        return Batch(entries, version, count, oldest)

    def remove(self, batch: Batch) -> None:
        """Drops a batch that is in the journal now, and passes barriers."""
        for _ in range(batch.count):
            self._bytes -= self._items.popleft().size
        self._in_flight = 0
        self._taken += batch.count
        self._freed.set()
        self._pass_barriers()

    def barrier(self) -> asyncio.Future[None]:
        """Done once everything that is in the buffer now has left it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._items:
            self._barriers.append((self._added, future))
        else:
            future.set_result(None)
        return future

    def discard(self) -> None:
        """Throws everything away, running work included; barriers pass, because nothing is left to wait
        for.
        """
        for item in self._items:
            if item.work is not None:
                item.work.cancel()
        self._taken += len(self._items)
        self._items.clear()
        self._in_flight = 0
        self._bytes = 0
        self._freed.set()
        self._pass_barriers()

    def _pass_barriers(self) -> None:
        waiting = self._barriers
        self._barriers = [(mark, future) for mark, future in waiting if mark > self._taken]
        for mark, future in waiting:
            if mark <= self._taken and not future.done():
                future.set_result(None)
