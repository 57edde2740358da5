"""The live part of a session: a stream of events to steps of the shard's buffer, in the stream's order.

It reads until the stream ends or says that its history is gone, counts what came, and decides nothing:
what an event means is the intake's, what an end means is the session's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import time

from reverser.errors import KubeGone
from reverser.kube.aio import WatchStream
from reverser.kube.answers import status_error
from reverser.kube.lines import WatchEvent
from reverser.store.model import StreamState
from watchers import metrics
from watchers.buffer import Item
from watchers.facts import not_newer, read_facts
from watchers.intake import Disposition
from watchers.shardstate import ShardState


class Live:
    """Reads the streams of one session."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._labels = metrics.type_labels(state.spec.type)
        self._scope = metrics.scope_label(state.spec)

    async def open(self, query: dict[str, str]) -> WatchStream:
        """A watch of the shard's collection, with bookmarks and a random end. Raises the error tree."""
        state = self._state
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": state.timing.watch_timeout()}
        return await state.kube.watch(
            state.path, query, silence=state.timing.watch_silence, timeout=state.timing.open_timeout
        )

    def streaming(self, mode: str) -> None:
        """The shard is up to date from here on; ``mode`` says how it got there."""
        state = self._state
        metrics.RECOVERY.labels(*self._labels, mode).inc()
        trigger = "cursor_resume" if mode == "cursor_resume" else "type_reconcile"
        metrics.RECONCILED.labels(state.target.namespace, state.target.name, trigger).inc()
        state.streaming_since = asyncio.get_running_loop().time()
        state.show(StreamState.STREAMING, "AllStreamsReady", "")

    async def follow(
        self, events: AsyncIterator[WatchEvent] | WatchStream, *, resumed: bool, after: str = ""
    ) -> bool:
        """Takes events until the stream ends; true when the server says that its history is gone.

        Events of a resumed stream that come without a pause are backlog: they share one deadline for their
        authors. So do those that could not be read for a while because the buffer was full, but each of these
        has a deadline of its own. ``after`` skips what a list already showed.
        """
        state = self._state
        loop = asyncio.get_running_loop()
        common = loop.time() + state.grace
        backlog = resumed
        last = loop.time()
        async for event in events:
            now = loop.time()
            if event.type == "ERROR":
                error = status_error(f"watch of {state.path}", event.object)
                if isinstance(error, KubeGone):
                    return True
                raise error
            version = read_facts(event.object).resource_version
            if event.type == "BOOKMARK":
                resumed = backlog = False
                self.count("bookmark", "applied")
                await self._put(Item(version, size=100))
                continue
            backlog = backlog and now - last < state.timing.backlog_gap
            resumed = resumed and backlog
            last = now
            if after and not_newer(version, after):
                continue
            deadline = common if resumed else now + state.grace
            item, disposition = state.intake.read(event, deadline=deadline, backlog=backlog)
            applied = disposition is Disposition.APPLIED
            self.count(event.type.lower(), "applied" if applied else "filtered")
            if not applied:
                metrics.FILTERED.labels(*self._labels, disposition.value).inc()
            await self._put(item)
            last = loop.time()
            backlog = backlog or last - now >= state.timing.backlog_gap
        return False

    def count(self, kind: str, outcome: str) -> None:
        """Notes one event."""
        kind = kind if kind in {"added", "modified", "deleted", "bookmark"} else "other"
        metrics.EVENTS.labels(*self._labels, self._scope, kind, outcome).inc()
        self._state.events += 1
        if kind == "bookmark":
            return  # a bookmark: nothing happened
        now = time()
        self._state.last_event_ms = int(now * 1000)
        self._state.rate.note(now)

    async def _put(self, item: Item) -> None:
        version = item.resource_version
        try:
            await self._state.buffer.put(item)
        except asyncio.CancelledError:
            # The session ended while the buffer was full: the event comes again, and must count as new then.
            if item.work is not None:
                item.work.cancel()
            self._state.intake.forget()
            raise
        if version:
            self._state.version = version
