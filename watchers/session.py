"""One session of a shard: resume where the journal stands, else replay, else list; then follow live events.

The session never decides about retries: it returns when the server closed the watch, and raises
otherwise. What it may not do is skip: the cursor moves only through the shard's buffer, and a replay starts
only after that buffer is in the journal.
"""

from __future__ import annotations

import asyncio
import logging

from reverser.errors import KubeGone, KubeInvalid, KubeUnavailable
from reverser.kube.aio import WatchStream
from reverser.store.model import StreamState
from watchers import metrics
from watchers.behind import is_behind
from watchers.facts import is_cursor
from watchers.live import Live
from watchers.replay import Replay
from watchers.shardstate import ShardState

log = logging.getLogger(__name__)

INTERNAL_ERROR = 500
RESUME_ATTEMPTS = 3
"""After this many attempts in a row that were answered with 500, a resourceVersion is considered unusable."""


class Session:
    """Runs once."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._live = Live(state)
        self._from_future = False

    async def run(self) -> None:
        """Returns when the server closed the watch in an orderly way. Raises the error tree otherwise."""
        version = await self._start()
        if version and not await self._resume(version):
            return
        await Replay(self._state, self._live).run()

    async def _start(self) -> str:
        """Where to resume, or empty for a replay."""
        state = self._state
        if state.version and not state.must_replay:
            return state.version
        if state.must_replay:
            return ""
        position = state.position
        position.epoch = await state.store.open_journal(position.branch)
        cursor = await state.store.read_cursor(position.scope)
        marks = (await state.store.read_marks(position.scope.target_uid)).get(position.scope)
        position.expected = cursor.append_id if cursor is not None else None
        if cursor is None or (cursor.epoch, cursor.fingerprint) != (position.epoch, position.fingerprint):
            return ""
        if not is_cursor(cursor.resource_version):
            return ""
        if marks is not None and marks.needs_replay and not marks.is_parked(await state.store.time_ms()):
            return ""
        return cursor.resource_version

    async def _resume(self, version: str) -> bool:
        """Follows from ``version``; true when that version is unusable and a replay must follow."""
        state = self._state
        try:
            stream = await self._live.open({"resourceVersion": version})
        except (KubeGone, KubeInvalid):
            self._expired()
            return True
        except KubeUnavailable as error:
            # A server may answer 500 to a version that it cannot use; one that is down says nothing about the
            # version.
            state.resume_failures += error.status == INTERNAL_ERROR
            state.must_replay = state.resume_failures >= RESUME_ATTEMPTS
            raise
        state.resume_failures = 0
        async with stream:
            self._live.streaming("cursor_resume")
            probe = asyncio.create_task(self._probe(version, stream))
            try:
                gone = await self._live.follow(stream, resumed=True)
            except KubeUnavailable:
                if not self._from_future:
                    raise
                gone = True
            finally:
                probe.cancel()
        if gone or self._from_future:
            self._expired()
            return True
        return False

    def _expired(self) -> None:
        state = self._state
        state.must_replay = True
        labels = (*metrics.type_labels(state.spec.type), metrics.scope_label(state.spec))
        metrics.RESTARTS.labels(*labels, "410_gone").inc()
        state.show(StreamState.REPLAYING, "ExpiredResourceVersion", "the stored cursor is too old")

    async def _probe(self, version: str, stream: WatchStream) -> None:
        """A server is silent about a cursor from the future: compare it with a list, once."""
        state = self._state
        seen = state.events
        await asyncio.sleep(state.timing.probe_after)
        if state.events != seen:
            return
        try:
            if await is_behind(state.kube, state.path, version):
                self._from_future = True
                await stream.aclose()
        except KubeUnavailable as error:
            log.debug("cursor of %s was not compared: %s", state.spec.scope, error)
