"""The watcher is killed at every step of a scripted run; the journal loses nothing and doubles nothing.

The store is wrapped so that the n-th call to Redis is the last one: before it is sent, or after it took
effect but before its answer arrived. Then a second watcher takes over. Where the cuts fall is a fixed
list, longer with SOAK_KILLS.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from reverser.errors import StoreUnavailable
from reverser.store import AsyncStore

from .conftest import Bench, Cluster

_CHANCE = random.Random(int(os.environ.get("SOAK_SEED", "0")))
STEPS = [1, 2, 3, 4, 5, 6, 8, 10, 13] + [
    _CHANCE.randint(1, 25) for _ in range(int(os.environ.get("SOAK_KILLS", "0")))
]
"""At which call each watcher in turn is cut off; more at random places with SOAK_KILLS."""
CM = [{"resources": ["configmaps"]}]


class Guillotine:
    """Cuts a store off at its n-th call that changes something; ``after`` lets that call still take
    effect.
    """

    def __init__(self, store: AsyncStore, steps: int, *, after: bool) -> None:
        self._run = store.run
        self._left = steps
        self._after = after
        self.fell = asyncio.Event()
        store.run = self.run  # type: ignore[method-assign, assignment]

    async def run(self, call: Any) -> Any:
        if self.fell.is_set():
            raise StoreUnavailable("cut off")
        if call.script.startswith(("append", "stage", "open_journal", "acquire", "write_stream")):
            self._left -= 1
            if self._left <= 0:
                self.fell.set()
                if self._after:
                    await self._run(call)
                raise StoreUnavailable("cut off")
        return await self._run(call)


def script(cluster: Cluster, round_: int) -> None:
    """Creates, updates, deletes and re-creates; every change is one version of one object."""
    tag = f"r{round_}"
    cluster.create(f"{tag}-a", v="1")
    cluster.create(f"{tag}-b", v="1")
    for value in ("2", "3"):
        cluster.patch(f"{tag}-a", {"data": {"v": value}})
    cluster.delete(f"{tag}-b")
    cluster.create(f"{tag}-b", v="again")
    cluster.patch(f"{tag}-a", {"metadata": {"labels": {"x": tag}}})
    cluster.delete(f"{tag}-a")


def recorded(cluster: Cluster, after: int) -> list[tuple[str, int]]:
    """(name, version) of every change of a ConfigMap newer than ``after``, as the cluster itself recorded
    it.
    """
    found = []
    for event in cluster.server.store_record():
        if event.resource == ("", "configmaps") and event.rv > after:
            meta = event.obj["metadata"]
            if meta["namespace"] == "shop":
                found.append((meta["name"], event.rv))
    return found


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.timeout(120 + 3 * len(STEPS))
async def test_killed_at_any_step(bench: Bench, cluster: Cluster, after: bool) -> None:
    """E15, E16, E26, issue of durability: cut after each number of steps, all changes arrive once and in
    order.
    """
    cluster.create("old", v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    for round_, steps in enumerate(STEPS):
        store = AsyncStore.connect(bench.redis_url)
        guillotine = Guillotine(store, steps, after=after)
        watcher = await bench.start(store=store, ident=f"w{round_}")
        await asyncio.sleep(0.1 if round_ % 2 else 0.0)
        await asyncio.to_thread(script, cluster, round_)
        try:
            async with asyncio.timeout(1.0):
                await guillotine.fell.wait()
        except TimeoutError:
            pass
        await watcher.kill()
        await bench.expire(watcher)
    last = await bench.start(ident="last")
    await bench.mirrored(uid)
    await last.stop()
    events = await bench.journal().events()
    seen = [(event.object.name, int(event.resource_version)) for event in events]
    assert len(seen) == len(set(seen))
    swept = max(int(sweep.resource_version) for sweep in await bench.journal().sweeps())
    assert [change for change in seen if change[1] > swept] == recorded(cluster, swept)
