"""A shard between a cluster of a few lines and a real Redis, that can be cut off at any single call.

The cluster keeps every version that it ever had, so it can tell what a replay at a version must show and
which change each event must be. The writer here settles what it reads, as the real one does, but into a
dict: what stands in it at the end is what Git would hold.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from reverser.errors import FieldCause, KubeGone, KubeInvalid, KubeUnavailable, StoreUnavailable
from reverser.kube.lines import WatchEvent
from reverser.kube.requests import KubeList
from reverser.store import AsyncStore, keys
from reverser.store.model import (
    ALL_OPERATIONS,
    Boundary,
    BranchKey,
    CloseReason,
    EventEntry,
    Fence,
    LeaseKind,
    Limits,
    Operation,
    Outcome,
    OutcomeKind,
    Scope,
    Settlement,
    SweepEntry,
    TargetRef,
    TypeRef,
    WindowKind,
)
from watchers.appender import Appender, Position
from watchers.buffer import ShardBuffer
from watchers.hooks import NullSealer, Unsealed
from watchers.intake import Intake
from watchers.noop import NoopCache
from watchers.sanitize import canonical, project
from watchers.sealing import Seals
from watchers.shard import Shard
from watchers.shardstate import ShardState, StreamingMemory
from watchers.table import ShardSpec
from watchers.terminating import Terminating
from watchers.timing import Timing

TARGET = TargetRef("u1", "shop", "gt")
BRANCH = BranchKey("shop", "gp", "main")
CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
SCOPE = Scope("u1", "configmaps", "shop")
SPEC = ShardSpec(SCOPE, CONFIGMAPS, ALL_OPERATIONS)
LIMITS = Limits(2**30, 2**30)
FAST = Timing(
    retry_first=0.005,
    retry_max=0.02,
    quick_close=0.0,
    marker_silence=60.0,
    marker_total=120.0,
    probe_after=60.0,
)
SUBTYPES = {"ADDED": Operation.CREATE, "MODIFIED": Operation.UPDATE, "DELETED": Operation.DELETE}


@dataclass(frozen=True)
class Change:
    """One version: what kind of event it is, and the object."""

    version: int
    type: str
    obj: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def event(self, kind: str = "") -> WatchEvent:
        text = orjson.dumps(self.obj)
        return WatchEvent(kind or self.type, orjson.loads(text), len(text))


def bookmark(version: int, *, end: bool = False) -> WatchEvent:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return WatchEvent("BOOKMARK", {"metadata": meta}, 50)


class FakeCluster:
    """ConfigMaps of one namespace, their whole history, and a server that may cut, forget and refuse."""

    def __init__(self) -> None:
        self.history: list[Change] = []
        self.live: dict[str, Change] = {}
        self.version = 10
        self.oldest = 0
        self.lists_only = False
        self.cut_replays = 0
        self.bookmarks = random.Random(0)
        """When the server sends one: after what it has sent, as it likes."""
        self.streams: list[FakeStream] = []
        self.moved = asyncio.Event()

    def change(self, kind: str, name: str) -> None:
        self.version += 1
        old = self.live.get(name)
        uid = uuid.uuid4().hex if old is None else old.obj["metadata"]["uid"]
        meta = {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": str(self.version)}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": str(self.version)}}
        made = Change(self.version, kind, obj)
        self.history.append(made)
        if kind == "DELETED":
            del self.live[name]
        else:
            self.live[name] = made
        self.wake()

    def wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()

    def at(self, version: int) -> dict[str, bytes]:
        """What existed at a version."""
        found: dict[str, bytes] = {}
        for made in self.history:
            if made.version > version:
                break
            found.pop(made.name, None)
            if made.type != "DELETED":
                found[made.name] = canonical(project(made.obj))
        return found

    def forget(self) -> None:
        """All history is too old from now on."""
        self.oldest = self.version
        self.close(clean=False)

    def close(self, *, clean: bool) -> None:
        for stream in self.streams:
            stream.ended = "clean" if clean else "cut"
        self.streams.clear()
        self.wake()

    async def watch(self, path: str, query: Mapping[str, str], **limits: float) -> FakeStream:
        del path, limits
        await asyncio.sleep(0)
        initial: list[WatchEvent] = []
        if "sendInitialEvents" in query:
            if self.lists_only:
                cause = FieldCause("sendInitialEvents", "FieldValueForbidden", "no")
                raise KubeInvalid("refused", status=422, causes=(cause,))
            initial = [made.event("ADDED") for _, made in sorted(self.live.items())]
            if self.cut_replays:
                self.cut_replays -= 1
                stream = FakeStream(self, initial[: len(initial) // 2], self.version)
                stream.ended = "cut"
                return stream
            initial.append(bookmark(self.version, end=True))
        after = int(query.get("resourceVersion", self.version))
        if after < self.oldest:
            raise KubeGone("too old")
        stream = FakeStream(self, initial, after)
        self.streams.append(stream)
        return stream

    async def pages(self, path: str, *, limit: int = 500) -> AsyncIterator[KubeList]:
        del path, limit
        version, names = self.version, sorted(self.live)
        objects = [self.live[name].event().object for name in names]
        for half in (objects[: len(objects) // 2], objects[len(objects) // 2 :]):
            await asyncio.sleep(0)
            yield KubeList(half, str(version))


class FakeStream:
    """One watch."""

    def __init__(self, cluster: FakeCluster, initial: list[WatchEvent], after: int) -> None:
        self._cluster = cluster
        self._events = self._read(initial, after)
        self.ended = ""

    async def _read(self, initial: list[WatchEvent], after: int) -> AsyncIterator[WatchEvent]:
        for event in initial:
            yield event
            await asyncio.sleep(0)
        while True:
            for made in [made for made in self._cluster.history if made.version > after]:
                yield made.event()
                after = made.version
                if self._cluster.bookmarks.random() < 0.3:
                    yield bookmark(after)
                await asyncio.sleep(0)
            if self.ended == "cut":
                raise KubeUnavailable("cut")
            if self.ended:
                return
            if after == self._cluster.version:
                await self._cluster.moved.wait()

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        return self._events

    async def __aenter__(self) -> FakeStream:
        return self

    async def __aexit__(self, *rest: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.ended = self.ended or "clean"


class Cut:
    """Ends a store at its n-th call: before it is sent, after it took effect, or it sleeps and wakes late.

    Or that one answer is lost, and everything after it goes on.
    """

    def __init__(self, store: AsyncStore, steps: int, how: str) -> None:
        self._run = store.run
        self._left = steps
        self._how = how
        self.awake = asyncio.Event()
        self.fell = asyncio.Event()
        self.at = ""
        store.run = self.run  # type: ignore[method-assign, assignment]

    async def run(self, call: Any) -> Any:
        if self.fell.is_set() and self._how in {"before", "after"}:
            raise StoreUnavailable("cut off")
        self._left -= 1
        if self._left != 0:
            return await self._run(call)
        self.at = call.script or str(call.command[0]).lower()
        self.fell.set()
        if self._how in {"after", "answer lost"}:
            await self._run(call)
        elif self._how == "sleeps":
            await self.awake.wait()
            return await self._run(call)
        raise StoreUnavailable("cut off")


@dataclass
class Writer:
    """Takes entries out of the journal as the branch writer does; what it applied stays."""

    store: AsyncStore
    cluster: FakeCluster
    tree: dict[str, bytes] = field(default_factory=dict)
    events: list[EventEntry] = field(default_factory=list)
    sweeps: list[SweepEntry] = field(default_factory=list)

    async def drain(self) -> None:
        """Everything that waits. A sweep may be superseded until it is claimed (J6, J13): it reads again."""
        fence = await self.store.acquire_lease(LeaseKind.BRANCH, BRANCH.id, "writer", 60_000, "writer")
        assert fence is not None
        while not await self._drain(fence):
            pass

    async def _drain(self, fence: Fence) -> bool:
        for stored in await self.store.read_entries(BRANCH):
            entry, boundary = stored.entry, ""
            if isinstance(entry, SweepEntry):
                boundary = f"b-{stored.id}"
                window = Boundary(boundary, WindowKind.SWEEP, TARGET, (stored.id,), CloseReason.SWEEP)
                if not await self.store.store_boundary(BRANCH, fence, window):
                    return False
                await self._sweep(entry)
            else:
                assert isinstance(entry, EventEntry)
                self._event(entry)
            outcome = Outcome(f"o-{stored.id}", OutcomeKind.PUSHED, BRANCH, TARGET)
            assert await self.store.settle(BRANCH, fence, Settlement(outcome, (stored.id,), boundary))
        return True

    def _event(self, entry: EventEntry) -> None:
        self.events.append(entry)
        if entry.operation is Operation.DELETE:
            self.tree.pop(entry.object.name, None)
        else:
            self.tree[entry.object.name] = entry.body

    async def _sweep(self, entry: SweepEntry) -> None:
        staged = await self.store.read_staging(BRANCH, entry.replay_id) or []
        shown = {item.name: item.body for item in staged}
        assert len(shown) == entry.count
        assert shown == self.cluster.at(int(entry.resource_version))
        self.sweeps.append(entry)
        self.tree = shown


class Watching:
    """One watcher's life with the shard, under a lease of its own."""

    def __init__(self, redis_url: str, cluster: FakeCluster) -> None:
        self.store = AsyncStore.connect(redis_url)
        self._cluster = cluster
        self.shard: Shard | None = None

    async def start(self) -> None:
        """Takes the lease, whoever had it: its time to live has ended."""
        await self.store.client.delete(keys.lease(LeaseKind.TARGET, TARGET.uid))
        token = uuid.uuid4().hex
        fence = await self.store.acquire_lease(LeaseKind.TARGET, TARGET.uid, token, 60_000, token)
        assert fence is not None
        self.shard = Shard(self._state(fence), name=token)

    def begin(self) -> None:
        assert self.shard is not None
        self.shard.start()

    def _state(self, fence: Fence) -> ShardState:
        store, buffer = self.store, ShardBuffer()
        position = Position(BRANCH, SCOPE, lambda: fence, "fp", LIMITS)
        seals = Seals(store, NullSealer(), TARGET, Unsealed("NotReady", "no"))
        intake = Intake(
            spec=SPEC,
            target=TARGET,
            filter_noise=True,
            defaults=lambda: None,
            cache=NoopCache(),
            terminating=Terminating(CONFIGMAPS),
            resolver=None,
            seals=seals,
        )
        return ShardState(
            kube=self._cluster,  # type: ignore[arg-type]
            store=store,
            spec=SPEC,
            target=TARGET,
            position=position,
            buffer=buffer,
            appender=Appender(store, position, buffer),
            intake=intake,
            seals=seals,
            timing=FAST,
            grace=0.0,
            memory=StreamingMemory(),
            revision=lambda: 1,
            show=lambda state, reason, message: None,
        )

    async def stop(self) -> None:
        if self.shard is not None:
            await self.shard.stop(drain=False)
        await self.store.close()


def random_change(chance: random.Random, cluster: FakeCluster) -> None:
    """Creates, updates, deletes or re-creates one of four objects."""
    name = chance.choice("abcd")
    if name not in cluster.live:
        cluster.change("ADDED", name)
    else:
        cluster.change(chance.choice(["MODIFIED", "MODIFIED", "DELETED"]), name)


async def until(check: Callable[[], Any], what: str, deadline: float = 60.0) -> None:
    try:
        async with asyncio.timeout(deadline):
            while not await check():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {deadline:g} s: {what}") from None
