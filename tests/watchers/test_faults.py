"""Faults of servers, networks and Redis: after each of them the journal equals the cluster again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverser.kube.paths import own_path
from reverser.sandbox.faults import Faults
from reverser.sandbox.thread import SandboxServer
from reverser.store import AsyncStore
from reverser.store.model import StreamState
from tests.ports import free_port

from .conftest import CRD_PATH, FAST, Bench, Cluster, eventually

CM = [{"resources": ["configmaps"]}]
WATCH = r"configmaps\?.*watch=1"


async def begin(bench: Bench, cluster: Cluster, rules: list[dict[str, Any]] | None = None) -> str:
    uid = cluster.target()
    cluster.rule("wr", "gt", rules or CM)
    await bench.open(uid)
    return uid


async def running(bench: Bench, cluster: Cluster) -> str:
    cluster.create("a", v="1")
    uid = await begin(bench, cluster)
    await bench.start()
    await bench.streaming(uid, 1)
    return uid


FAULTS: dict[str, Callable[[Faults], object]] = {
    "clean close": lambda f: f.drop_watches("configmaps"),
    "cut connection": lambda f: f.drop_watches("configmaps", clean=False),
    "line cut in its middle": lambda f: f.cut_next_line("configmaps"),
    "line that is not JSON": lambda f: f.garble_next_line("configmaps"),
    "410 by HTTP": lambda f: (
        f.answer(410, r"configmaps\?.*resourceVersion=\d"),
        f.drop_watches("configmaps"),
    ),
    "410 by ERROR": lambda f: (f.drop_watches("configmaps"), f.compact()),
    "410 again and again": lambda f: (f.answer(410, WATCH, times=4), f.drop_watches("configmaps")),
    "429": lambda f: (f.answer(429, WATCH, times=2, retry_after=0), f.drop_watches("configmaps")),
    "503": lambda f: (f.answer(503, WATCH, times=3), f.drop_watches("configmaps")),
    "503 for long": lambda f: (f.answer(503, WATCH, times=6), f.drop_watches("configmaps")),
    "500": lambda f: (f.answer(500, WATCH, times=2), f.drop_watches("configmaps")),
    "403 for a while": lambda f: (f.answer(403, WATCH, times=2), f.drop_watches("configmaps")),
    "401 once": lambda f: (f.answer(401, WATCH, times=1), f.drop_watches("configmaps")),
    "discovery empty": lambda f: f.answer(404, r"^/apis?$", times=4),
}

RESUMED = frozenset(FAULTS) - {"410 by HTTP", "410 by ERROR", "410 again and again"}
"""Faults after which the server still has its history: every single change arrives."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_change_is_lost_and_none_is_invented(bench: Bench, cluster: Cluster, fault: str) -> None:
    """E11: changes before, at and after a fault all arrive; each object's history stays in order."""
    uid = await running(bench, cluster)
    cluster.create("gone", v="1")
    FAULTS[fault](cluster.server.faults)
    cluster.create("b", v="1")
    for value in range(2, 6):
        cluster.patch("a", {"data": {"v": str(value)}})
    cluster.delete("gone")
    await bench.mirrored(uid)
    cluster.patch("a", {"data": {"v": "9"}})
    await bench.mirrored(uid)
    events = await bench.journal().events("a")
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions))
    if fault in RESUMED:
        assert [json.loads(event.body)["data"]["v"] for event in events] == ["2", "3", "4", "5", "9"]
    await bench.streaming(uid, 1)


@pytest.mark.parametrize("switch", ["refuse_streaming_lists", "withhold_end_marker", "drop_bookmarks"])
async def test_servers_that_cannot_stream_lists(bench: Bench, cluster: Cluster, switch: str) -> None:
    """A11, E09: a refusal or a missing end marker falls back to a paged list; live events follow once
    each.
    """
    for index in range(5):
        cluster.create(f"old{index}", v="1")
    setattr(cluster.server.faults, switch, True)
    uid = await begin(bench, cluster)
    await bench.start(timing=replace(FAST, marker_silence=0.6, marker_total=2.0))
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    cluster.patch("a", {"data": {"v": "2"}})
    cluster.delete("old1")
    await bench.mirrored(uid)
    assert len(await bench.journal().sweeps()) == 1
    assert len(await bench.journal().events()) == 3


async def test_a_type_that_is_forbidden_blocks_only_itself(
    bench: Bench, cluster: Cluster, tmp_path: Path
) -> None:
    """C31: one type of two answers 403: it is Blocked as not permitted, the other streams; it heals by
    itself.
    """
    cluster.server.faults.answer(403, r"/services\?", times=None)
    uid = await begin(bench, cluster, [{"resources": ["configmaps", "services"]}])
    await bench.start()

    async def blocked() -> bool:
        states = {s.group_resource: r for s, r in (await bench.store.read_streams(uid)).items()}
        return (
            len(states) == 2
            and states["configmaps"].state is StreamState.STREAMING
            and states["services"].reason == "WatchNotPermitted"
        )

    await eventually(blocked, "services are blocked")
    cluster.create("a", v="1")
    await bench.mirrored(uid)
    cluster.server.faults.clear()
    await bench.streaming(uid, 2)


@pytest.mark.parametrize(("code", "first"), [(401, 600.0), (403, 0.2)])
async def test_an_outage_does_not_lengthen_the_pause_after_a_refusal(
    bench: Bench, cluster: Cluster, code: int, first: float
) -> None:
    """Pain 75: the API server is away, then the old token is void for a moment: a try with the new one is
    soon. A right that is missing is asked for again after the first pause, however often the server failed.
    """
    cluster.server.faults.answer(503, WATCH, times=9)
    cluster.server.faults.answer(code, WATCH, times=2)
    uid = await begin(bench, cluster)
    await bench.start(timing=replace(FAST, retry_max=0.1, forbidden_first=first, forbidden_max=600.0))
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    await bench.mirrored(uid)


@pytest.mark.parametrize("stored", ["abc", "999999999999", "-1", "", "9" * 3000])
async def test_a_cursor_that_no_server_gave(bench: Bench, cluster: Cluster, stored: str) -> None:
    """E06: a cursor that is garbage, from the future or of another cluster ends in a replay, not in
    silence.
    """
    uid = await running(bench, cluster)
    await bench.watchers[0].stop()
    key = f"gitops-reverser:watch:v1:target:{uid}:configmaps:namespace:shop:last-rv"
    client = bench.store.client
    assert await client.get(key)
    await client.set(key, stored, ex=3600)
    cluster.create("new", v="1")
    cluster.delete("a")
    await bench.start()
    await bench.mirrored(uid)


async def test_terminating_objects_are_removed_once(bench: Bench, cluster: Cluster) -> None:
    """A15: several finalizer updates before DELETED are one removal; a replay does not bring the object
    back (D15).
    """
    cluster.create("old", v="1")
    cluster.patch("old", {"metadata": {"finalizers": ["x.io/a"]}})
    uid = await running(bench, cluster)
    cluster.patch("a", {"metadata": {"finalizers": ["x.io/a", "x.io/b"]}})
    cluster.delete("a")
    cluster.delete("old")
    cluster.patch("a", {"metadata": {"finalizers": ["x.io/b"]}})
    await bench.mirrored(uid)
    cluster.patch("a", {"metadata": {"finalizers": None}})
    cluster.create("last", v="1")
    await bench.mirrored(uid)
    removals = [e for e in await bench.journal().events("a") if str(e.operation) == "DELETE"]
    assert len(removals) == 1
    await bench.watchers[0].stop()
    await bench.store.client.flushall()
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    await bench.mirrored(uid)
    cluster.patch("old", {"metadata": {"finalizers": None}})
    cluster.create("end", v="1")
    await bench.mirrored(uid)
    assert await bench.journal().events("old") == []


async def test_redis_emptied_while_running(bench: Bench, cluster: Cluster) -> None:
    """E23, A23: streams go on; the shard replays into the new journal; nothing is missing."""
    uid = await running(bench, cluster)
    await bench.store.client.flushall()
    await bench.open(uid)
    cluster.create("b", v="1")
    await bench.mirrored(uid)
    cluster.delete("a")
    await bench.mirrored(uid)


async def test_redis_away_for_a_while(bench: Bench, cluster: Cluster) -> None:
    """B17: while Redis does not answer nothing is lost and the order stays; then everything is appended
    once.
    """
    uid = await running(bench, cluster)
    store = bench.watchers[0]._store
    original, down = store.run, True

    async def run(call: Any) -> Any:
        if down:
            from reverser.errors import StoreUnavailable

            raise StoreUnavailable("away")
        return await original(call)

    store.run = run  # type: ignore[method-assign, assignment]
    for value in range(2, 8):
        cluster.patch("a", {"data": {"v": str(value)}})
    cluster.create("b", v="1")
    cluster.server.faults.drop_watches("configmaps")
    await asyncio.sleep(0.5)
    down = False
    await bench.mirrored(uid)
    values = [event.resource_version for event in await bench.journal().events("a")]
    assert len(values) == 6
    assert len(await bench.journal().sweeps()) == 1


async def test_objects_that_come_and_go_inside_a_replay(bench: Bench, cluster: Cluster) -> None:
    """B2: many objects replay while others are created, changed and deleted; the end state is exact."""
    for index in range(400):
        cluster.create(f"o{index}", v="1" * 200)
    uid = await begin(bench, cluster)
    await bench.start()

    def churn() -> None:
        for index in range(60):
            cluster.create(f"n{index}", v="1")
            cluster.patch(f"o{index}", {"data": {"v": "2"}})
            cluster.delete(f"n{index}" if index % 2 else f"o{index + 100}")

    await asyncio.to_thread(churn)
    await bench.mirrored(uid)


async def test_a_large_object(bench: Bench, cluster: Cluster) -> None:
    """A line of more than a megabyte passes whole."""
    uid = await running(bench, cluster)
    cluster.create("big", v="é" * 450_000)
    await bench.mirrored(uid)


async def test_two_targets_on_one_type(bench: Bench, cluster: Cluster) -> None:
    """A18: two shards, two cursors, each target has every change once."""
    uid = await running(bench, cluster)
    other = cluster.target("other", "elsewhere")
    cluster.rule("wr2", "other", CM)
    await bench.open(other, "elsewhere")
    await bench.streaming(other, 1)
    cluster.create("b", v="1")
    await bench.mirrored(uid)
    await bench.mirrored(other)
    assert len(await bench.journal().events("b")) == 2


async def test_a_type_claimed_cluster_wide_and_namespaced(bench: Bench, cluster: Cluster) -> None:
    """C26: one cluster-wide shard serves both rules; one event per change."""
    cluster.namespace("depot")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    cluster.cluster_rule(
        "cwr", "gt", [{"scope": "Namespaced", "apiGroups": [""], "resources": ["configmaps"]}]
    )
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    assert [scope.namespace for scope in await bench.store.read_streams(uid)] == [None]
    cluster.create("a", v="1")
    cluster.create("b", namespace="depot", v="1")
    await bench.mirrored(uid, namespace=None)
    assert len(await bench.journal().events()) == 2


async def test_a_successor_of_the_same_name(bench: Bench, cluster: Cluster) -> None:
    """A19: a target that is deleted and made again has another UID: it replays, whatever its predecessor
    had.
    """
    uid = await running(bench, cluster)
    cluster.kube.delete(own_path("gittargets", namespace="shop", name="gt"))
    successor = cluster.target()
    assert successor != uid
    await bench.open(successor)
    await bench.streaming(successor, 1)
    await bench.mirrored(successor)
    assert [sweep.target.uid for sweep in await bench.journal().sweeps()] == [uid, successor]


async def test_the_api_server_away_for_a_while(
    async_store: AsyncStore, redis_url: str, tmp_path: Path, definitions: list[dict[str, Any]]
) -> None:
    """E12: the server stops and comes back with its objects; changes on both sides of the gap are all
    there.
    """
    state, saved, port = tmp_path / "cluster", tmp_path / "kubeconfig", free_port()
    with SandboxServer(state, port=port, bookmark_interval=0.5) as server:
        cluster = Cluster(server)
        for definition in definitions:
            cluster.kube.create(CRD_PATH, definition)
        cluster.namespace("shop")
        cluster.provider()
        saved.write_bytes(Path(cluster.kubeconfig).read_bytes())
        bench = Bench(cluster, async_store, redis_url, tmp_path)
        uid = await begin(bench, cluster)
        watcher = await bench.start(kubeconfig=str(saved))
        await bench.streaming(uid, 1)
        cluster.create("a", v="1")
        cluster.create("gone", v="1")
        await bench.mirrored(uid)
    await asyncio.sleep(0.5)
    with SandboxServer(state, port=port, bookmark_interval=0.5) as server:
        bench.cluster = cluster = Cluster(server)
        cluster.patch("a", {"data": {"v": "2"}})
        cluster.delete("gone")
        await bench.mirrored(uid)
        cluster.create("b", v="1")
        await bench.mirrored(uid)
        await watcher.stop()


async def test_a_broken_api_service_changes_nothing(bench: Bench, cluster: Cluster) -> None:
    """A1, C15: a group version that fails discovery keeps its shards; new targets on other types start."""
    uid = await running(bench, cluster)
    cluster.server.faults.fail_group("apps", "v1")

    async def degraded() -> bool:
        found = bench.watchers[0].runtime.registry.by_resource["deployments"]
        return [str(record.verdict) for record in found] == ["retained"]

    await eventually(degraded, "the group is known to fail")
    other = cluster.target("other", "elsewhere")
    cluster.rule("wr2", "other", [{"resources": ["configmaps"]}, {"resources": ["deployments"]}])
    await bench.open(other, "elsewhere")

    async def half() -> bool:
        found = {s.group_resource: r for s, r in (await bench.store.read_streams(other)).items()}
        return (
            len(found) == 2
            and found["configmaps"].state is StreamState.STREAMING
            and "not served reliably" in found["apps/deployments"].message
        )

    await eventually(half, "the healthy type streams, the other waits")
    cluster.create("b", v="1")
    await bench.mirrored(uid)
    cluster.server.faults.clear()
    await bench.streaming(other, 2)


async def test_wanted_replays_run_once(bench: Bench, cluster: Cluster) -> None:
    """J14: a raised mark replays the shard with that number, a parked one waits until it is lifted."""
    uid = await running(bench, cluster)
    scope = next(iter(await bench.store.read_streams(uid)))
    await bench.store.raise_wanted([scope])

    async def replayed() -> bool:
        marks = (await bench.store.read_marks(uid)).get(scope)
        return marks is not None and not marks.needs_replay

    await eventually(replayed, "the wish is replayed")
    wanted = [sweep.wanted for sweep in await bench.journal().sweeps()]
    assert wanted[-1] == 1
    await bench.store.raise_wanted([scope], parked_reason="PathRefused")
    await asyncio.sleep(0.8)
    assert [sweep.wanted for sweep in await bench.journal().sweeps()] == wanted
    await bench.store.unpark(scope)
    await eventually(replayed, "the lifted wish is replayed")


async def test_a_full_journal_pauses_the_reading(bench: Bench, cluster: Cluster) -> None:
    """J8: at the limit nothing more is appended and the status says so; nothing is lost when there is
    room again.
    """
    from dataclasses import replace

    bench.config = replace(bench.config, target_journal_max_size=6000)
    uid = await running(bench, cluster)
    for index in range(30):
        cluster.create(f"x{index}", v="y" * 500)

    async def full() -> bool:
        return any(r.reason == "JournalFull" for r in (await bench.store.read_streams(uid)).values())

    await eventually(full, "the journal is full")
    assert len(await bench.journal().events()) < 30
    client = bench.store.client
    keys = [key async for key in client.scan_iter("*:bytes")]
    await client.delete(*keys)
    seen = 0

    async def drained() -> bool:
        nonlocal seen
        await client.delete(*keys)
        seen = len(await bench.journal().events())
        return seen == 30

    await eventually(drained, "everything is appended")
    await bench.streaming(uid, 1)
