"""What changes around a running watcher: its credentials, its clock, its leases; and what is very large."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import time_machine
import yaml

from reverser.sandbox.thread import SandboxServer
from reverser.store import keys
from reverser.store.model import LeaseKind

from .conftest import Bench, Cluster, eventually
from .test_faults import begin, running

DAY = 24 * 3600


def kubeconfig(server: SandboxServer, folder: Path, user: dict[str, object]) -> str:
    """The administrator's kubeconfig with another way to say who asks."""
    document = yaml.safe_load(server.kubeconfig_path.read_text())
    document["users"][0]["user"] = user
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def revoke(server: SandboxServer, token: str) -> None:
    """The token is nobody's from now on."""
    server.call(lambda: server.server.tokens._users.pop(token))


@pytest.mark.parametrize("kind", ["token file", "exec plugin"])
async def test_a_token_that_is_replaced(bench: Bench, cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """Pain 75: the old token gets 401, the new one is read and every watch goes on; nothing is missing."""
    server, token = cluster.server, tmp_path / "token"
    server.add_user("old", "robot", groups=("system:masters",))
    server.add_user("new", "robot", groups=("system:masters",))
    token.write_text("old")
    credential = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": '
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", f"""printf '{credential}{{"token": "%s"}}}}' "$(cat {token})" """],
        "interactiveMode": "Never",
    }
    user = {"tokenFile": str(token)} if kind == "token file" else {"exec": plugin}
    uid = await begin(bench, cluster)
    await bench.start(kubeconfig=kubeconfig(server, tmp_path, user))
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    await bench.mirrored(uid)
    token.write_text("new")
    revoke(server, "old")
    server.faults.drop_watches()
    cluster.patch("a", {"data": {"v": "2"}})
    cluster.create("b", v="1")
    await bench.mirrored(uid)
    assert [json.loads(e.body)["data"]["v"] for e in await bench.journal().events("a")] == ["1", "2"]
    await bench.streaming(uid, 1)


async def test_the_clock_jumps(bench: Bench, cluster: Cluster) -> None:
    """Q05: a wall clock that goes a day forth and two back stops no watch, loses no lease and starts no
    replay: what lasts is measured by another clock.
    """
    uid = await running(bench, cluster)
    fence = bench.watchers[0].runtime._runners[uid].fence
    for step, days in enumerate((1, -1, 0)):
        with time_machine.travel(1_900_000_000 + days * DAY, tick=True):
            cluster.patch("a", {"data": {"v": f"{step}"}})
            cluster.server.faults.drop_watches("configmaps")
            await bench.mirrored(uid)
    await bench.streaming(uid, 1)
    assert bench.watchers[0].runtime._runners[uid].fence == fence
    assert len(await bench.journal().sweeps()) == 1
    assert len(await bench.journal().events("a")) == 3


async def test_leases_and_cursors_that_time_out_at_once(bench: Bench, cluster: Cluster) -> None:
    """Q05, J4: the clock of Redis jumps, so that everything with a time to live is gone: the same watcher
    takes its target again, replays, and no change is missing or doubled.
    """
    uid = await running(bench, cluster)
    cluster.create("gone", v="1")
    await bench.mirrored(uid)
    client = bench.store.client
    mortal = [key async for key in client.scan_iter("*") if await client.pttl(key) > 0]
    assert keys.lease(LeaseKind.TARGET, uid).encode() in mortal
    await client.delete(*mortal)
    cluster.patch("a", {"data": {"v": "2"}})
    cluster.delete("gone")
    await bench.mirrored(uid)
    assert await client.exists(keys.lease(LeaseKind.TARGET, uid))
    seen = [event.resource_version for event in await bench.journal().events()]
    assert len(seen) == len(set(seen))


EMPTY = {
    "aggregated": b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}',
    "legacy": b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}',
    "nothing": b"{}",
}


@pytest.mark.parametrize(
    ("form", "empty"),
    [
        ("aggregated", ("/api", "/apis")),
        ("nothing", ("/api", "/apis")),
        ("aggregated", ("/apis",)),
        ("legacy", ("/apis",)),
        ("legacy", ("/api",)),
    ],
    ids=["all", "nothing at all", "groups", "groups in the older form", "the core in the older form"],
)
async def test_an_empty_discovery_answer(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, form: str, empty: tuple[str, ...]
) -> None:
    """B21, pain 70: a server that answers 200 and names no type at all, or none of one half, for far longer
    than the grace of a missing type: every watch goes on, nothing is taken for deleted, no shard is closed.
    """
    monkeypatch.setattr("watchers.registry.REMOVAL_GRACE", 0.2)
    cluster.create("a", v="1")
    uid = await begin(bench, cluster, [{"resources": ["configmaps", "deployments"]}])
    watcher = await bench.start()
    await bench.streaming(uid, 2)
    original, answered = watcher._kube.raw, 0

    async def raw(method: str, path: str, **more: Any) -> bytes:
        nonlocal answered
        if path not in empty:
            return await original(method, path, **more)
        answered += 1
        return EMPTY[form]

    monkeypatch.setattr(watcher._kube, "raw", raw)
    began = asyncio.get_running_loop().time()

    async def long_enough() -> bool:
        watcher.runtime.catalog.trigger()
        return answered >= 20 * len(empty) and asyncio.get_running_loop().time() - began > 1.0

    await eventually(long_enough, "it was empty for long")
    cluster.create("b", v="1")
    cluster.server.faults.drop_watches("configmaps")
    cluster.delete("a")
    await bench.mirrored(uid)
    monkeypatch.setattr(watcher._kube, "raw", original)
    cluster.create("c", v="1")
    await bench.mirrored(uid)
    assert len(await bench.journal().sweeps()) == 2
    assert [str(e.operation) for e in await bench.journal().events("a")] == ["DELETE"]
    await bench.streaming(uid, 2)
    assert all(record.restarts == 0 for record in (await bench.store.read_streams(uid)).values())


async def test_an_object_of_five_megabytes(bench: Bench, cluster: Cluster) -> None:
    """Larger than an API server takes from a client, so an aggregated one's: live and replayed, it passes
    whole, and what comes behind it too.
    """
    uid = await running(bench, cluster)
    server = cluster.server

    def put(name: str) -> None:
        meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": ""}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": "é" * 2_500_000}}
        server.call(lambda: server.server.storage.put(("", "configmaps"), "shop", name, obj))

    put("big")
    cluster.create("behind", v="1")
    await bench.mirrored(uid)
    assert [event.object.name for event in await bench.journal().events()] == ["big", "behind"]
    assert len((await bench.journal().events("big"))[0].body) > 5_000_000
    await bench.watchers[0].stop()
    put("second")
    server.faults.compact()
    await bench.start()
    await bench.streaming(uid, 1)
    await bench.mirrored(uid)
    assert len(await bench.journal().sweeps()) == 1


async def test_a_server_that_asks_for_time_gets_it(bench: Bench, cluster: Cluster) -> None:
    """Pain 77, B10: 429 with Retry-After: nobody asks again before that, and then all is as before."""
    uid = await running(bench, cluster)
    server = cluster.server
    asked: list[float] = []
    take = server.faults.take_answer

    def noting(method: str, target: str) -> object:
        import time

        found = take(method, target)
        if "configmaps?" in target and "watch=1" in target:
            asked.append(time.monotonic())
        return found

    server.faults.take_answer = noting  # type: ignore[method-assign, assignment]
    server.faults.answer(429, r"configmaps\?.*watch=1", times=1, retry_after=2)
    server.faults.drop_watches("configmaps")
    cluster.patch("a", {"data": {"v": "2"}})
    await bench.mirrored(uid)
    assert len(asked) >= 2
    assert asked[1] - asked[0] >= 2.0


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.acceptance)])
async def test_many_objects_replay_while_others_change(bench: Bench, cluster: Cluster, count: int) -> None:
    """B2: objects that are created, changed and deleted around a long replay are all as they are at the end;
    what came after it is there once.
    """
    server = cluster.server

    def seed() -> None:
        for index in range(count):
            meta = {"name": f"o{index}", "namespace": "shop", "uid": f"uid-{index}", "resourceVersion": ""}
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": "1" * 50}}
            server.server.storage.put(("", "configmaps"), "shop", f"o{index}", obj)

    server.call(seed)
    uid = await begin(bench, cluster)
    await bench.start()
    for index in range(40):
        cluster.create(f"n{index}", v="1")
        cluster.patch(f"o{index * 20}", {"data": {"v": "2"}})
        cluster.delete(f"n{index}" if index % 2 else f"o{index * 20 + 1}")
    await bench.mirrored(uid, deadline=60.0)
    (sweep,) = await bench.journal().sweeps()
    events = await bench.journal().events()
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert all(version > int(sweep.resource_version) for version in versions)


async def test_metrics_of_a_watch(bench: Bench, cluster: Cluster) -> None:
    """`watch_cursor_age_seconds` and `terminating_objects`: what an operator sees of a watch that goes on,
    and of an object that nobody lets go.
    """
    from watchers.metrics import CURSOR_AGE, TERMINATING

    uid = await running(bench, cluster)
    age = CURSOR_AGE.labels("", "v1", "configmaps", "namespace")
    held = TERMINATING.labels("", "v1", "configmaps")
    others = (
        held._value.get()
    )  # the gauge is the process's: what killed watchers of other tests left counts too
    cluster.patch("a", {"metadata": {"finalizers": ["x.io/a"]}})
    cluster.delete("a")
    await bench.mirrored(uid)

    async def counted() -> bool:
        return held._value.get() == others + 1 and 0 < age._value.get() < 5

    await eventually(counted, "one terminating object, a young cursor")
    cluster.patch("a", {"metadata": {"finalizers": None}})

    async def gone() -> bool:
        return held._value.get() == others

    await eventually(gone, "it is gone")
    await bench.watchers[0].stop()
    assert held._value.get() == others
