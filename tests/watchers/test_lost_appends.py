"""A store that fails over to a server which lacks what was appended last."""

from __future__ import annotations

from typing import Any

import redis

from reverser.store import AsyncStore, keys
from reverser.store.model import EventEntry, Scope
from watchers.serverwatch import COMPARISONS, ServerWatch

from .conftest import RARE_BOOKMARKS, Bench, Cluster, eventually

CONFIGMAPS = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


class Named(AsyncStore):
    """A store whose server has the name that the test says."""

    name = "first"

    async def server_id(self) -> str:
        return self.name


@RARE_BOOKMARKS
async def test_what_the_new_server_lacks_is_read_again(bench: Bench, cluster: Cluster) -> None:
    """An append whose entry and cursor did not reach the replica is made again, although nothing changes any
    more in the cluster; what did reach it is not made twice.
    """
    uid = cluster.target()
    cluster.rule("wr", "gt", CONFIGMAPS)
    await bench.open(uid)
    store = Named.connect(bench.redis_url)
    assert isinstance(store, Named)
    await bench.start(store=store)
    scope = Scope(uid, "configmaps", "shop")

    async def names() -> list[str]:
        entries = await bench.store.read_entries(bench.branch, "")
        return [e.entry.object.name for e in entries if isinstance(e.entry, EventEntry)]

    async def streaming() -> bool:
        streams = await bench.store.read_streams(uid)
        return bool(streams) and all(found.state == "streaming" for found in streams.values())

    async def holds(*wanted: str) -> bool:
        return await names() == list(wanted)

    await eventually(streaming, "the watch streams")
    cluster.create("arrived")
    await eventually(lambda: holds("arrived"), "the first entry")
    with redis.Redis.from_url(bench.redis_url) as client:
        kept = {key: client.dump(key) for key in (keys.cursor(scope), keys.cursor_append(scope))}
        cluster.create("lost")
        await eventually(lambda: holds("arrived", "lost"), "the second entry")
        last: Any = client.xrevrange(keys.journal(bench.branch), count=1)
        client.xdel(keys.journal(bench.branch), last[0][0])
        for key, value in kept.items():
            client.restore(key, 3_600_000, value, replace=True)
    assert await names() == ["arrived"]
    store.name = "second"
    await eventually(lambda: holds("arrived", "lost"), "what was lost is there again")


async def test_doubt_begins_with_another_server_and_ends(redis_url: str) -> None:
    """The same answer again raises no doubt; another one does, as often as cursors are compared."""
    store = Named.connect(redis_url)
    assert isinstance(store, Named)
    watch = ServerWatch(store)
    assert [await watch.doubtful() for _ in range(3)] == [False] * 3
    store.name = "second"
    assert [await watch.doubtful() for _ in range(COMPARISONS + 2)] == [True] * COMPARISONS + [False] * 2
    await store.close()


async def test_a_server_has_a_name(redis_url: str) -> None:
    """A real server tells which run it is, the same to each who asks."""
    store = AsyncStore.connect(redis_url)
    first = await store.server_id()
    assert first
    assert await store.server_id() == first
    await store.close()
