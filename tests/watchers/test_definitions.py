"""What is known of custom types follows their definitions, while watches stay open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reverser.kube.paths import resource_path
from reverser.store.model import EventEntry, TypeRef
from watchers.catalog import Catalog
from watchers.defaults import schema_tables
from watchers.registry import Verdict
from watchers.timing import Timing

from .conftest import CRD_PATH, FAST, Bench, Cluster, eventually

GIZMOS = resource_path("gizmos.k8s.io", "v1", "gizmos", namespace="shop")


def definition(**fields: Any) -> dict[str, Any]:
    """A CRD of a group that ends like Kubernetes' own."""
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "gizmos.gizmos.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "gizmos.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def test_a_definition_is_the_evidence_for_a_custom_type() -> None:
    """B15: a group that ends in k8s.io is no proof of a built-in type; a definition that goes takes its
    defaults along.
    """
    catalog = Catalog(None, timing=Timing(), on_change=lambda: None)  # type: ignore[arg-type]
    gizmo = TypeRef("gizmos.k8s.io", "v1", "gizmos", "Gizmo", True)
    ingress = TypeRef("networking.k8s.io", "v1", "ingresses", "Ingress", True)
    assert catalog.defaults(gizmo) is None
    catalog.definition_changed(
        "gizmos.gizmos.k8s.io", schema_tables(definition(mode={"type": "string", "default": "fast"}))
    )
    assert catalog.defaults(gizmo)
    assert catalog.defaults(ingress)
    catalog.definition_changed("gizmos.gizmos.k8s.io", None)
    assert catalog.defaults(gizmo) is None


async def test_a_type_that_comes_back_is_watched_at_once(bench: Bench, cluster: Cluster) -> None:
    """Pain 71, C13: while a type is not served its watch is shown as blocked, in words that say what will
    become of it; once it is served again nobody waits for the end of a pause.
    """
    timing = replace(FAST)
    cluster.kube.create(CRD_PATH, definition(size={"type": "integer"}))
    uid = cluster.target()
    cluster.rule("wr", "gt", [{"apiGroups": ["gizmos.k8s.io"], "resources": ["gizmos"]}])
    await bench.open(uid)
    watcher = await bench.start(timing=timing)
    await bench.streaming(uid, 1)
    for name in ("retry_first", "retry_max"):
        object.__setattr__(timing, name, 600.0)
    path = f"{CRD_PATH}/gizmos.gizmos.k8s.io"
    spec = definition(size={"type": "integer"})["spec"]
    versions = spec["versions"]
    spare = {**versions[0], "name": "v2", "storage": True}
    hidden = [{**versions[0], "served": False, "storage": False}, spare]
    cluster.kube.patch(path, {"spec": {"versions": hidden}})

    async def blocked() -> bool:
        records = (await bench.store.read_streams(uid)).values()
        return any("not served" in record.message for record in records)

    async def missed() -> bool:
        records = watcher.runtime.registry.by_resource["gizmos"]
        return any(record.verdict is Verdict.RETAINED for record in records)

    await eventually(blocked, "the watch is blocked")
    await eventually(missed, "discovery saw it, too")
    cluster.kube.patch(path, {"spec": {"versions": versions}})
    await bench.streaming(uid, 1)


async def test_a_changed_schema_counts_at_once(bench: Bench, cluster: Cluster) -> None:
    """Pain 45: a default that a definition gets while its type is watched is known for the next change."""
    size, mode = {"type": "integer"}, {"type": "string", "default": "fast"}
    cluster.kube.create(CRD_PATH, definition(size=size))
    uid = cluster.target()
    cluster.rule("wr", "gt", [{"apiGroups": ["gizmos.k8s.io"], "resources": ["gizmos"]}])
    await bench.open(uid)
    watcher = await bench.start()
    await bench.streaming(uid, 1)
    changed = definition(size=size, mode=mode)["spec"]
    cluster.kube.patch(f"{CRD_PATH}/gizmos.gizmos.k8s.io", {"spec": changed})
    kind = TypeRef("gizmos.k8s.io", "v1", "gizmos", "Gizmo", True)

    async def known() -> bool:
        return watcher.runtime.catalog.defaults(kind) is not None

    await eventually(known, "the new default is known")
    body = {"apiVersion": "gizmos.k8s.io/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "spec": {"size": 1}}
    cluster.kube.create(GIZMOS, body)
    found: list[EventEntry] = []

    async def arrived() -> bool:
        found[:] = await bench.journal().events("g")
        return bool(found)

    await eventually(arrived, "the object is in the journal")
    assert found[0].optional == ("/spec/mode",)
