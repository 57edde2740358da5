"""Events: in the namespace of their object, counted when they repeat, and never a flood."""

from __future__ import annotations

from typing import Any

from reverser.controllers.event_flow import BURST, REFILL, SAME_WITHIN, EventFlow
from reverser.controllers.events import Happening, Recorder
from reverser.errors import KubeForbidden
from reverser.kube.paths import core_path
from tests.controllers.cluster import Cluster

FLAP = Happening("WatchError", "configmaps cannot be watched", warning=True)
WELL = Happening("OK", "1/1 streams running")


def target(name: str = "gt", namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "configbutler.ai/v1alpha3", "kind": "GitTarget", "metadata": metadata}


async def events(cluster: Cluster, namespace: str = "shop") -> list[dict[str, Any]]:
    return (await cluster.kube.list(core_path("events", namespace=namespace))).items


async def test_what_flaps_is_counted(cluster: Cluster) -> None:
    """I24: two states in turn are two Events with a count, in the namespace of the object."""
    recorder = Recorder(cluster.kube, instance="test")
    for _ in range(5):
        await recorder.record(target(), FLAP)
        await recorder.record(target(), WELL)
    found = {event["reason"]: event for event in await events(cluster)}
    assert {reason: event["count"] for reason, event in found.items()} == {"WatchError": 5, "OK": 5}
    warned = found["WatchError"]
    assert (warned["type"], warned["metadata"]["namespace"]) == ("Warning", "shop")
    assert warned["involvedObject"]["namespace"] == "shop"
    assert warned["firstTimestamp"] <= warned["lastTimestamp"]


async def test_an_event_that_is_gone_or_may_not_be_changed_is_made_anew(cluster: Cluster) -> None:
    """An Event lives an hour, and older roles let Events be created only."""
    recorder = Recorder(cluster.kube, instance="test")
    await recorder.record(target(), FLAP)
    await cluster.kube.raw("DELETE", core_path("events", namespace="shop"))
    await recorder.record(target(), FLAP)
    assert [event["count"] for event in await events(cluster)] == [1]

    async def forbidden(*_: Any, **__: Any) -> Any:
        raise KubeForbidden("no")

    cluster.kube.patch = forbidden  # type: ignore[method-assign]
    await recorder.record(target(), FLAP)
    assert [event["count"] for event in await events(cluster)] == [1, 1]


async def test_there_is_an_end(cluster: Cluster) -> None:
    """A burst, then one in five minutes; other objects have their own."""
    now = [0.0]
    recorder = Recorder(cluster.kube, instance="test", flow=EventFlow(clock=lambda: now[0]))
    for number in range(BURST + 10):
        await recorder.record(target(), Happening("Odd", f"number {number}"))
    assert len(await events(cluster)) == BURST
    await recorder.record(target("other"), WELL)
    now[0] = REFILL
    await recorder.record(target(), WELL)
    await recorder.record(target(), FLAP)
    assert len(await events(cluster)) == BURST + 2


async def test_names_and_namespaces_that_an_api_server_takes(cluster: Cluster) -> None:
    """A cluster-scoped object's Events are in default; a long name is cut where a name may end."""
    recorder = Recorder(cluster.kube, instance="test")
    await recorder.record({**target("cwr", namespace=""), "kind": "ClusterWatchRule"}, WELL)
    (found,) = [e for e in await events(cluster, "default") if e["involvedObject"]["name"] == "cwr"]
    assert "namespace" not in found["involvedObject"]
    long = "a" * 229 + "-" + "b" * 20
    await recorder.record(target(long), WELL)
    (found,) = await events(cluster)
    assert found["involvedObject"]["name"] == long
    assert found["metadata"]["name"].startswith("a" * 229 + ".")


def test_sameness_ends_and_memory_is_bounded() -> None:
    """After ten minutes the same news is news again."""
    now = [0.0]
    flow = EventFlow(clock=lambda: now[0])
    flow.note(("u", "Normal", "OK", "m"), "n", count=1, first="t")
    now[0] = SAME_WITHIN
    assert flow.same(("u", "Normal", "OK", "m")) is not None
    now[0] += 1
    assert flow.same(("u", "Normal", "OK", "m")) is None
    for number in range(5000):
        flow.note((str(number),), "n", count=1, first="t")
        flow.allow(str(number))
    assert flow.same(("4999",)) is not None
    assert len(flow._written) == len(flow._budgets) == 4096
