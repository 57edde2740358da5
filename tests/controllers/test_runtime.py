"""The controllers as a running whole: nobody calls them, they wake up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from reverser.controllers import decide_request, runtime
from reverser.controllers.runtime import ControllerRuntime
from reverser.controllers.world import RESOURCES
from reverser.kube.paths import own_path
from reverser.processmetrics import QUEUE_DEPTH
from reverser.store.model import AttachEntry, Author, BranchKey, OutcomeKind, StreamState, TargetRef
from tests.controllers.cluster import Cluster
from tests.controllers.test_requests import attach, finish
from watchers.informers import Informer

SETTINGS = SimpleNamespace(
    command_namespace="not-there",
    default_known_hosts_configmap="",
    insecure_allow_missing_known_hosts=False,
)


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[ControllerRuntime]:
    """Caches and controllers, started and stopped in order."""
    caches: dict[str, Informer[Any]] = {
        resource: Informer(cluster.kube, own_path(resource), lambda obj: obj) for resource in RESOURCES
    }
    runtime = ControllerRuntime(
        cluster.kube, cluster.store, SETTINGS, caches=caches, registry=lambda: cluster.registry
    )
    stop = asyncio.Event()
    for cache in caches.values():
        cache.start()
    task = asyncio.ensure_future(runtime.run(stop))
    try:
        yield runtime
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)
        for cache in caches.values():
            await cache.stop()


async def until(look: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not await look():
            await asyncio.sleep(0.05)


async def test_changes_wake_what_depends_on_them(cluster: Cluster, url: str) -> None:
    """B01, B05, I10: no 5 min tick is waited for, in any order of creation."""

    async def shows(kind: str, name: str, condition: str, want: str) -> None:
        async def look() -> bool:
            return (await cluster.conditions(kind, name)).get(condition) == want

        await until(look)

    async with running(cluster):
        await cluster.apply(
            "WatchRule", "wr", {"targetRef": {"name": "gt"}, "rules": [{"resources": ["configmaps"]}]}
        )
        await shows("WatchRule", "wr", "Stalled", "True/GitTargetNotFound")
        target = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}
        await cluster.apply("GitTarget", "gt", target)
        await shows("GitTarget", "gt", "Validated", "False/ProviderNotFound")
        await shows("WatchRule", "wr", "Stalled", "True/GitProviderNotFound")
        await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main"]})
        await shows("GitProvider", "gp", "Ready", "True/Ready")
        await shows("GitTarget", "gt", "Reconciling", "True/Replaying")
        await cluster.stream("gt", "configmaps", StreamState.STREAMING)
        await shows("GitTarget", "gt", "Ready", "True/OK")
        await shows("WatchRule", "wr", "Ready", "True/Ready")
        await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["other"]})
        await shows("GitTarget", "gt", "Validated", "False/BranchNotAllowed")
        await shows("WatchRule", "wr", "Stalled", "True/ValidationFailed")
        gate = await cluster.store.read_gate(await cluster.uid("GitTarget", "gt"))
        assert gate is not None
        assert not gate.open


async def test_an_outcome_wakes_its_request_and_a_deletion_retires(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I01: the outcome is awaited, not polled for; B18: a deleted target is retired at once."""
    monkeypatch.setattr(decide_request, "OUTCOME_POLL", 3600.0)
    monkeypatch.setattr(runtime, "RETIRE_EVERY", 3600.0)
    main = BranchKey("shop", "gp", "main")
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main"]})
    await cluster.apply("GitTarget", "gt", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"})
    async with running(cluster):
        await cluster.apply("CommitRequest", "save", {"targetRef": {"name": "gt"}})

        async def waits() -> bool:
            found = await cluster.conditions("CommitRequest", "save")
            return found.get("Reconciling") == "True/WaitingForCloseDelay"

        await until(waits)
        uid = await cluster.uid("CommitRequest", "save")
        await attach(cluster, uid)
        await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")

        async def committed() -> bool:
            return (await cluster.conditions("CommitRequest", "save")).get("Ready") == "True/Committed"

        await until(committed)

        async def open_gate() -> bool:
            return bool(await cluster.store.read_gates())

        await until(open_gate)
        await cluster.delete("GitTarget", "gt")

        async def retired() -> bool:
            names = [type(e.entry).__name__ for e in await cluster.store.read_entries(main)]
            return names == ["RetireEntry"]

        await until(retired)


async def test_who_leads_tells_what_waits(cluster: Cluster, url: str) -> None:
    """With no worker left, what waits for one is still shown; nothing by who no longer leads."""
    main = BranchKey("shop", "gp", "main")

    def waiting() -> float:
        return float(QUEUE_DEPTH.labels("shop", "gp", "main")._value.get())

    async def shown() -> bool:
        return waiting() == 1

    await cluster.store.append_attach(
        main, None, AttachEntry(TargetRef("u", "shop", "gt"), "shop", "save", "cr", Author("alice"))
    )
    async with running(cluster):
        await until(shown)
    assert waiting() == 0


async def test_an_odd_object_does_not_stop_the_others(cluster: Cluster, url: str) -> None:
    """A bug met by one object is logged and retried; the rest goes on, led from default."""
    await cluster.apply("GitProvider", "bad", {"url": url, "allowedBranches": ["main"]})
    await cluster.apply("GitProvider", "good", {"url": url, "allowedBranches": ["main"]})
    async with running(cluster) as runtime:
        parse = runtime.world.raw

        def broken(resource: str, key: str) -> Any:
            if key == "shop/bad":
                raise RuntimeError("odd")
            return parse(resource, key)

        runtime.world.raw = broken  # type: ignore[method-assign]

        async def ready() -> bool:
            return (await cluster.conditions("GitProvider", "good")).get("Ready") == "True/Ready"

        await until(ready)
        assert runtime.leading
    assert not runtime.leading
