"""One session of a shard: resume where the journal stands, else replay, else list; then follow live events.

The session never decides about retries: it returns when the server closed the watch, and raises
otherwise. What it may not do is skip: the cursor moves only through the shard's buffer, a replay starts
only after that buffer is in the journal, and a replay that met no end marker leaves no trace but a
staging that expires.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import time
from typing import TypeVar

from reverser.errors import KubeGone, KubeInvalid, KubeUnavailable, StoreUnavailable
from reverser.kube.aio import AsyncKube, WatchStream
from reverser.kube.answers import status_error
from reverser.kube.lines import WatchEvent
from reverser.kube.paths import resource_path
from reverser.store import AsyncStore
from reverser.store.model import (
    Presence,
    StagedObject,
    StreamState,
    SweepEntry,
    TargetRef,
    UnsealedEntry,
)
from watchers import metrics
from watchers.appender import Appender, Position
from watchers.buffer import Item, ShardBuffer
from watchers.facts import is_cursor, is_end_marker, not_newer, read_facts
from watchers.fold import Fold, Folded
from watchers.intake import Disposition, Intake
from watchers.sealing import Seals
from watchers.table import ShardSpec
from watchers.timing import Timing

log = logging.getLogger(__name__)
T = TypeVar("T")

STAGE_ITEMS = 200
STAGE_BYTES = 512 * 1024
PUMP = 1024
INTERNAL_ERROR = 500
RESUME_ATTEMPTS = 3
"""A version that so many attempts in a row got 500 for is taken to be of no use."""
STREAMING_FIELDS = frozenset({"sendInitialEvents", "resourceVersionMatch"})


class StreamingMemory:
    """Types whose server cannot stream their initial state; forgotten when discovery changes."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}

    def refuses(self, group_resource: str, revision: int) -> bool:
        """Whether the type was found unable under this registry revision."""
        return self._refused.get(group_resource) == revision

    def remember(self, group_resource: str, revision: int) -> None:
        """Notes the refusal."""
        self._refused[group_resource] = revision


@dataclass(slots=True)
class ShardState:
    """What a shard keeps between its sessions."""

    kube: AsyncKube
    store: AsyncStore
    spec: ShardSpec
    target: TargetRef
    position: Position
    buffer: ShardBuffer
    appender: Appender
    intake: Intake
    seals: Seals
    timing: Timing
    grace: float
    memory: StreamingMemory
    revision: Callable[[], int]
    show: Callable[[StreamState, str, str], None]
    on_missing: Callable[[], None] = lambda: None
    """The type is not served any more: discovery should look."""
    version: str = ""
    """The newest resourceVersion that entered the buffer; empty = read what the store has."""
    must_replay: bool = False
    resume_failures: int = 0
    replaying: int = -1
    """The ``wanted`` of the replay that is running, -1 when none is."""
    events: int = 0
    last_event_ms: int = 0

    @property
    def path(self) -> str:
        """The collection that is watched."""
        kind = self.spec.type
        return resource_path(
            kind.group, kind.version, kind.resource, namespace=self.spec.scope.namespace or ""
        )

    def forget(self) -> None:
        """Drops everything that is not in the journal: the next session starts from what is stored."""
        self.buffer.discard()
        self.intake.cache.clear()
        self.version = ""


class Session:
    """Runs once."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._from_future = False
        self._labels = metrics.type_labels(state.spec.type)
        self._scope = metrics.scope_label(state.spec)

    async def run(self) -> None:
        """Returns when the server closed the watch in an orderly way. Raises the error tree otherwise."""
        version = await self._start()
        if version and not await self._resume(version):
            return
        await self._replay()

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
        """Follows from ``version``; true when that version is of no use and a replay must follow."""
        state = self._state
        query = {
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": state.timing.watch_timeout(),
        }
        try:
            stream = await self._open(query)
        except (KubeGone, KubeInvalid):
            self._expired()
            return True
        except KubeUnavailable as error:
            # A server may answer 500 to a version that it cannot use; one that is away says nothing of it.
            state.resume_failures += error.status == INTERNAL_ERROR
            state.must_replay = state.resume_failures >= RESUME_ATTEMPTS
            raise
        state.resume_failures = 0
        async with stream:
            self._streaming("cursor_resume")
            probe = asyncio.create_task(self._probe(version, stream))
            try:
                gone = await self._live(stream, resumed=True)
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
        self._state.must_replay = True
        metrics.RESTARTS.labels(*self._labels, self._scope, "410_gone").inc()
        self._state.show(StreamState.REPLAYING, "ExpiredResourceVersion", "the stored cursor is too old")

    async def _probe(self, version: str, stream: WatchStream) -> None:
        """A server is silent about a cursor from the future: compare it with a list, once."""
        state = self._state
        seen = state.events
        await asyncio.sleep(state.timing.probe_after)
        if state.events != seen:
            return
        try:
            async for page in state.kube.pages(state.path, limit=1):
                if not not_newer(version, page.resource_version) and is_cursor(page.resource_version):
                    self._from_future = True
                    await stream.aclose()
                return
        except KubeUnavailable as error:
            log.debug("cursor of %s was not compared: %s", state.spec.scope, error)

    async def _open(self, query: dict[str, str]) -> WatchStream:
        timing = self._state.timing
        return await self._state.kube.watch(
            self._state.path, query, silence=timing.watch_silence, timeout=timing.open_timeout
        )

    def _streaming(self, mode: str) -> None:
        state = self._state
        metrics.RECOVERY.labels(*self._labels, mode).inc()
        trigger = "cursor_resume" if mode == "cursor_resume" else "type_reconcile"
        metrics.RECONCILED.labels(state.target.namespace, state.target.name, trigger).inc()
        state.show(StreamState.STREAMING, "AllStreamsReady", "")

    async def _live(
        self, events: AsyncIterator[WatchEvent] | WatchStream, *, resumed: bool, after: str = ""
    ) -> bool:
        """Takes events until the stream ends; true when the server says that its history is gone.

        Events of a resumed stream that come without a pause are backlog: they share one deadline for their
        authors. ``after`` skips what a list already showed.
        """
        state = self._state
        loop = asyncio.get_running_loop()
        common = loop.time() + state.grace
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
                resumed = False
                self._count("bookmark", "applied")
                await self._put(Item(version, size=100))
                continue
            resumed = resumed and now - last < state.timing.backlog_gap
            last = now
            if after and not_newer(version, after):
                continue
            item, disposition = state.intake.read(event, deadline=common if resumed else now + state.grace)
            applied = disposition is Disposition.APPLIED
            self._count(event.type.lower(), "applied" if applied else "filtered")
            if not applied:
                metrics.FILTERED.labels(*self._labels, disposition.value).inc()
            await self._put(item)
        return False

    def _count(self, kind: str, outcome: str) -> None:
        kind = kind if kind in {"added", "modified", "deleted", "bookmark"} else "other"
        metrics.EVENTS.labels(*self._labels, self._scope, kind, outcome).inc()
        self._state.events += 1
        self._state.last_event_ms = int(time() * 1000)

    async def _put(self, item: Item) -> None:
        version = item.resource_version
        await self._state.buffer.put(item)
        if version:
            self._state.version = version

    async def _replay(self) -> None:
        """Everything that exists, as one sweep; then live events."""
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
        """A replay over a watch; false when this server cannot do that for this type."""
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": self._state.timing.watch_timeout(),
        }
        started = asyncio.get_running_loop().time()
        try:
            stream = await self._open(query)
        except KubeInvalid as error:
            fields = {cause.field for cause in error.causes}
            if fields and fields.isdisjoint(STREAMING_FIELDS):
                raise
            log.warning("%s: the server refuses streaming lists, it is listed instead", self._name)
            return False
        async with stream:
            fold = self._fold()
            version = await self._until_marker(stream, fold)
            if version is None:
                log.warning("%s: the initial state had no end marker, it is listed instead", self._name)
                return False
            await self._publish(fold, version, started, "replay")
            if await self._live(stream, resumed=False):
                raise KubeGone(f"watch of {self._state.path}: its history is gone")
        return True

    async def _until_marker(self, stream: WatchStream, fold: Fold) -> str | None:
        """Folds until the end marker and returns its version; None when it did not come in time."""
        state = self._state
        loop = asyncio.get_running_loop()
        end = loop.time() + state.timing.marker_total
        try:
            async with asyncio.timeout_at(min(end, loop.time() + state.timing.marker_silence)) as clock:
                async for event in stream:
                    clock.reschedule(min(end, loop.time() + state.timing.marker_silence))
                    if event.type == "BOOKMARK":
                        self._count("bookmark", "applied")
                        if is_end_marker(event.object):
                            return read_facts(event.object).resource_version
                    elif event.type == "ERROR":
                        raise status_error(f"replay of {state.path}", event.object)
                    elif event.type == "DELETED":
                        fold.remove(event.object)
                    else:
                        fold.add(event.object)
        except TimeoutError:
            return None
        raise KubeUnavailable(f"replay of {state.path}: closed before its end marker; nothing is concluded")

    async def _listed(self) -> None:
        """The fallback: watch first, list, then follow what the watch brought since."""
        state = self._state
        started = asyncio.get_running_loop().time()
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": state.timing.watch_timeout()}
        async with await self._open(query) as stream:
            queue: asyncio.Queue[WatchEvent | Exception | None] = asyncio.Queue(PUMP)
            pump = asyncio.create_task(_pump(stream, queue))
            try:
                fold = self._fold()
                version = ""
                async for page in state.kube.pages(state.path):
                    for obj in page.items:
                        fold.add(obj)
                    version = page.resource_version
                await self._publish(fold, version, started, "list_fallback")
                if await self._live(_drain(queue), resumed=False, after=version):
                    raise KubeGone(f"watch of {state.path}: its history is gone")
            finally:
                pump.cancel()

    def _fold(self) -> Fold:
        intake = self._state.intake
        return Fold(self._state.spec, filter_noise=intake.filter_noise, table=intake.table)

    async def _publish(self, fold: Fold, version: str, started: float, mode: str) -> None:
        """Stages a complete set and appends its sweep; from then on the shard streams."""
        state = self._state
        objects = fold.objects
        staged, shown = await self._sealed(objects)
        replay = uuid.uuid4().hex
        for page in _pages(staged):
            await self._insist(partial(state.store.stage, state.position.branch, replay, page))
        sweep = SweepEntry(
            target=state.target,
            scope=state.spec.scope,
            type=state.spec.type,
            resource_version=version,
            replay_id=replay,
            count=len(staged),
            wanted=max(state.replaying, 0),
            fingerprint=state.position.fingerprint,
            operations=state.spec.operations,
            namespace_operations=state.spec.namespace_operations,
        )
        await state.appender.append_sweep(sweep)
        state.intake.cache.clear()
        fold.seed(state.intake.cache)
        state.version, state.must_replay, state.replaying = version, False, -1
        for refusal in shown:
            await state.buffer.put(Item(version, refusal, size=500))
        metrics.REPLAY_OBJECTS.labels(*self._labels, self._scope).observe(len(staged))
        elapsed = asyncio.get_running_loop().time() - started
        metrics.REPLAY_SECONDS.labels(*self._labels, self._scope).observe(elapsed)
        self._streaming(mode)

    async def _sealed(self, objects: list[Folded]) -> tuple[list[StagedObject], list[UnsealedEntry]]:
        if self._state.spec.sensitive:
            return await self._insist(partial(self._state.seals.stage, self._state.spec, objects))
        return [
            StagedObject(item.namespace, item.name, item.presence, body=item.body, optional=item.optional)
            if item.presence is Presence.FULL
            else StagedObject(item.namespace, item.name, item.presence)
            for item in objects
        ], []

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call until Redis answers: what was folded is worth waiting for."""
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                log.debug("%s waits: %s", self._name, error)
                await asyncio.sleep(self._state.timing.retry_first)

    @property
    def _name(self) -> str:
        scope = self._state.spec.scope
        target = self._state.target
        return f"{target.namespace}/{target.name} {scope.group_resource} {scope.namespace or '*'}"


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


def _pages(objects: list[StagedObject]) -> list[list[StagedObject]]:
    """Pages of a staging, bounded in number and bytes."""
    pages: list[list[StagedObject]] = []
    size = STAGE_BYTES
    for item in objects:
        if size >= STAGE_BYTES or len(pages[-1]) >= STAGE_ITEMS:
            pages.append([])
            size = 0
        pages[-1].append(item)
        size += len(item.body)
    return pages
