"""Caches: the first list, changes, a lost history, and what listeners are told."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path, own_path
from reverser.sandbox.thread import SandboxServer
from tests.ports import free_port
from watchers.informers import Informer
from watchers.kinds import OwnKinds

from .conftest import DEADLINE, FAST, Cluster, eventually


async def test_a_cache_follows_its_collection(cluster: Cluster) -> None:
    """Listed objects, live changes, and changes across a 410 and a cut connection all arrive; listeners
    hear each.
    """
    cluster.create("a", v="1")
    heard: list[tuple[str, str | None]] = []
    kube = await AsyncKube.connect(cluster.kubeconfig)

    def value(obj: dict[str, Any]) -> str:
        return str(obj["data"]["v"])

    informer = Informer(
        kube,
        core_path("configmaps", namespace="shop"),
        value,
        on_change=lambda key, new: heard.append((key, new)),
        timing=FAST,
    )
    informer.start()
    assert await informer.wait_synced(DEADLINE)
    assert informer.items() == ["1"]
    cluster.patch("a", {"data": {"v": "2"}})
    cluster.create("b", v="1")

    async def followed() -> bool:
        return informer.items() == ["2", "1"]

    await eventually(followed, "live changes")
    cluster.server.faults.answer(410, r"configmaps\?.*watch", times=1)
    cluster.server.faults.drop_watches("configmaps", clean=False)
    cluster.delete("a")
    cluster.create("c", v="3")

    async def again() -> bool:
        return informer.items() == ["1", "3"]

    await eventually(again, "changes across the gap")
    assert informer.get("shop", "c") == "3"
    assert informer.get("shop", "a") is None
    assert heard[0] == ("shop/a", "1")
    assert ("shop/a", None) in heard
    late: list[str] = []
    informer.on_change(lambda key, new: late.append(key))
    assert sorted(late) == ["shop/b", "shop/c"]
    await informer.stop()
    await kube.close()


async def test_a_server_that_was_restored(tmp_path: Path) -> None:
    """An API server whose data is that of a backup is behind what it told before, and silent to whoever asks
    for more: the cache is what that server has, and goes on from there.
    """
    state, backup, saved = tmp_path / "cluster", tmp_path / "backup", tmp_path / "kubeconfig"

    port = free_port()

    def serve() -> SandboxServer:
        return SandboxServer(state, port=port, bookmark_interval=3600)

    with serve() as server:
        cluster = Cluster(server)
        saved.write_bytes(Path(cluster.kubeconfig).read_bytes())
        cluster.namespace("shop")
        cluster.create("a", v="1")
    shutil.copytree(state, backup)
    kube = await AsyncKube.connect(str(saved))
    informer = Informer(
        kube, core_path("configmaps", namespace="shop"), lambda obj: str(obj["data"]["v"]), timing=FAST
    )

    async def holds(*values: str) -> None:
        async def check() -> bool:
            return informer.items() == list(values)

        await eventually(check, f"{values}; {informer.items()}")

    with serve() as server:
        informer.start()
        await holds("1")
        cluster = Cluster(server)
        for value in range(2, 12):
            cluster.patch("a", {"data": {"v": str(value)}})
        cluster.create("b", v="2")
        await holds("11", "2")
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    with serve() as server:
        await holds("1")
        Cluster(server).create("c", v="3")
        await holds("1", "3")
        await informer.stop()
        await kube.close()


async def test_a_status_alone_wakes_nobody(cluster: Cluster) -> None:
    """With many targets every status write would otherwise make every target look."""
    calls: list[int] = []
    kube = await AsyncKube.connect(cluster.kubeconfig)
    kinds = OwnKinds(kube, timing=FAST, changed=lambda: calls.append(1), requested=lambda request: None)
    kinds.start()
    uid = cluster.target()
    await kinds.wait_synced()

    async def known() -> bool:
        return uid in kinds.targets

    await eventually(known, "the target is known")
    path = "/apis/configbutler.ai/v1alpha3/namespaces/shop/gittargets/gt"
    before = len(calls)
    cluster.kube.patch(f"{path}/status", {"status": {"observedGeneration": 1}})
    cluster.kube.patch(path, {"metadata": {"labels": {"a": "b"}}})
    cluster.kube.patch(path, {"spec": {"prune": {"mode": "Never"}}})

    async def changed() -> bool:
        return str(kinds.targets[uid].prune) == "Never"

    await eventually(changed, "the spec change is known")
    assert len(calls) == before + 1
    await kinds.stop()
    await kube.close()


async def test_a_history_that_is_always_gone_is_no_tight_loop(cluster: Cluster) -> None:
    """Pain 64: a server that answers 410 to every watch is listed again with growing pauses."""
    faults = cluster.server.faults
    asked: list[str] = []
    take = faults.take_answer

    def noting(method: str, target: str) -> Any:
        if "configmaps" in target:
            asked.append(target)
        return take(method, target)

    faults.take_answer = noting  # type: ignore[method-assign]
    faults.answer(410, r"configmaps\?.*watch", times=None)
    cluster.create("a", v="1")
    kube = await AsyncKube.connect(cluster.kubeconfig)
    informer = Informer(kube, core_path("configmaps", namespace="shop"), dict, timing=FAST)
    informer.start()
    assert await informer.wait_synced(DEADLINE)
    asked.clear()
    await asyncio.sleep(1.0)
    assert len(asked) < 20
    faults.clear()
    cluster.create("b", v="1")

    async def followed() -> bool:
        return len(informer.items()) == 2

    await eventually(followed, "it follows again")
    await informer.stop()
    await kube.close()


@pytest.mark.parametrize("where", ["transform", "listener", "stream"])
async def test_a_bug_stops_no_cache(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """Whatever one object or one stream meets, the other objects are followed further, and the log tells."""
    kube = await AsyncKube.connect(cluster.kubeconfig)

    def value(obj: dict[str, Any]) -> str:
        if where == "transform" and obj["metadata"]["name"] == "odd":
            raise RuntimeError("odd")
        return str(obj["data"]["v"])

    def heard(key: str, new: str | None) -> None:
        if where == "listener" and key == "shop/odd":
            raise RuntimeError("odd")

    watch, streams = kube.watch, 0

    async def breaks(*args: Any, **options: Any) -> Any:
        nonlocal streams
        streams += 1
        if where == "stream" and streams == 1:
            raise RuntimeError("odd")
        return await watch(*args, **options)

    monkeypatch.setattr(kube, "watch", breaks)
    path = core_path("configmaps", namespace="shop")
    informer = Informer(kube, path, value, on_change=heard, timing=FAST)
    informer.start()
    assert await informer.wait_synced(DEADLINE)
    cluster.create("odd", v="1")
    cluster.create("plain", v="2")

    async def followed() -> bool:
        return informer.get("shop", "plain") == "2"

    await eventually(followed, "the other object")
    assert informer.get("shop", "odd") == (None if where == "transform" else "1")
    assert {record.levelname for record in caplog.records if "a bug" in record.getMessage()} == {"ERROR"}
    await informer.stop()
    await kube.close()


@pytest.mark.parametrize(
    ("status", "path", "words"),
    [
        (404, own_path("gittargets"), "apply deploy/crds"),
        (403, own_path("gittargets"), "grant get, list and watch: manage.py rbac"),
        (404, "/apis/apiregistration.k8s.io/v1/apiservices", "the API server answered 404"),
    ],
)
async def test_a_cache_that_cannot_be_filled_says_what_to_do(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, status: int, path: str, words: str
) -> None:
    """B15: missing definitions and missing rights are named with their remedy, other types as they are."""
    cluster.server.faults.answer(status, path.rpartition("/")[2])
    kube = await AsyncKube.connect(cluster.kubeconfig)
    informer = Informer(kube, path, str, timing=FAST)
    informer.start()

    async def told() -> bool:
        return any(words in record.getMessage() for record in caplog.records)

    await eventually(told, "the log says it")
    assert not informer.synced
    await informer.stop()
    await kube.close()
