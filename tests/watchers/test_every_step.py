"""A watcher is cut off at every single call to Redis, hundreds of times, and the next one goes on.

Four ways to be cut: before the call is sent; after it took effect but before its answer; asleep past the
lease, so that the call is sent when another watcher holds the target; and a single answer that is lost while
the watcher lives on. Meanwhile objects change, bookmarks come, streams end, history is forgotten, replays are
cut, servers refuse to stream, and a writer takes entries out. At the end the tree is the cluster, each change
is there once and in order, and no deletion was invented.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator

import pytest

from reverser.kube.lines import WatchEvent
from reverser.store import AsyncStore
from watchers.buffer import ShardBuffer
from watchers.intake import Disposition
from watchers.live import Live
from watchers.tasks import end

from .steps import SCOPE, SUBTYPES, Cut, FakeCluster, Watching, Writer, random_change, until

HOW = ("before", "after", "sleeps", "answer lost")
FIRST = [(how, step) for step in range(1, 10) for how in HOW]
"""Where the first watcher of each scenario is cut off: at every call of its first replay, in each way."""
SCENARIOS = max(int(os.environ.get("SOAK_KILLS", "0")), len(FIRST))
MORE = 2
"""Further watchers of a scenario, cut off anywhere."""
LAST_STEP = 12
STEPS = {"open_journal", "read_cursor", "stage", "append_sweep", "append_events"}


async def life(
    redis_url: str, chance: random.Random, cluster: FakeCluster, writer: Writer, *, how: str, step: int
) -> str:
    """One watcher until it is cut off, objects changing all the time; returns at which call that was."""
    watching, successor = Watching(redis_url, cluster), None
    await watching.start()
    cut = Cut(watching.store, step, how)
    watching.begin()
    for _ in range(chance.randint(1, 12)):
        random_change(chance, cluster)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice([0, 0, 0.003]))
        if chance.random() < 0.1:
            cluster.close(clean=chance.random() < 0.5)
        if chance.random() < 0.1:
            await writer.drain()
    async with asyncio.timeout(30):
        while not cut.fell.is_set():
            random_change(chance, cluster)
            await asyncio.sleep(0.01)
    if how == "sleeps":
        successor = Watching(redis_url, cluster)
        await successor.start()
        successor.begin()
        random_change(chance, cluster)
        if chance.random() < 0.5:
            await caught_up(writer.store, cluster)
        cut.awake.set()
        await asyncio.sleep(0.01)
        await successor.stop()
    elif how == "answer lost" and chance.random() < 0.5:
        await caught_up(writer.store, cluster)
    await watching.stop()
    return cut.at


async def caught_up(store: AsyncStore, cluster: FakeCluster) -> None:
    """The cursor stands at the newest version."""

    async def check() -> bool:
        cursor = await store.read_cursor(SCOPE)
        return cursor is not None and cursor.resource_version == str(cluster.version)

    await until(check, "the cursor at the newest version")


def judge(cluster: FakeCluster, writer: Writer, *, forgotten: bool) -> None:
    """What was written against what the cluster itself recorded."""
    assert writer.tree == cluster.at(cluster.version)
    record = {change.version: change for change in cluster.history}
    seen = [int(event.resource_version) for event in writer.events]
    assert seen == sorted(set(seen)), "each change once, in order"
    for event in writer.events:
        change = record[int(event.resource_version)]
        assert (event.operation, event.object.name) == (SUBTYPES[change.type], change.name)
    swept = max(int(sweep.resource_version) for sweep in writer.sweeps)
    lost = {version for version in record if version > swept} - set(seen)
    assert not lost, "no change of a live watch is lost"
    if not forgotten:
        assert len(writer.sweeps) == 1, "a history that is there is resumed, not replayed"


@pytest.mark.timeout(300 + 4 * SCENARIOS)
@pytest.mark.parametrize("forgotten", [False, True])
async def test_cut_off_at_every_step(redis_url: str, forgotten: bool) -> None:
    """E15, E16, E26, J1 to J5: nothing seen is lost, nothing is doubled, nothing unseen is deleted."""
    cuts: set[tuple[str, str]] = set()
    for seed in range(SCENARIOS):
        chance = random.Random(f"{os.environ.get('SOAK_SEED', '0')} {forgotten} {seed}")
        store, cluster = AsyncStore.connect(redis_url), FakeCluster()
        await store.client.flushall()
        cluster.bookmarks = random.Random(chance.random())
        writer = Writer(store, cluster)
        cluster.change("ADDED", "always there, so that every replay stages something")
        for _ in range(chance.randint(2, 6)):
            random_change(chance, cluster)
        more = [(chance.choice(HOW), chance.randint(1, LAST_STEP)) for _ in range(MORE)]
        for how, step in [FIRST[seed % len(FIRST)], *more]:
            cuts.add((how, await life(redis_url, chance, cluster, writer, how=how, step=step)))
            cluster.lists_only = chance.random() < 0.3
            cluster.cut_replays = chance.randint(0, 1)
            if forgotten and chance.random() < 0.5:
                random_change(chance, cluster)
                cluster.forget()
        last = Watching(redis_url, cluster)
        await last.start()
        last.begin()
        random_change(chance, cluster)
        await caught_up(last.store, cluster)
        await last.stop()
        await writer.drain()
        try:
            judge(cluster, writer, forgotten=forgotten)
        except AssertionError as error:
            raise AssertionError(f"scenario {seed}: {error}") from error
        await store.close()
    missed = {(how, at) for how in HOW for at in STEPS} - cuts
    assert not missed, "it really was cut everywhere"


async def test_what_was_never_appended_is_not_known(redis_url: str) -> None:
    """B1: an update that was read and thrown away is taken for new when it comes again."""
    cluster = FakeCluster()
    for kind in ("ADDED", "MODIFIED"):
        cluster.change(kind, "a")
    watching = Watching(redis_url, cluster)
    await watching.start()
    assert watching.shard is not None
    state, update = watching.shard.state, cluster.history[-1].event()
    assert state.intake.read(update, deadline=0.0)[1] is Disposition.APPLIED
    assert state.intake.read(update, deadline=0.0)[1] is Disposition.UNCHANGED
    state.forget()
    assert state.intake.read(update, deadline=0.0)[1] is Disposition.APPLIED
    await watching.store.close()


@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
async def test_an_event_that_found_no_room_comes_again(redis_url: str, kind: str) -> None:
    """B1: a session that ends while the buffer is full has read an event that is nowhere yet: the next one
    resumes before it, and takes it for news.
    """
    cluster = FakeCluster()
    cluster.change("ADDED", "a")
    cluster.change(kind, "a")
    first, second = (change.event() for change in cluster.history)
    watching = Watching(redis_url, cluster)
    await watching.start()
    assert watching.shard is not None
    state = watching.shard.state
    state.buffer = ShardBuffer(max_items=1)

    async def events() -> AsyncIterator[WatchEvent]:
        yield first
        yield second

    session = asyncio.create_task(Live(state).follow(events(), resumed=False))

    async def stuck() -> bool:
        return state.events == 2

    await until(stuck, "the second event is read")
    await end([session])
    assert state.version == str(cluster.history[0].version)
    assert state.intake.read(second, deadline=0.0)[1] is Disposition.APPLIED
    await watching.store.close()
