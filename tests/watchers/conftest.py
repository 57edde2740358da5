"""A sandbox cluster with the project's kinds installed, and watchers on it that may be killed and started."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.config import Config, load_config
from reverser.kube.client import AsyncKube, Kube
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.sandbox.thread import SandboxServer
from reverser.store import AsyncStore, keys
from reverser.store.model import BranchKey, Gate, LeaseKind
from watchers.hooks import AuthorResolver, Sealer
from watchers.leasing import HEARTBEAT_KIND
from watchers.runtime import WatcherRuntime
from watchers.timing import Timing

from .oracle import JournalReader

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
CRD_PATH = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DEADLINE = 45.0
FAST = Timing(
    retry_first=0.05,
    retry_max=0.4,
    forbidden_first=0.2,
    forbidden_max=0.4,
    blocked_after=1.0,
    marker_silence=60.0,
    marker_total=120.0,
    probe_after=0.3,
    quick_close=0.05,
    lease=60.0,
    renew=0.3,
    claim=0.15,
    discovery=1.0,
    debounce=0.05,
    secrets=0.2,
    sealing_first=0.3,
    sealing_max=0.6,
)


async def eventually(check: Callable[[], Awaitable[bool]], what: str, deadline: float = DEADLINE) -> None:
    """Waits for a condition; fails with what was waited for."""
    try:
        async with asyncio.timeout(deadline):
            while not await check():
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {deadline:g} s: {what}")


class Cluster:
    """A sandbox and short ways to change it. One per test."""

    def __init__(self, server: SandboxServer) -> None:
        self.server = server
        self.kubeconfig = str(server.kubeconfig_path)
        self.kube = Kube.connect(self.kubeconfig)

    def namespace(self, name: str) -> None:
        self.kube.create(core_path("namespaces"), {"metadata": {"name": name}})

    def create(self, name: str, namespace: str = "shop", **data: str) -> dict[str, Any]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        return self.kube.create(core_path("configmaps", namespace=namespace), body)

    def patch(self, name: str, patch: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
        return self.kube.patch(core_path("configmaps", namespace=namespace, name=name), patch)

    def delete(self, name: str, namespace: str = "shop") -> None:
        self.kube.delete(core_path("configmaps", namespace=namespace, name=name))

    def secret(self, name: str, value: str) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"v": value}}
        self.kube.create(core_path("secrets", namespace="shop"), body)

    def own(self, resource: str, name: str, spec: dict[str, Any], namespace: str = "shop") -> dict[str, Any]:
        body = {"apiVersion": "configbutler.ai/v1alpha3", "metadata": {"name": name}, "spec": spec}
        kinds = {
            "gitproviders": "GitProvider",
            "gittargets": "GitTarget",
            "watchrules": "WatchRule",
            "clusterwatchrules": "ClusterWatchRule",
            "commitrequests": "CommitRequest",
        }
        return self.kube.create(own_path(resource, namespace=namespace), {**body, "kind": kinds[resource]})

    def provider(self) -> None:
        spec = {"url": "https://git.example.com/shop.git", "allowedBranches": ["main"]}
        self.own("gitproviders", "gp", spec)

    def target(self, name: str = "gt", path: str = "live", **more: object) -> str:
        spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": path, **more}
        return str(self.own("gittargets", name, spec)["metadata"]["uid"])

    def rule(self, name: str, target: str, rules: list[dict[str, Any]]) -> None:
        self.own("watchrules", name, {"targetRef": {"name": target}, "rules": rules})

    def cluster_rule(self, name: str, target: str, rules: list[dict[str, Any]]) -> None:
        spec = {"targetRef": {"name": target, "namespace": "shop"}, "rules": rules}
        self.own("clusterwatchrules", name, spec, namespace="")

    def live(
        self, namespace: str | None = "shop", resource: str = "configmaps"
    ) -> dict[tuple[str, str], Any]:
        """What exists and is not terminating, by (namespace, name)."""
        return {
            (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj
            for obj in self.server.objects("", resource)
            if not obj["metadata"].get("deletionTimestamp")
            and (namespace is None or obj["metadata"].get("namespace") == namespace)
        }


@pytest.fixture(scope="session")
def definitions() -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]


RARE_BOOKMARKS = pytest.mark.parametrize("cluster", [3600.0], indirect=True, ids=["rare bookmarks"])
"""For a test that a bookmark would disturb, or whose loss one would hide."""


@pytest.fixture
def cluster(definitions: list[dict[str, Any]], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Its parameter is the seconds between two bookmarks of a watch."""
    with SandboxServer(bookmark_interval=getattr(request, "param", 0.5)) as server:
        made = Cluster(server)
        for definition in definitions:
            made.kube.create(CRD_PATH, definition)
        made.namespace("shop")
        made.provider()
        yield made
        made.kube.close()


class Watcher:
    """A watcher in this event loop; ``kill`` ends it without any goodbye."""

    def __init__(self, runtime: WatcherRuntime, kube: AsyncKube, store: AsyncStore) -> None:
        self.runtime = runtime
        self._kube = kube
        self._store = store
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(runtime.run(self._stop))

    async def stop(self) -> None:
        self._stop.set()
        await self._task
        await self._close()

    async def kill(self) -> None:
        """Cuts it off from the store first, so that its last acts are not graceful."""
        await self._store.close()

        async def refuse(call: object) -> object:
            raise asyncio.CancelledError

        self._store.run = refuse  # type: ignore[method-assign, assignment]
        self._task.cancel()
        await asyncio.wait((self._task,))
        await self._kube.close()

    async def _close(self) -> None:
        await self._kube.close()
        await self._store.close()


class Bench:
    """Starts watchers, opens gates, reads the journal."""

    def __init__(self, cluster: Cluster, store: AsyncStore, redis_url: str, tmp_path: Path) -> None:
        self.cluster = cluster
        self.store = store
        self.redis_url = redis_url
        self.branch = BranchKey("shop", "gp", "main")
        self.config: Config = load_config(
            {"REVERSER_STATE_DIR": str(tmp_path), "REVERSER_REDIS_URL": redis_url}
        )
        self.watchers: list[Watcher] = []

    async def open(self, uid: str, path: str = "live") -> None:
        await self.store.open_journal(self.branch)
        await self.store.write_gate(uid, Gate(True, 1, self.branch, path))

    async def start(
        self,
        *,
        resolver: AuthorResolver | None = None,
        sealer: Sealer | None = None,
        timing: Timing = FAST,
        kubeconfig: str = "",
        store: AsyncStore | None = None,
        ident: str = "",
    ) -> Watcher:
        kube = await AsyncKube.connect(kubeconfig or self.cluster.kubeconfig)
        opened = store or AsyncStore.connect(self.redis_url)
        runtime = WatcherRuntime(kube, opened, self.config, resolver, sealer, timing=timing, ident=ident)
        watcher = Watcher(runtime, kube, opened)
        self.watchers.append(watcher)
        return watcher

    async def expire(self, watcher: Watcher) -> None:
        """What a watcher holds has run out. A test says when: a moment in which the machine did something
        else must not."""
        ident = watcher.runtime.ident
        held = await self.store.lease_holders(LeaseKind.TARGET)
        leases = [keys.lease(LeaseKind.TARGET, uid) for uid, holder in held.items() if holder == ident]
        await self.store.client.delete(keys.process(HEARTBEAT_KIND, ident), *leases)

    def journal(self) -> JournalReader:
        return JournalReader(self.store, self.branch)

    async def streaming(self, uid: str, count: int) -> None:
        """Waits until so many shards of a target stream."""

        async def check() -> bool:
            records = await self.store.read_streams(uid)
            return len(records) == count and all(r.state == "streaming" for r in records.values())

        await eventually(check, f"{count} streams of {uid}")

    async def mirrored(self, uid: str, *, deadline: float = DEADLINE, **where: Any) -> None:
        """Waits until the journal, applied, equals what the cluster holds."""
        from watchers.sanitize import canonical, project

        async def check() -> bool:
            tree = (await self.journal().tree()).get(uid, {})
            live = {key: canonical(project(obj)) for key, obj in self.cluster.live(**where).items()}
            return {(ns, name): body for (_, ns, name), body in tree.items()} == live

        await eventually(check, "the journal equals the cluster", deadline)


@pytest.fixture
async def bench(
    cluster: Cluster, async_store: AsyncStore, redis_url: str, tmp_path: Path
) -> AsyncIterator[Bench]:
    made = Bench(cluster, async_store, redis_url, tmp_path)
    before = set(threading.enumerate())
    yield made
    for watcher in made.watchers:
        if not watcher._task.done():
            await watcher.stop()
    assert len(set(threading.enumerate()) - before) < 40
