"""What is watched changes: definitions that come and go, rules that narrow, operations, noise."""

from __future__ import annotations

import asyncio
from typing import Any

import yaml

from reverser.kube.paths import core_path, own_path, resource_path
from reverser.store.model import Operation, Scope

from .conftest import CRD_PATH, Bench, Cluster, eventually
from .test_faults import CM, begin, running


def gizmo(scope: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return yaml.safe_load(
        yaml.safe_dump(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "gizmos.lab.test"},
                "spec": {
                    "group": "lab.test",
                    "scope": scope,
                    "names": {
                        "plural": "gizmos",
                        "singular": "gizmo",
                        "kind": "Gizmo",
                        "listKind": "GizmoList",
                    },
                    "versions": [
                        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                    ],
                },
            }
        )
    )


async def test_a_definition_that_comes_after_the_rule(bench: Bench, cluster: Cluster) -> None:
    """C11: the shard opens on the trigger, its objects arrive, the other stream is not restarted."""
    rules = [{"apiGroups": ["lab.test"], "resources": ["gizmos"]}, *CM]
    uid = await begin(bench, cluster, rules)
    await bench.start()
    await bench.streaming(uid, 1)
    cluster.kube.create(CRD_PATH, gizmo("Namespaced"))

    async def served() -> bool:
        body = {"apiVersion": "lab.test/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "spec": {"size": 1}}
        try:
            cluster.kube.create(resource_path("lab.test", "v1", "gizmos", namespace="shop"), body)
        except Exception:
            return False
        return True

    await eventually(served, "the definition is served")
    await bench.streaming(uid, 2)

    async def there() -> bool:
        tree = (await bench.journal().tree()).get(uid, {})
        return ("lab.test/gizmos", "shop", "g") in tree

    await eventually(there, "the gizmo is in the journal")
    records = await bench.store.read_streams(uid)
    assert all(record.restarts == 0 for record in records.values())
    cluster.kube.delete(f"{CRD_PATH}/gizmos.lab.test")
    cluster.create("still", v="1")

    async def still() -> bool:
        return ("configmaps", "shop", "still") in (await bench.journal().tree())[uid]

    await eventually(still, "the other type goes on")


async def test_a_definition_that_comes_back_with_another_scope(bench: Bench, cluster: Cluster) -> None:
    """A type that is cluster-scoped all of a sudden is no longer a WatchRule's: its shard closes, nothing
    is deleted.
    """
    cluster.kube.create(CRD_PATH, gizmo("Namespaced"))
    uid = await begin(bench, cluster, [{"apiGroups": ["lab.test"], "resources": ["gizmos"]}, *CM])
    await bench.start()
    await bench.streaming(uid, 2)
    cluster.kube.delete(f"{CRD_PATH}/gizmos.lab.test")

    def again() -> None:
        cluster.kube.create(CRD_PATH, gizmo("Cluster"))

    async def made() -> bool:
        try:
            await asyncio.to_thread(again)
        except Exception:
            return False
        return True

    await eventually(made, "the definition is back")
    await bench.streaming(uid, 1)
    cluster.create("still", v="1")
    await bench.mirrored(uid)


async def test_narrowed_rules_stop_only_their_shards(bench: Bench, cluster: Cluster) -> None:
    """C25, A21: removing a type stops its shard alone; removing the last rule stops every shard."""
    rules = [{"resources": ["configmaps", "services"]}]
    uid = await begin(bench, cluster, rules)
    await bench.start()
    await bench.streaming(uid, 2)
    scope = Scope(uid, "configmaps", "shop")
    before = await bench.store.read_cursor(scope)
    path = own_path("watchrules", namespace="shop", name="wr")
    cluster.kube.patch(path, {"spec": {"rules": CM}})
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    await bench.mirrored(uid)
    assert len(await bench.journal().events("a")) == 1
    after = await bench.store.read_cursor(scope)
    assert before is not None
    assert after is not None
    assert after.append_id.session == before.append_id.session, "the other shard is the same one"
    cluster.kube.delete(path)
    await bench.streaming(uid, 0)


async def test_operations_filter(bench: Bench, cluster: Cluster) -> None:
    """C20, A16: only CREATE is appended; the cursor passes what was filtered; the sweep carries the
    operations.
    """
    uid = await begin(bench, cluster, [{"resources": ["configmaps"], "operations": ["CREATE"]}])
    await bench.start()
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    cluster.patch("a", {"data": {"v": "2"}})
    deleted = cluster.patch("a", {"metadata": {"labels": {"x": "y"}}})
    cluster.delete("a")
    scope = next(iter(await bench.store.read_streams(uid)))

    async def passed() -> bool:
        cursor = await bench.store.read_cursor(scope)
        version = deleted["metadata"]["resourceVersion"]
        return cursor is not None and int(cursor.resource_version) > int(version)

    await eventually(passed, "the cursor passes the delete")
    assert [str(event.operation) for event in await bench.journal().events()] == ["CREATE"]
    assert [set(map(str, s.operations)) for s in await bench.journal().sweeps()] == [{"CREATE"}]


async def test_a_replay_carries_the_operations_of_named_namespaces(bench: Bench, cluster: Cluster) -> None:
    """B18, C21: a cluster-wide stream that may only create, and the rule of one namespace that may delete
    there: the sweep says both, so that the writer can judge object by object.
    """
    uid = cluster.target()
    everywhere = {"scope": "Namespaced", "resources": ["configmaps"], "operations": ["CREATE"]}
    cluster.cluster_rule("cwr", "gt", [everywhere])
    cluster.rule("wr", "gt", [{"resources": ["configmaps"], "operations": ["DELETE"]}])
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    (sweep,) = await bench.journal().sweeps()
    assert sweep.operations_for("depot") == {Operation.CREATE}
    assert sweep.operations_for("shop") == {Operation.CREATE, Operation.DELETE}


async def test_metadata_and_status_churn_is_silent(bench: Bench, cluster: Cluster) -> None:
    """D13, A14: changes of stripped fields move the cursor and append nothing."""
    uid = await running(bench, cluster)
    churn = [
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}},
        {"metadata": {"finalizers": ["x.io/a"]}},
        {"metadata": {"finalizers": None}},
        {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}},
    ]
    for patch in churn:
        cluster.patch("a", patch)
    cluster.create("end", v="1")
    await bench.mirrored(uid)
    assert await bench.journal().events("a") == []


async def test_noise_is_neither_written_nor_swept(bench: Bench, cluster: Cluster) -> None:
    """B20: root CA bundles and owned objects take part in a sweep as present only."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": True}
    cluster.create("kube-root-ca.crt", ca="x")
    body = {"metadata": {"name": "owned", "ownerReferences": [owner]}}
    cluster.kube.create(core_path("configmaps", namespace="shop"), body)
    uid = await begin(bench, cluster)
    await bench.start()
    await bench.streaming(uid, 1)
    cluster.patch("owned", {"data": {"v": "1"}})
    cluster.create("end", v="1")

    async def ended() -> bool:
        return bool(await bench.journal().events("end"))

    await eventually(ended, "the last event")
    assert [event.object.name for event in await bench.journal().events()] == ["end"]
    sweep = (await bench.journal().sweeps())[0]
    staged = await bench.store.read_staging(bench.branch, sweep.replay_id) or []
    assert {(item.name, str(item.presence), item.body) for item in staged} == {
        ("kube-root-ca.crt", "present", b""),
        ("owned", "present", b""),
    }
