"""The stream records of one target, which its status is made of: only changes are written to the store.

A record is state, not news: while Redis is away only the newest one of each shard waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from time import time

from reverser.errors import StoreUnavailable
from reverser.store import AsyncStore
from reverser.store.model import Scope, StreamRecord, StreamState
from watchers.table import ShardSpec

log = logging.getLogger(__name__)


class StreamBoard:
    """The stream records of one target."""

    def __init__(self, store: AsyncStore, *, retry: float) -> None:
        self._store = store
        self._retry = retry
        self._records: dict[Scope, StreamRecord] = {}
        self._dirty: set[Scope] = set()
        self._wake = asyncio.Event()

    def show(self, spec: ShardSpec, state: StreamState, reason: str, message: str = "") -> None:
        """Sets the state of one shard; an equal one is no change."""
        old = self._records.get(spec.scope)
        if old is not None and (old.state, old.reason, old.message) == (state, reason, message):
            return
        restarts = (old.restarts if old is not None else 0) + (
            1 if old is not None and old.state is StreamState.STREAMING else 0
        )
        self._records[spec.scope] = StreamRecord(
            spec.scope, spec.type, state, reason, message, int(time() * 1000), restarts
        )
        self._mark(spec.scope)

    def seen(self, scope: Scope, last_event_ms: int, hourly: int = 0) -> None:
        """Notes when a shard last saw an event, and how many in the last hour."""
        record = self._records.get(scope)
        if record is not None and (record.last_event_ms, record.hourly_events) != (last_event_ms, hourly):
            self._records[scope] = replace(record, last_event_ms=last_event_ms, hourly_events=hourly)
            self._mark(scope)

    def drop(self, scope: Scope) -> None:
        """The shard is no longer wanted."""
        self._records.pop(scope, None)
        self._mark(scope)

    async def adopt(self, target_uid: str, wanted: Iterable[Scope]) -> None:
        """Removes what an earlier holder left of shards that are no longer wanted."""
        keep = set(wanted) | set(self._records)
        for scope in await self._store.read_streams(target_uid):
            if scope not in keep:
                self._mark(scope)

    def _mark(self, scope: Scope) -> None:
        self._dirty.add(scope)
        self._wake.set()

    async def run(self) -> None:
        """Writes what changed, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        """Writes everything that changed; what could not be written is kept for the next time."""
        while self._dirty:
            scope = self._dirty.pop()
            record = self._records.get(scope)
            try:
                if record is None:
                    await self._store.drop_stream(scope)
                else:
                    await self._store.write_stream(record)
            except StoreUnavailable as error:
                log.debug("stream record waits: %s", error)
                self._dirty.add(scope)
                await asyncio.sleep(self._retry)
            except Exception:
                log.exception("stream record of %s: a bug; it is written when it changes", scope)
