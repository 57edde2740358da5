"""What a replay is made of, event by event: the set that is complete at the end marker, nothing before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from reverser.errors import KubeUnavailable
from reverser.kube.lines import WatchEvent
from reverser.kube.requests import KubeList
from reverser.store.model import SweepEntry

from .steps import BRANCH, SCOPE, FakeCluster, FakeStream, Watching, bookmark, until


def event(kind: str, name: str, value: int, **meta: Any) -> WatchEvent:
    given = {"name": name, "namespace": "shop", "uid": f"{name}-uid", "resourceVersion": str(value), **meta}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": given, "data": {"v": str(value)}}
    return WatchEvent(kind, obj, 100)


def expired() -> WatchEvent:
    return WatchEvent("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}, 50)


END = bookmark(9, end=True)
A, B = event("ADDED", "a", 1), event("ADDED", "b", 2)
GOING = event("MODIFIED", "b", 3, deletionTimestamp="2026-01-01T00:00:00Z")


class Scripted(FakeCluster):
    """Its replays are written down, one after another; the last one is repeated."""

    def __init__(self, *replays: list[WatchEvent], ends: str = "") -> None:
        super().__init__()
        self.version = 9
        self._replays = list(replays)
        self._ends = ends
        self.opened: list[Mapping[str, str]] = []

    async def watch(self, path: str, query: Mapping[str, str], **limits: float) -> FakeStream:
        self.opened.append(query)
        if "sendInitialEvents" not in query:
            return await super().watch(path, query, **limits)
        script = self._replays.pop(0) if len(self._replays) > 1 else self._replays[0]
        stream = FakeStream(self, script, self.version)
        if END not in script:
            stream.ended = self._ends
        return stream


async def swept(redis_url: str, cluster: FakeCluster) -> list[dict[str, bytes]]:
    """The sets of all sweeps, once there is one."""
    watching = Watching(redis_url, cluster)
    await watching.start()
    watching.begin()
    sets: list[dict[str, bytes]] = []

    async def check() -> bool:
        sets.clear()
        for stored in await watching.store.read_entries(BRANCH):
            if isinstance(stored.entry, SweepEntry):
                staged = await watching.store.read_staging(BRANCH, stored.entry.replay_id) or []
                if len(staged) != stored.entry.count:
                    return False  # superseded between the two readings
                sets.append({item.name: item.body for item in staged})
        return bool(sets)

    try:
        await until(check, "a sweep")
        cursor = await watching.store.read_cursor(SCOPE)
        assert cursor is not None
        assert cursor.resource_version == str(cluster.version), (
            "the cursor is the marker's, not that of an object"
        )
    finally:
        await watching.stop()
    return sets


@pytest.mark.parametrize(
    ("script", "values"),
    [
        ([A, B, END], {"a": 1, "b": 2}),
        ([A, bookmark(5), B, END], {"a": 1, "b": 2}),
        ([B, A, event("MODIFIED", "a", 7), END], {"a": 7, "b": 2}),
        ([A, B, event("DELETED", "b", 4), END], {"a": 1}),
        ([A, B, event("DELETED", "b", 4), event("ADDED", "b", 6, uid="other"), END], {"a": 1, "b": 6}),
        ([A, B, GOING, END], {"a": 1}),
        ([A, GOING, END], {"a": 1}),
        ([A, B, GOING, event("ADDED", "b", 6, uid="other"), END], {"a": 1, "b": 6}),
        ([END], {}),
    ],
    ids=[
        "two objects",
        "a bookmark in between",
        "the last version",
        "deleted inside",
        "deleted and made again inside",
        "told to go inside",
        "terminating from the start",
        "told to go and made again",
        "none",
    ],
)
@pytest.mark.parametrize("small", [False, True], ids=["one page", "a page each"])
async def test_the_set_at_the_end_marker(
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    script: list[WatchEvent],
    values: dict[str, int],
    small: bool,
) -> None:
    """B2, A10, D15: last version wins; what is deleted or terminating is out, also when it was staged."""
    if small:
        monkeypatch.setattr("watchers.fold.PAGE_ITEMS", 1)
    (found,) = await swept(redis_url, Scripted(script))
    assert {
        name: f'"v":"{value}"'.encode() in found[name] for name, value in values.items()
    } == dict.fromkeys(values, True)
    assert found.keys() == values.keys()


async def test_gone_and_back_within_a_page_and_gone_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2: what was staged, is replaced in one page and deleted in the next, is not in the set."""
    monkeypatch.setattr("watchers.fold.PAGE_ITEMS", 2)
    again, last = event("ADDED", "b", 5, uid="other"), event("DELETED", "b", 7, uid="other")
    script = [A, B, event("DELETED", "b", 4), again, event("ADDED", "c", 6), last, END]
    (found,) = await swept(redis_url, Scripted(script))
    assert sorted(found) == ["a", "c"]


@pytest.mark.parametrize(
    ("first", "ends"),
    [
        ([A], "cut"),
        ([A], "clean"),
        ([A, bookmark(5)], "clean"),
        ([A, expired()], ""),
        ([A, expired(), END], ""),
    ],
    ids=["cut", "closed", "closed after a bookmark", "an error", "an error before the marker"],
)
async def test_what_has_no_end_is_thrown_away(redis_url: str, first: list[WatchEvent], ends: str) -> None:
    """A9: a replay that ends early leaves no sweep and no cursor; the next one is whole."""
    sets = await swept(redis_url, Scripted(first, [A, B, END], ends=ends))
    assert [sorted(found) for found in sets] == [["a", "b"]]


class Paged(FakeCluster):
    """It lists only, and its second page fails a few times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.lists_only = True
        self._failures = failures
        for name in "abcd":
            self.change("ADDED", name)

    async def pages(self, path: str, *, limit: int = 500) -> AsyncIterator[KubeList]:
        number = 0
        async for page in super().pages(path, limit=limit):
            number += 1
            if number == 2 and self._failures:
                self._failures -= 1
                raise KubeUnavailable("the second page is not there")
            yield page


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_a_list_counts_with_its_last_page(redis_url: str, failures: int) -> None:
    """E10, B12: no sweep before the list is complete, and then with all of it."""
    sets = await swept(redis_url, Paged(failures))
    assert [sorted(found) for found in sets] == [list("abcd")]


async def test_a_refusal_to_stream_is_remembered(redis_url: str) -> None:
    """B10: the next replay of the type does not ask again, as long as discovery says nothing new."""
    cluster = FakeCluster()
    cluster.lists_only = True
    cluster.change("ADDED", "a")
    asked: list[Mapping[str, str]] = []
    original = cluster.watch

    async def watch(path: str, query: Mapping[str, str], **limits: float) -> FakeStream:
        asked.append(query)
        return await original(path, query, **limits)

    cluster.watch = watch  # type: ignore[method-assign]
    watching = Watching(redis_url, cluster)
    await watching.start()
    assert watching.shard is not None
    watching.begin()

    async def sweeps(count: int) -> bool:
        entries = await watching.store.read_entries(BRANCH)
        wanted = [e.entry.wanted for e in entries if isinstance(e.entry, SweepEntry)]
        return bool(wanted) and wanted[-1] >= count

    try:
        await until(lambda: sweeps(0), "the first replay")
        for wanted in (1, 2):
            await watching.store.raise_wanted([SCOPE])
            watching.shard.request_replay(wanted)
            await until(lambda wanted=wanted: sweeps(wanted), "the wished one, with its number")  # type: ignore[misc]
    finally:
        await watching.stop()
    assert sum("sendInitialEvents" in query for query in asked) == 1
