"""From a cluster to the journal: the whole watcher on the sandbox API server and a real Valkey."""

from __future__ import annotations

import asyncio

import pytest

from reverser.kube.paths import core_path, own_path
from reverser.store.model import BranchKey, Gate

from .conftest import Bench, Cluster, eventually

CM = [{"resources": ["configmaps"]}]


async def test_what_exists_and_what_changes_is_in_the_journal(bench: Bench, cluster: Cluster) -> None:
    """D03, D01: existing objects are one sweep; live changes are events in order; deletes are DELETE."""
    for index in range(6):
        cluster.create(f"old{index}", v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    for value in ("2", "3"):
        cluster.patch("a", {"data": {"v": value}})
    cluster.delete("old0")
    await bench.mirrored(uid)
    events = await bench.journal().events("a")
    assert [str(event.operation) for event in events] == ["CREATE", "UPDATE", "UPDATE"]
    sweeps = await bench.journal().sweeps()
    assert [sweep.count for sweep in sweeps] == [6]


async def test_a_restart_resumes_from_the_cursor(bench: Bench, cluster: Cluster) -> None:
    """E01: a quiet restart appends nothing; what happened meanwhile arrives as events."""
    cluster.create("a", v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    first = await bench.start()
    await bench.streaming(uid, 1)
    await first.stop()
    before = len(await bench.journal().read())
    cluster.create("b", v="1")
    cluster.delete("a")
    await bench.start()
    await bench.mirrored(uid)
    names = [(event.object.name, str(event.operation)) for event in await bench.journal().events()]
    assert names == [("b", "CREATE"), ("a", "DELETE")]
    assert len(await bench.journal().read()) == before + 2


@pytest.mark.parametrize("branch", [None, BranchKey("shop", "gp", "main")], ids=["no branch", "a branch"])
async def test_a_closed_gate_stops_the_streams(
    bench: Bench, cluster: Cluster, branch: BranchKey | None
) -> None:
    """J21: nothing streams before the gate opens; when it closes the streams stop and are not shown."""
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    watcher = await bench.start()

    async def held() -> bool:
        return uid in watcher.runtime.held

    await eventually(held, "the target is held")
    assert await bench.store.read_streams(uid) == {}
    await bench.open(uid)
    await bench.streaming(uid, 1)

    await bench.store.write_gate(uid, Gate(False, 2, branch, "live", "Validated"))
    await bench.streaming(uid, 0)


async def test_cursor_keys_keep_up(bench: Bench, cluster: Cluster) -> None:
    """E25: the literal key, a decimal value, its time to live, and bookmarks that move an idle cursor."""
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    key = f"gitops-reverser:watch:v1:target:{uid}:configmaps:namespace:shop:last-rv"
    before = int(await bench.store.client.get(key))
    assert 3500 < await bench.store.client.ttl(key) <= 3600
    cluster.namespace("elsewhere")
    newest = cluster.create("x", namespace="elsewhere", v="1")

    async def kept_up() -> bool:
        return int(await bench.store.client.get(key)) >= int(newest["metadata"]["resourceVersion"])

    await eventually(kept_up, "a bookmark moves the cursor")
    assert before < int(await bench.store.client.get(key))
    assert await bench.journal().events() == []
    cluster.create("y", v="1")

    async def told() -> bool:
        return any(record.last_event_ms for record in (await bench.store.read_streams(uid)).values())

    await eventually(told, "the stream tells of its last event")
    (record,) = (await bench.store.read_streams(uid)).values()
    assert record.hourly_events == 1


async def test_a_rule_that_comes_back_resumes(bench: Bench, cluster: Cluster) -> None:
    """C23: while a rule is away nothing is appended; when it is back, everything that happened arrives as
    events.
    """
    for name in ("a", "b"):
        cluster.create(name, v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    cluster.rule("other", "gt", [{"resources": ["services"]}])
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 2)
    cluster.kube.delete(own_path("watchrules", namespace="shop", name="wr"))
    await bench.streaming(uid, 1)
    before = len(await bench.journal().read())
    cluster.delete("a")
    cluster.patch("b", {"data": {"v": "2"}})
    cluster.create("c", v="1")
    await asyncio.sleep(0.5)
    assert len(await bench.journal().read()) == before
    cluster.rule("wr", "gt", CM)
    await bench.mirrored(uid)
    assert [event.object.name for event in await bench.journal().events()] == ["a", "b", "c"]


async def test_a_wildcard_follows_what_may_be_followed(bench: Bench, cluster: Cluster) -> None:
    """C05, C30: every followable namespaced type streams, the denied ones are not there, own kinds are."""
    uid = cluster.target()
    cluster.rule("wr", "gt", [{"apiGroups": ["*"], "resources": ["*"]}])
    await bench.open(uid)
    watcher = await bench.start()

    async def all_of_them() -> bool:
        expected = {r.group_resource for r in watcher.runtime.registry.live if r.resource.namespaced}
        records = await bench.store.read_streams(uid)
        streaming = {scope.group_resource for scope, r in records.items() if r.state == "streaming"}
        return bool(expected) and streaming == expected

    await eventually(all_of_them, "all types stream")
    names = {scope.group_resource for scope in await bench.store.read_streams(uid)}
    denied = {"pods", "events", "endpoints", "coordination.k8s.io/leases", "apps/controllerrevisions"}
    assert names.isdisjoint(denied)
    assert {"configmaps", "secrets", "batch/jobs", "batch/cronjobs", "configbutler.ai/gittargets"} <= names


async def test_server_defaults_travel_with_the_entry(bench: Bench, cluster: Cluster) -> None:
    """Pain 45: what the server filled in is named, so that a short file stays short; what was set is not."""
    uid = cluster.target()
    cluster.rule("wr", "gt", [{"resources": ["services"]}])
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "targetPort": 8080}]
    spec = {"selector": {"a": "b"}, "ports": ports}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    cluster.kube.create(core_path("services", namespace="shop"), body)

    async def there() -> bool:
        return bool(await bench.journal().events("s"))

    await eventually(there, "the service")
    (event,) = await bench.journal().events("s")
    expected = {"/spec/type", "/spec/sessionAffinity", "/spec/ports/0/protocol", "/spec/ports/0/targetPort"}
    assert expected <= set(event.optional)
    assert "/spec/ports/1/targetPort" not in event.optional
    assert b"clusterIP" not in event.body
