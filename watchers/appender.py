"""From a shard's buffer into the journal: one fenced script moves the entries and the cursor together (J2).

A try that timed out is repeated with the same append id, so it cannot become a second entry. A journal at
its limit is waited for with everything as it is: the buffer fills and the watch is no longer read (J8).
Any answer that says "not you" or "not from here" ends the appender with the matching fault; nothing is
guessed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from reverser.errors import LostRace, StoreUnavailable
from reverser.store import AsyncStore
from reverser.store.model import (
    AppendId,
    AppendStatus,
    BranchKey,
    EventEntry,
    Fence,
    Limits,
    Scope,
    SweepEntry,
    UnsealedEntry,
)
from watchers import metrics
from watchers.buffer import Batch, ShardBuffer

log = logging.getLogger(__name__)

BATCH_ITEMS = 500
BATCH_BYTES = 2**20
CURSOR_PAUSE = 0.2
"""Seconds between two steps that move the cursor only."""
RETRY_FIRST = 0.2
RETRY_MAX = 5.0
TOUCH_EVERY = 60.0


class LeaseLost(LostRace):
    """Another watcher holds the target now: end without draining."""


class CursorLost(LostRace):
    """The stored cursor or the journal's epoch is not the expected one: start again from what is stored."""


class ReplayVoid(LostRace):
    """The staged objects are gone, or their number is not the announced one: replay again."""


@dataclass(slots=True)
class Position:
    """What every append of a shard names; the fence is read at each try, because it may be renewed."""

    branch: BranchKey
    scope: Scope
    fence: Callable[[], Fence]
    fingerprint: str
    limits: Limits
    version: str = ""
    """API version of the type, a metric label."""
    epoch: str = ""
    expected: AppendId | None = None
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    sequence: int = 0
    moved: float = 0.0
    """When the stored cursor last moved, in the event loop's time."""

    def next_id(self) -> AppendId:
        """A fresh append id; retries of one append share one."""
        self.sequence += 1
        return AppendId(self.session, self.sequence)


class Appender:
    """Drains one buffer for as long as the shard lives."""

    def __init__(
        self,
        store: AsyncStore,
        position: Position,
        buffer: ShardBuffer,
        *,
        on_full: Callable[[bool], None] = lambda full: None,
    ) -> None:
        self._store = store
        self._position = position
        self._buffer = buffer
        self._on_full = on_full
        group, _, resource = position.scope.group_resource.rpartition("/")
        self._queue_seconds = metrics.QUEUE_SECONDS.labels(group, position.version, resource)

    async def run(self) -> None:
        """Appends batch after batch. Raises LeaseLost or CursorLost."""
        loop = asyncio.get_running_loop()
        last_plain = -CURSOR_PAUSE
        while True:
            batch = await self._buffer.next_batch(max_items=BATCH_ITEMS, max_bytes=BATCH_BYTES)
            if not batch.entries:
                wait = last_plain + CURSOR_PAUSE - loop.time()
                if wait > 0:
                    await self._buffer.rest(wait)
                    batch = await self._buffer.next_batch(max_items=BATCH_ITEMS, max_bytes=BATCH_BYTES)
                last_plain = loop.time()
            await self._append(batch)
            self._buffer.remove(batch)
            if batch.entries:
                self._queue_seconds.observe(loop.time() - batch.oldest)

    async def _append(self, batch: Batch) -> None:
        entries: Sequence[EventEntry | UnsealedEntry] = batch.entries
        position = self._position
        append_id = position.next_id()

        async def attempt() -> AppendStatus:
            return await self._store.append_events(
                position.branch,
                position.scope,
                position.fence(),
                expected=position.expected,
                append_id=append_id,
                epoch=position.epoch,
                fingerprint=position.fingerprint,
                events=entries,
                resource_version=batch.resource_version,
                limits=position.limits,
            )

        await self._insist(attempt)
        position.expected = append_id
        position.moved = asyncio.get_running_loop().time()

    async def append_sweep(self, sweep: SweepEntry) -> None:
        """Appends a complete, staged replay (J5); the buffer must be empty. Replaces any stored cursor."""
        position = self._position
        append_id = position.next_id()

        async def attempt() -> AppendStatus:
            return await self._store.append_sweep(
                position.branch,
                position.scope,
                position.fence(),
                expected=None,
                append_id=append_id,
                epoch=position.epoch,
                fingerprint=position.fingerprint,
                sweep=sweep,
                limits=position.limits,
            )

        await self._insist(attempt)
        position.expected = append_id
        position.moved = asyncio.get_running_loop().time()

    async def _insist(self, attempt: Callable[[], Awaitable[AppendStatus]]) -> None:
        """Repeats one append until the journal has it. Raises LeaseLost, CursorLost or ReplayVoid when it
        never will."""
        delay, full, touched = RETRY_FIRST, False, 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                status = await attempt()
            except StoreUnavailable as error:
                log.debug("append of %s waits: %s", self._position.scope, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, RETRY_MAX)
                continue
            if status is not AppendStatus.FULL:
                break
            if not full:
                full = True
                self._on_full(True)
            if loop.time() - touched > TOUCH_EVERY:
                touched = loop.time()
                await self._touch()
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_MAX)
        if full:
            self._on_full(False)
        self._judge(status)

    async def _touch(self) -> None:
        """Keeps the cursor of a paused shard from ageing out (J4)."""
        try:
            await self._store.touch_cursor(self._position.scope)
        except StoreUnavailable as error:
            log.debug("cursor of %s was not refreshed: %s", self._position.scope, error)

    def _judge(self, status: AppendStatus) -> None:
        if status is AppendStatus.FENCED:
            raise LeaseLost("the lease of the target is no longer held here")
        if status is AppendStatus.STAGING_MISMATCH:
            raise ReplayVoid("the staged replay is not complete any more")
        if status not in {AppendStatus.OK, AppendStatus.DUPLICATE}:
            raise CursorLost(f"the stored cursor is not the expected one ({status})")
