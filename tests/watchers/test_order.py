"""Order and authorship: events wait for their author without being overtaken; requests come behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverser.kube.lines import WatchEvent
from reverser.store.model import Author, EventEntry, ObjectRef, Operation, Scope, TargetRef, TypeRef
from watchers.buffer import Item, ShardBuffer
from watchers.hooks import EventFacts, Named
from watchers.live import Live

from .conftest import FAST, RARE_BOOKMARKS, Bench, Cluster, eventually
from .steps import FakeCluster, Watching, bookmark

CM = [{"resources": ["configmaps"]}]
KIND = TypeRef("", "v1", "configmaps", "ConfigMap", True)


def entry(number: int) -> EventEntry:
    return EventEntry(
        target=TargetRef("u", "n", "t"),
        scope=Scope("u", "configmaps", "n"),
        object=ObjectRef(KIND, "n", f"o{number}"),
        operation=Operation.UPDATE,
        object_uid="x",
        resource_version=str(number),
    )


@settings(max_examples=40, deadline=None)
@given(
    waits=st.lists(st.sampled_from([None, 0, 1, 2, 5]), min_size=1, max_size=25),
    most=st.integers(min_value=1, max_value=6),
)
def test_nothing_overtakes_in_the_buffer(waits: list[int | None], most: int) -> None:
    """J3, A22: whatever the authors' delays, entries leave in order and the cursor never passes a waiting
    one.
    """

    async def run() -> None:
        buffer = ShardBuffer(max_items=7)
        seen: list[str] = []
        done = asyncio.Event()

        async def produce() -> None:
            for number, wait in enumerate(waits):
                if wait is None:
                    await buffer.put(Item(str(number)))
                    continue

                async def work(number: int = number, wait: int = wait) -> EventEntry:
                    await asyncio.sleep(wait / 2000)
                    return entry(number)

                await buffer.put(Item(str(number), work=asyncio.create_task(work())))
            await buffer.put(Item("end"))
            await buffer.barrier()
            done.set()

        async def consume() -> None:
            last = -1
            while not done.is_set():
                batch = await buffer.next_batch(max_items=most, max_bytes=10**6)
                for item in batch.entries:
                    assert isinstance(item, EventEntry)
                    seen.append(item.resource_version)
                if batch.resource_version.isdigit():
                    assert int(batch.resource_version) >= last
                    last = int(batch.resource_version)
                    if seen and batch.entries:
                        assert int(seen[-1]) <= last
                buffer.remove(batch)

        consumer = asyncio.create_task(consume())
        await asyncio.wait_for(produce(), 60)
        consumer.cancel()
        assert seen == [str(number) for number, wait in enumerate(waits) if wait is not None]

    asyncio.run(run())


class SlowResolver:
    """Names everybody alice, later for objects whose name says so."""

    def __init__(self) -> None:
        self.asked: list[EventFacts] = []

    async def resolve(self, facts: EventFacts) -> Named | None:
        self.asked.append(facts)
        if facts.name.startswith("slow"):
            await asyncio.sleep(0.3)
        return Named(Author("alice"))

    async def submitter(self, request_uid: str) -> Author | None:
        return Author("bob")


async def test_authors_and_requests_in_order(bench: Bench, cluster: Cluster) -> None:
    """A22, J7: a slow author holds back later events of its shard, and a request stands behind all of
    them.
    """
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    resolver = SlowResolver()
    bench.config = replace(bench.config, author_attribution_grace=60.0)
    await bench.start(resolver=resolver)
    await bench.streaming(uid, 1)
    cluster.create("slow-a", v="1")
    cluster.create("b", v="1")
    cluster.delete("b")

    async def heard() -> bool:
        return len(resolver.asked) == 3

    await eventually(heard, "all three are asked for")
    request = cluster.own("commitrequests", "save", {"targetRef": {"name": "gt"}, "message": "please"})

    async def attached() -> bool:
        return bool(await bench.journal().attaches())

    await eventually(attached, "the request is in the journal")
    entries = [stored.entry for stored in await bench.journal().read()][1:]
    kinds = [e.object.name if isinstance(e, EventEntry) else type(e).__name__ for e in entries]
    assert kinds == ["slow-a", "b", "b", "AttachEntry"]
    assert all(e.author == Author("alice") for e in entries if isinstance(e, EventEntry))
    (attach,) = await bench.journal().attaches()
    assert (attach.uid, attach.author, attach.message) == (
        request["metadata"]["uid"],
        Author("bob"),
        "please",
    )
    assert not attach.any_author
    assert [facts.removal for facts in resolver.asked] == [False, False, True]


@RARE_BOOKMARKS
async def test_backlog_shares_one_deadline(bench: Bench, cluster: Cluster) -> None:
    """After a resume all events that were missed have the same deadline."""
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    first = await bench.start(resolver=SlowResolver())
    await bench.streaming(uid, 1)
    await first.stop()
    for number in range(5):
        cluster.create(f"x{number}", v="1")
    resolver = SlowResolver()
    await bench.start(resolver=resolver, timing=replace(FAST, backlog_gap=3600.0))
    await bench.mirrored(uid)
    assert len(resolver.asked) == 5
    assert len({facts.deadline for facts in resolver.asked}) == 1


@pytest.mark.parametrize(
    ("resumed", "script", "deadlines"),
    [
        (True, [0.0, 0.1, 0.1, 0.1], [103.0, 103.0, 103.0, 103.0]),
        (True, [0.0, 0.1, 0.2, 0.0, 0.0], [103.0, 103.0, 103.3, 103.3, 103.3]),
        (True, [0.0, 0.1, "bookmark", 0.0, 0.1], [103.0, 103.0, 103.1, 103.2]),
        (False, [0.0, 0.1, 0.1], [103.0, 103.1, 103.2]),
    ],
    ids=["without a pause", "a pause ends it", "a bookmark ends it", "not resumed"],
)
async def test_what_counts_as_backlog(
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    resumed: bool,
    script: list[float | str],
    deadlines: list[float],
) -> None:
    """A resumed stream is backlog until its first pause or bookmark; every later event has its own time."""
    steps = FakeCluster()
    watching = Watching(redis_url, steps)
    await watching.start()
    assert watching.shard is not None
    state, resolver, now = watching.shard.state, SlowResolver(), 100.0
    state.grace, state.timing = 3.0, replace(state.timing, backlog_gap=0.2)
    state.intake = replace(state.intake, resolver=resolver)

    async def events() -> AsyncIterator[WatchEvent]:
        nonlocal now
        for number, step in enumerate(script):
            if isinstance(step, str):
                yield bookmark(steps.version)
                continue
            now += step
            steps.change("ADDED", f"x{number}")
            yield steps.history[-1].event()

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as clock:
        clock.setattr(loop, "time", lambda: now)
        assert not await Live(state).follow(events(), resumed=resumed)
    await asyncio.gather(*(item.work for item in state.buffer._items if item.work is not None))
    assert [round(facts.deadline, 6) for facts in resolver.asked] == deadlines
    assert [facts.backlog for facts in resolver.asked] == [
        resumed and deadline == deadlines[0] for deadline in deadlines
    ]
    await watching.stop()


async def test_what_waited_for_the_buffer(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read while the buffer was full is seen late, until the stream pauses."""
    steps = FakeCluster()
    watching = Watching(redis_url, steps)
    await watching.start()
    assert watching.shard is not None
    state, resolver, now = watching.shard.state, SlowResolver(), 100.0
    state.timing = replace(state.timing, backlog_gap=0.2)
    state.intake = replace(state.intake, resolver=resolver)
    blocked = {1: 5.0, 2: 0.1}
    put = state.buffer.put

    async def full(item: Item) -> None:
        nonlocal now
        now += blocked.pop(len(resolver.asked), 0.0)
        await put(item)
        await asyncio.sleep(0)

    async def events() -> AsyncIterator[WatchEvent]:
        nonlocal now
        for number, pause in enumerate((0.0, 0.0, 0.1, 0.3, 0.0)):
            now += pause
            steps.change("ADDED", f"x{number}")
            yield steps.history[-1].event()

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as clock:
        clock.setattr(loop, "time", lambda: now)
        clock.setattr(state.buffer, "put", full)
        assert not await Live(state).follow(events(), resumed=False)
    await asyncio.gather(*(item.work for item in state.buffer._items if item.work is not None))
    assert [facts.backlog for facts in resolver.asked] == [False, False, True, False, False]
    await watching.stop()
