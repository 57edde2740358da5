"""A replay: everything that exists in a shard's scope, as one sweep; then the live events of the same stream.

Streamed where the server can do that, listed otherwise, and what a server could not do is remembered until
discovery changes. A set is complete at the end marker, or at the last page of a list; one that did not get
there leaves no trace but a staging that is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from reverser.errors import KubeGone, KubeInvalid, KubeUnavailable
from reverser.kube.aio import WatchStream
from reverser.kube.answers import status_error
from reverser.kube.lines import WatchEvent
from reverser.store.model import StreamState, SweepEntry
from watchers import metrics
from watchers.buffer import Item
from watchers.facts import is_end_marker, read_facts
from watchers.fold import Fold
from watchers.live import Live
from watchers.shardstate import ShardState
from watchers.staging import Staging

log = logging.getLogger(__name__)

PUMP = 1024
STREAMING_FIELDS = frozenset({"sendInitialEvents", "resourceVersionMatch"})


class Replay:
    """Runs once; returns when the server closes the watch in an orderly way."""

    def __init__(self, state: ShardState, live: Live) -> None:
        self._state = state
        self._live = live
        self._labels = metrics.type_labels(state.spec.type)
        self._scope = metrics.scope_label(state.spec)

    async def run(self) -> None:
        """The whole replay and what follows it. Raises the error tree."""
        state = self._state
        await state.buffer.barrier()
        marks = (await state.store.read_marks(state.target.uid)).get(state.spec.scope)
        state.replaying = marks.wanted if marks is not None else 0
        try:
            state.position.epoch = await state.store.open_journal(state.position.branch)
            name = state.spec.scope.group_resource
            reason = "ResumeReplay" if state.must_replay else "InitialReplay"
            state.show(StreamState.REPLAYING, reason, "")
            if not state.memory.refuses(name, state.revision()) and await self._streamed():
                return
            state.memory.remember(name, state.revision())
            await self._listed()
        finally:
            state.replaying = -1

    async def _streamed(self) -> bool:
        """A replay over a watch; false when the server cannot stream the initial state of this type."""
        state = self._state
        started = asyncio.get_running_loop().time()
        try:
            stream = await self._live.open(
                {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            )
        except KubeInvalid as error:
            fields = {cause.field for cause in error.causes}
            if fields and fields.isdisjoint(STREAMING_FIELDS):
                raise
            log.warning("%s: the server does not stream initial states; it is listed instead", state.name)
            return False
        async with stream:
            fold, staging = self._fold(), Staging(state)
            try:
                version = await self._until_marker(stream, fold, staging)
            except BaseException:
                await staging.drop()
                raise
            if version is None:
                await staging.drop()
                log.warning(
                    "%s: no end marker of the initial state came in time; it is listed instead", state.name
                )
                return False
            await self._publish(fold, staging, version, started, "replay")
            if await self._live.follow(stream, resumed=False):
                raise KubeGone(f"watch of {state.path}: its history is gone")
        return True

    async def _until_marker(self, stream: WatchStream, fold: Fold, staging: Staging) -> str | None:
        """Folds until the end marker and returns its version; None when it did not come in time."""
        state = self._state
        loop = asyncio.get_running_loop()
        end = loop.time() + state.timing.marker_total
        try:
            async with asyncio.timeout_at(min(end, loop.time() + state.timing.marker_silence)) as clock:
                async for event in stream:
                    clock.reschedule(None)
                    if event.type == "BOOKMARK":
                        self._live.count("bookmark", "applied")
                        if is_end_marker(event.object):
                            return read_facts(event.object).resource_version
                    elif event.type == "ERROR":
                        raise status_error(f"replay of {state.path}", event.object)
                    elif event.type == "DELETED":
                        fold.remove(event.object)
                    else:
                        fold.add(event.object)
                    if fold.full:
                        # Time spent on Redis or sops does not count against the server.
                        began = loop.time()
                        await staging.flush(fold)
                        end += loop.time() - began
                    clock.reschedule(min(end, loop.time() + state.timing.marker_silence))
        except TimeoutError:
            return None
        raise KubeUnavailable(f"replay of {state.path}: closed before its end marker; nothing is concluded")

    async def _listed(self) -> None:
        """The fallback: watch first, list, then follow what the watch brought since."""
        state = self._state
        started = asyncio.get_running_loop().time()
        async with await self._live.open({}) as stream:
            queue: asyncio.Queue[WatchEvent | Exception | None] = asyncio.Queue(PUMP)
            pump = asyncio.create_task(_pump(stream, queue))
            try:
                fold, staging = self._fold(), Staging(state)
                version = await self._list(fold, staging)
                await self._publish(fold, staging, version, started, "list_fallback")
                if await self._live.follow(_drain(queue), resumed=False, after=version):
                    raise KubeGone(f"watch of {state.path}: its history is gone")
            finally:
                pump.cancel()

    async def _list(self, fold: Fold, staging: Staging) -> str:
        """Folds and stages every page; returns the list's version. Drops the staging where that fails."""
        state = self._state
        version = ""
        try:
            async for page in state.kube.pages(state.path):
                for obj in page.items:
                    fold.add(obj)
                    if fold.full:
                        await staging.flush(fold)
                version = page.resource_version
        except BaseException:
            await staging.drop()
            raise
        return version

    def _fold(self) -> Fold:
        intake = self._state.intake
        return Fold(self._state.spec, filter_noise=intake.filter_noise, table=intake.defaults())

    async def _publish(self, fold: Fold, staging: Staging, version: str, started: float, mode: str) -> None:
        """Appends the sweep of a complete set; from then on the shard streams."""
        state = self._state
        refusals = await staging.finish(fold)
        if fold.malformed:
            log.warning("%s: %d objects without a name were left out", state.name, fold.malformed)
        sweep = SweepEntry(
            target=state.target,
            scope=state.spec.scope,
            type=state.spec.type,
            resource_version=version,
            replay_id=staging.replay_id,
            count=len(fold.present),
            wanted=max(state.replaying, 0),
            fingerprint=state.position.fingerprint,
            operations=state.spec.operations,
            namespace_operations=state.spec.namespace_operations,
        )
        await state.appender.append_sweep(sweep)
        state.intake.learn(fold)
        state.version, state.must_replay, state.replaying = version, False, -1
        for refusal in refusals:
            state.seals.note(refusal)
            await state.buffer.put(Item(version, refusal, size=500))
        metrics.REPLAY_OBJECTS.labels(*self._labels, self._scope).observe(len(fold.present))
        elapsed = asyncio.get_running_loop().time() - started
        metrics.REPLAY_SECONDS.labels(*self._labels, self._scope).observe(elapsed)
        self._live.streaming(mode)


async def _pump(stream: WatchStream, queue: asyncio.Queue[WatchEvent | Exception | None]) -> None:
    """Reads the watch while the list is read; its end, or its error, is the last thing in the queue."""
    try:
        async for event in stream:
            await queue.put(event)
        await queue.put(None)
    except KubeUnavailable as error:
        await queue.put(error)


async def _drain(queue: asyncio.Queue[WatchEvent | Exception | None]) -> AsyncIterator[WatchEvent]:
    while True:
        event = await queue.get()
        if event is None:
            return
        if isinstance(event, Exception):
            raise event
        yield event
