"""A gate and its streams, with everything running: how soon nothing is read any more, and the way back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reverser.config import load_config
from reverser.controllers.runtime import ControllerRuntime
from reverser.kube.paths import core_path
from reverser.store import AsyncStore
from reverser.store.model import BranchKey, EventEntry, SweepEntry
from tests.controllers.cluster import Cluster
from tests.controllers.test_runtime import until
from watchers.runtime import WatcherRuntime

QA = BranchKey("shop", "gp", "qa")


@asynccontextmanager
async def watching(cluster: Cluster, redis_url: str, state: Path) -> AsyncIterator[None]:
    """Watcher and controllers as one process runs them, with the durations of the product."""
    config = load_config(
        {
            "REVERSER_STATE_DIR": str(state),
            "REVERSER_REDIS_URL": redis_url,
            "REVERSER_COMMAND_NAMESPACE": "default",
        }
    )
    store = AsyncStore.connect(redis_url)
    watcher = WatcherRuntime(cluster.kube, store, config, None, None)
    controllers = ControllerRuntime(
        cluster.kube, store, config, caches=watcher.informers, registry=lambda: watcher.registry
    )
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(part.run(stop)) for part in (watcher, controllers)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        await store.close()


@pytest.mark.parametrize("how", ["narrowed", "provider deleted"])
async def test_a_gate_that_closes_stops_its_streams_within_one_look(
    cluster: Cluster, url: str, redis_url: str, tmp_path: Path, how: str
) -> None:
    """I2, J21, B05: nothing polls for it; what is written meanwhile waits, and follows when it opens."""

    async def streaming(name: str) -> bool:
        return (await cluster.conditions("GitTarget", name)).get("StreamsRunning") == "True/AllStreamsReady"

    async def seen(branch: BranchKey) -> set[str]:
        """Names in the journal: of events, and of what a replay found."""
        names: set[str] = set()
        for item in await cluster.store.read_entries(branch):
            if isinstance(item.entry, EventEntry):
                names.add(item.entry.object.name)
            elif isinstance(item.entry, SweepEntry):
                staged = await cluster.store.read_staging(branch, item.entry.replay_id)
                names |= {found.name for found in staged or ()}
        return names

    wide = {"url": url, "allowedBranches": ["main", "qa"]}
    await cluster.apply("GitProvider", "gp", wide)
    await cluster.apply("GitProvider", "other", {"url": f"{url}-other", "allowedBranches": ["main"]})
    for name, provider, branch in (("gt", "other", "main"), ("gt2", "gp", "qa")):
        target = {"providerRef": {"name": provider}, "branch": branch, "path": "live"}
        await cluster.apply("GitTarget", name, target)
        rules = [{"apiGroups": [""], "resources": ["configmaps"]}]
        await cluster.apply("WatchRule", name, {"targetRef": {"name": name}, "rules": rules})
    uid = await cluster.uid("GitTarget", "gt2")
    maps = core_path("configmaps", namespace="shop")
    async with watching(cluster, redis_url, tmp_path):
        for name in ("gt", "gt2"):
            await until(lambda name=name: streaming(name), 60.0)  # type: ignore[misc]
        began = time.monotonic()
        if how == "narrowed":
            await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main"]})
        else:
            await cluster.delete("GitProvider", "gp")

        async def stopped() -> bool:
            gate = await cluster.store.read_gate(uid)
            return gate is not None and not gate.open and not await cluster.store.read_streams(uid)

        await until(stopped, 60.0)
        took = time.monotonic() - began
        print(f"streams stopped {took:.2f} s after the change")
        await cluster.kube.create(maps, {"metadata": {"name": "between"}, "data": {"v": "1"}})

        async def neighbour_saw_it() -> bool:
            return "between" in await seen(BranchKey("shop", "other", "main"))

        await until(neighbour_saw_it, 60.0)
        assert "between" not in await seen(QA)
        await cluster.apply("GitProvider", "gp", wide)

        async def caught_up() -> bool:
            return "between" in await seen(QA)

        await until(caught_up, 60.0)
