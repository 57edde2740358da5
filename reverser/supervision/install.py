"""Apply deploy/crds to a cluster and make sure that the command namespace exists."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from reverser.errors import KubeConflict, KubeNotFound, KubeUnavailable
from reverser.kube.paths import core_path, resource_path
from reverser.kube.requests import Patch
from reverser.kube.sync import Kube

CRD_DIR = Path(__file__).resolve().parent.parent.parent / "deploy" / "crds"
FIELD_MANAGER = "gitops-reverser-install"
ESTABLISHED_SECONDS = 30.0


def crd_manifests() -> list[dict[str, Any]]:
    """The five custom resource definitions, as shipped."""
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(CRD_DIR.glob("*.yaml"))]


def _crd_path(name: str) -> str:
    return resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions", name=name)


def install_crds(kube: Kube) -> list[str]:
    """Server-side apply each definition and wait until it is served; returns their names.

    Raises KubeUnavailable when a definition is not established in time, and the error tree's class
    for every refusal of the API server.
    """
    names = []
    for manifest in crd_manifests():
        name = manifest["metadata"]["name"]
        kube.patch(
            _crd_path(name),
            manifest,
            kind=Patch.APPLY,
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
        )
        names.append(name)
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    for name in names:
        while not _established(kube.get(_crd_path(name))):
            if time.monotonic() > deadline:
                raise KubeUnavailable(
                    f"the definition {name} is not established after {ESTABLISHED_SECONDS:.0f} s"
                )
            time.sleep(0.1)
    return names


def _established(crd: dict[str, Any]) -> bool:
    # A definition that was made this moment has null for its conditions.
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)


def ensure_namespace(kube: Kube, name: str) -> bool:
    """Create a namespace where it is missing; true if it was created."""
    try:
        kube.get(core_path("namespaces", name=name))
        return False
    except KubeNotFound:
        pass
    try:
        kube.create(
            core_path("namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    except KubeConflict:
        return False
    return True
