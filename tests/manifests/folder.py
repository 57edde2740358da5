"""Small folders and objects for the tests of inventory, gate, placement and planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitwriter.manifests import (
    Change,
    Delete,
    Inventory,
    MemoryTree,
    Policy,
    Sweep,
    Upsert,
    WritePlan,
    plan_writes,
)

CLUSTER_SCOPED = {"ClusterRole", "Namespace"}


def text(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """Files given as text, as bytes."""
    return {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}


def scan(files: Mapping[str, str | bytes], **options: Any) -> Inventory:
    """The inventory of a folder."""
    return Inventory.scan(MemoryTree(text(files)), **options)


def manifest(kind: str, name: str, namespace: str | None = None, **fields: Any) -> str:
    """A small manifest as a person might write it."""
    api = {"Deployment": "apps/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}.get(kind, "v1")
    lines = [f"apiVersion: {api}", f"kind: {kind}", "metadata:", f"  name: {name}"]
    if namespace is not None:
        lines.append(f"  namespace: {namespace}")
    for key, value in fields.items():
        lines += [f"{key}:", *(f"  {inner}: {item}" for inner, item in value.items())]
    return "\n".join(lines) + "\n"


def config_map(name: str, namespace: str = "shop", /, **data: str) -> Upsert:
    """An upsert of a ConfigMap."""
    return upsert("ConfigMap", name, namespace, data=dict(data))


_TYPES = {
    "ConfigMap": ("", "v1", "configmaps"),
    "Service": ("", "v1", "services"),
    "Secret": ("", "v1", "secrets"),
    "Deployment": ("apps", "v1", "deployments"),
    "Gizmo": ("lab.test", "v1", "gizmos"),
    "ClusterRole": ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    "HorizontalPodAutoscaler": ("autoscaling", "v2", "horizontalpodautoscalers"),
}


def upsert(kind: str, name: str, namespace: str = "", **content: Any) -> Upsert:
    """An upsert of an object of a kind; names of Upsert's own switches go to it, the rest is the object's
    content.
    """
    group, version, resource = _TYPES[kind]
    options = {
        key: content.pop(key)
        for key in ("sealed", "sensitive", "create", "update", "optional", "unchanged_blob")
        if key in content
    }
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **content.pop("metadata", {}),
    }
    body = {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": kind,
        "metadata": metadata,
        **content,
    }
    return Upsert(
        group,
        version,
        resource,
        kind,
        kind not in CLUSTER_SCOPED,
        namespace,
        name,
        body=None if options.get("sensitive") else body,
        **options,
    )


def sealed_secret(
    name: str, namespace: str = "shop", *, kind: str = "Secret", token: str = "ENC[x]"
) -> Upsert:
    """An upsert of a sensitive object with its encrypted text."""
    api = {"Secret": "v1", "Gizmo": "lab.test/v1"}[kind]
    body = (
        f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
        f"data:\n  k: {token}\nsops:\n  mac: ENC[mac]\n"
    )
    return upsert(kind, name, namespace, sensitive=True, sealed=body.encode())


def delete(kind: str, name: str, namespace: str = "") -> Delete:
    """A deletion."""
    group, _version, resource = _TYPES[kind]
    return Delete(group, resource, kind, kind not in CLUSTER_SCOPED, namespace, name)


def sweep(kind: str, present: Sequence[tuple[str, str]] = (), scope: str | None = None) -> Sweep:
    """The end of a replay."""
    group, _version, resource = _TYPES[kind]
    return Sweep(group, resource, kind, kind not in CLUSTER_SCOPED, scope, frozenset(present))


def plan(
    files: Mapping[str, str | bytes], *changes: Change, policy: Policy | None = None, **options: Any
) -> WritePlan:
    """A plan for a folder."""
    return plan_writes(MemoryTree(text(files)), changes, policy or Policy(), **options)


BOOTSTRAP = {"README.md", ".gittargetignore", ".sops.yaml"}


def written(made: WritePlan) -> dict[str, str | None]:
    """A plan's files as text, without the bootstrap files."""
    return {
        path: data.decode() if data is not None else None
        for path, data in sorted(made.files.items())
        if path not in BOOTSTRAP
    }


def after(files: Mapping[str, str | bytes], made: WritePlan) -> dict[str, bytes]:
    """The folder once a plan is committed."""
    result = {**text(files), **made.files}
    return {path: data for path, data in result.items() if data is not None}


def codes(made: WritePlan) -> list[str]:
    """What became of the changes: the skip code where there is one, else the outcome."""
    return [result.code or result.outcome.value for result in made.results]
