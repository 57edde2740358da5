"""While nothing happens nothing is written: not to a status, not as an Event, not to Redis."""

from __future__ import annotations

from typing import Any

from reverser.controllers.world import RESOURCES
from reverser.kube.paths import own_path
from reverser.store.model import StreamState
from tests.controllers.cluster import Cluster
from tests.controllers.test_reconcile import BASE, ENCRYPTED, base


async def many_states(cluster: Cluster, url: str) -> None:
    """Objects of all kinds, ready, under way and blocked in many ways."""
    await base(cluster, url)
    rules = [{"resources": ["configmaps"]}]
    target = {"providerRef": {"name": "gp"}, "branch": "main"}
    await cluster.apply("GitProvider", "dead", {"url": "http://127.0.0.1:1/x.git", **BASE})
    await cluster.apply("GitProvider", "nosecret", {"url": url, "secretRef": {"name": "no"}, **BASE})
    await cluster.apply("GitProvider", "odd", {"url": "ext::sh", "allowedBranches": ["[", "main"]})
    await cluster.apply("GitTarget", "overlap", {**target, "path": "live/sub"})
    await cluster.apply("GitTarget", "branch", {**target, "branch": "qa", "path": "b"})
    await cluster.apply("GitTarget", "sealed", {**target, "path": "s", "encryption": ENCRYPTED})
    await cluster.apply("GitTarget", "idle", {**target, "path": "i"})
    await cluster.apply("WatchRule", "lost", {"targetRef": {"name": "gone"}, "rules": rules})
    nothing = [{"resources": ["gizmos", "pods", "nodes"]}]
    await cluster.apply("WatchRule", "nothing", {"targetRef": {"name": "gt"}, "rules": nothing})
    wide = [{"scope": "Cluster", "resources": ["namespaces"]}]
    await cluster.apply(
        "ClusterWatchRule", "cwr", {"targetRef": {"name": "gt", "namespace": "shop"}, "rules": wide}
    )
    await cluster.apply("CommitRequest", "waits", {"targetRef": {"name": "gt"}})
    await cluster.apply("CommitRequest", "lost", {"targetRef": {"name": "gone"}})


async def test_a_quiet_minute_writes_nothing(cluster: Cluster, url: str) -> None:
    """S8, I11: looks at every object for minutes, by this process and by the next one, are reads alone."""
    await many_states(cluster, url)
    await cluster.settle()
    await cluster.stream("gt", "configmaps", StreamState.STREAMING)
    await cluster.settle(3)
    states = {await cluster.message("GitTarget", name, "Ready") for name in ("gt", "overlap", "branch")}
    assert len(states) == 3
    writes: list[str] = []
    plain = cluster.kube.raw

    async def spy(method: str, path: str, **more: Any) -> bytes:
        if method != "GET":
            writes.append(f"{method} {path}")
        return await plain(method, path, **more)

    cluster.kube.raw = spy  # type: ignore[method-assign]
    memory = {key: await cluster.store.client.dump(key) for key in await cluster.store.client.keys("*")}
    for round_ in range(6):
        cluster.clock += 10.0
        cluster.secret_clock += 310.0  # every cached finding is stale: all checks run again
        if round_ == 3:
            cluster.restart()
        for resource in RESOURCES:
            for key in cluster.world.keys(resource):
                await cluster.look(resource, key)
        await cluster.targets.retire_missing()
        await cluster.targets.compare_gates()
        await cluster.refresh()
    assert writes == []
    after = {key: await cluster.store.client.dump(key) for key in await cluster.store.client.keys("*")}
    assert after == memory


async def test_what_is_deleted_is_forgotten(cluster: Cluster, url: str) -> None:
    """Nothing that is remembered of an object, in order to do less, outlives it."""
    await many_states(cluster, url)
    await cluster.apply(
        "GitTarget", "blocked", {"providerRef": {"name": "no"}, "branch": "main", "path": "x"}
    )
    await cluster.settle(3)
    memories = {
        "found keys": cluster.checks._age._known,
        "listed remotes": cluster.checks._listed,
        "applied generations": cluster.providers._generations,
        "targets": cluster.targets._names,
        "remarks": cluster.targets._told,
        "requests": cluster.requests._since,
        "rules": cluster.rules._first_seen,
    }
    assert {name for name, memory in memories.items() if not memory} <= {"rules"}
    gone = [(resource, key) for resource in RESOURCES for key in cluster.world.keys(resource)]
    for resource, key in reversed(gone):
        namespace, _, name = key.rpartition("/")
        await cluster.kube.delete(own_path(resource, namespace=namespace, name=name))
    await cluster.refresh()
    for resource, key in gone:
        await cluster.look(resource, key)
    await cluster.targets.retire_missing()
    await cluster.targets.retire_missing()
    assert {name: memory for name, memory in memories.items() if memory} == {}
