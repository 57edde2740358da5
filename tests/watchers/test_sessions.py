"""Where a session begins, and what it makes of a server's answers: each told by the watches that it opens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from reverser.errors import KubeUnavailable
from reverser.kube.lines import WatchEvent
from reverser.store import AsyncStore, keys
from reverser.store.model import Author, SweepEntry
from watchers.hooks import EventFacts, Named

from .steps import BRANCH, SCOPE, FakeCluster, FakeStream, Watching, bookmark, until
from .test_replays import END, A, B, Scripted, expired


class Noted(FakeCluster):
    """Notes the watches; the first ones that resume get these answers instead."""

    def __init__(self, *answers: WatchEvent | Exception) -> None:
        super().__init__()
        self.opened: list[str] = []
        self._answers = list(answers)

    async def watch(self, path: str, query: Mapping[str, str], **limits: float) -> FakeStream:
        self.opened.append(query.get("resourceVersion", "all" if "sendInitialEvents" in query else "now"))
        if "resourceVersion" not in query or not self._answers:
            return await super().watch(path, query, **limits)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return FakeStream(self, [answer], self.version)


@asynccontextmanager
async def life(redis_url: str, cluster: FakeCluster, fingerprint: str = "fp") -> AsyncIterator[Watching]:
    watching = Watching(redis_url, cluster)
    await watching.start()
    assert watching.shard is not None
    watching.shard.state.position.fingerprint = fingerprint
    watching.begin()
    try:
        yield watching
    finally:
        await watching.stop()


async def opens(cluster: Noted, count: int) -> list[str]:
    async def check() -> bool:
        return len(cluster.opened) >= count

    await until(check, f"{count} watches; {cluster.opened}")
    return cluster.opened[:count]


async def stands_at(store: AsyncStore, version: int) -> None:
    async def check() -> bool:
        cursor = await store.read_cursor(SCOPE)
        return cursor is not None and cursor.resource_version == str(version)

    await until(check, f"the cursor at {version}")


async def nothing(store: AsyncStore) -> None:
    del store


async def no_cursor(store: AsyncStore) -> None:
    await store.client.delete(keys.cursor(SCOPE), keys.cursor_append(SCOPE))


async def garbage(store: AsyncStore) -> None:
    await store.client.set(keys.cursor(SCOPE), "12x")


async def no_characters(store: AsyncStore) -> None:
    await store.client.set(keys.cursor(SCOPE), b"\xff\xfe1")


async def another_type(store: AsyncStore) -> None:
    await store.client.delete(keys.cursor(SCOPE))
    await store.client.lpush(keys.cursor(SCOPE), "11")


async def new_epoch(store: AsyncStore) -> None:
    await store.client.delete(keys.branch_part(BRANCH, "epoch"))


async def wish(store: AsyncStore) -> None:
    await store.raise_wanted([SCOPE])


async def parked(store: AsyncStore) -> None:
    await store.raise_wanted([SCOPE], parked_reason="PathRefused")


@pytest.mark.parametrize(
    ("before", "fingerprint", "begins"),
    [
        (nothing, "fp", "11"),
        (no_cursor, "fp", "all"),
        (nothing, "another", "all"),
        (new_epoch, "fp", "all"),
        (garbage, "fp", "all"),
        (no_characters, "fp", "all"),
        (another_type, "fp", "all"),
        (wish, "fp", "all"),
        (parked, "fp", "11"),
    ],
    ids=[
        "stored",
        "none",
        "other fingerprint",
        "other epoch",
        "garbage",
        "no characters",
        "another type",
        "a wish",
        "a parked wish",
    ],
)
async def test_where_a_watcher_begins(
    redis_url: str, before: Callable[[AsyncStore], Awaitable[None]], fingerprint: str, begins: str
) -> None:
    """A7, E06, J4, J14: at the stored cursor exactly, if it is valid for what is to do; else with all."""
    cluster = Noted()
    cluster.change("ADDED", "a")
    async with life(redis_url, cluster) as first:
        await stands_at(first.store, 11)
    store = AsyncStore.connect(redis_url)
    await before(store)
    await store.close()
    cluster.opened.clear()
    async with life(redis_url, cluster, fingerprint) as second:
        assert await opens(cluster, 1) == [begins]
        cluster.change("ADDED", "b")
        await stands_at(second.store, 12)


def failure(code: int) -> WatchEvent:
    return WatchEvent("ERROR", {"kind": "Status", "code": code, "reason": "Failed"}, 50)


@pytest.mark.parametrize(
    ("answers", "opened"),
    [
        ([expired()], ["11", "all"]),
        ([failure(410)], ["11", "all"]),
        ([failure(500)], ["11", "11"]),
        ([failure(503)], ["11", "11"]),
        ([bookmark(11)], ["11"]),
        ([KubeUnavailable("no", status=500)] * 9, ["11", "11", "11", "all"]),
        ([KubeUnavailable("no", status=503)] * 5, ["11", "11", "11", "11", "11", "11"]),
    ],
    ids=["expired", "410", "500", "503", "no error", "500 to each try", "503 to each try"],
)
async def test_answers_to_a_resume(
    redis_url: str, answers: list[WatchEvent | Exception], opened: list[str]
) -> None:
    """A8, B10: a version that is too old is tried once, and replayed in the same session; a server that is
    away is asked again from the same version; one that cannot serve a version has three tries.
    """
    cluster = Noted()
    cluster.change("ADDED", "a")
    async with life(redis_url, cluster) as first:
        await stands_at(first.store, 11)
    cluster.opened.clear()
    cluster._answers = answers
    async with life(redis_url, cluster) as second:
        assert await opens(cluster, len(opened)) == opened
        cluster.change("ADDED", "b")
        await stands_at(second.store, 12)


async def test_a_history_that_is_gone_after_a_replay(redis_url: str) -> None:
    """A8: what the live part of a replay's stream tells counts as well: everything is replayed."""
    cluster = Scripted([A, B, END, expired()], [A, END])
    async with life(redis_url, cluster) as watching:

        async def again() -> bool:
            entries = await watching.store.read_entries(BRANCH)
            return [e.entry.count for e in entries if isinstance(e.entry, SweepEntry)] == [1]

        await until(again, "the second set, which takes the place of the first")
    assert ["sendInitialEvents" in query for query in cluster.opened] == [True, True]


async def test_a_replay_that_was_given_up_leaves_nothing(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J5: what was staged of it is dropped at once, not when it expires."""
    monkeypatch.setattr("watchers.fold.PAGE_ITEMS", 1)
    cluster = Scripted([A, B], [A, B], [A, END], ends="cut")
    async with life(redis_url, cluster) as watching:
        await stands_at(watching.store, cluster.version)
        (sweep,) = await watching.store.read_entries(BRANCH)
        assert isinstance(sweep.entry, SweepEntry)
        found = [key async for key in watching.store.client.scan_iter(f"{keys.staging_prefix(BRANCH)}*")]
        assert [key.decode() for key in found] == [keys.staging(BRANCH, sweep.entry.replay_id)]


class Later:
    """Names the author of each event when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may = asyncio.Event()

    async def resolve(self, facts: EventFacts) -> Named | None:
        del facts
        self.asked.set()
        await self.may.wait()
        return Named(Author("alice"))

    async def submitter(self, request_uid: str) -> Author | None:
        del request_uid
        return None


@pytest.mark.parametrize("drain", [True, False])
async def test_the_end_of_a_shard(redis_url: str, monkeypatch: pytest.MonkeyPatch, drain: bool) -> None:
    """J3, B9: a shard that stops in order appends what it has received before it has ended, and then nothing
    of it runs any more; one that has lost its lease appends nothing.
    """
    cluster, resolver = Noted(), Later()
    cluster.change("ADDED", "old")

    async def slowly(stream: FakeStream) -> None:
        await asyncio.sleep(0.05)

    monkeypatch.setattr(FakeStream, "aclose", slowly)
    watching = Watching(redis_url, cluster)
    await watching.start()
    shard = watching.shard
    assert shard is not None
    object.__setattr__(shard.state.intake, "resolver", resolver)
    watching.begin()
    await stands_at(watching.store, 11)
    cluster.change("ADDED", "a")
    async with asyncio.timeout(60):
        await resolver.asked.wait()
        stopping = asyncio.create_task(shard.stop(drain=drain))
        if drain:
            _, waits = await asyncio.wait((stopping,), timeout=0.05)
            assert waits
            resolver.may.set()
        await stopping
    tasks = (shard._task, shard._session, shard._appender)
    assert all(task is not None and task.done() for task in tasks)
    await stands_at(watching.store, 12 if drain else 11)
    await watching.store.close()
