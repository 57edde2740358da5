"""What a server must have beside an API server for a scenario to mean anything, and whether it has it.

Garbage collection is a controller's work and an aggregated API is another server, so neither is there
everywhere. A scenario that needs one is left out where it is missing, and the recording says so.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from reverser.errors import KubeNotFound, ReverserError
from reverser.kube.paths import core_path, resource_path
from reverser.kube.sync import Kube

COLLECTED_WITHIN = 20.0
_SERVICES = resource_path("apiregistration.k8s.io", "v1", "apiservices")
Obj = dict[str, Any]


class Capability(StrEnum):
    """What a scenario may need."""

    GARBAGE_COLLECTION = "garbage-collection"
    AGGREGATED_API = "aggregated-api"


@dataclass(frozen=True, slots=True)
class Type:
    """What a scenario works on."""

    group: str
    version: str
    resource: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server has; ``aggregated`` is a namespaced type of an aggregated API that takes bare objects."""

    garbage_collection: bool = False
    aggregated: Type | None = None

    def has(self, wanted: Capability | None) -> bool:
        """Whether a scenario with this need can run."""
        if wanted is Capability.GARBAGE_COLLECTION:
            return self.garbage_collection
        return wanted is None or self.aggregated is not None


def probe(kube: Kube, *, within: float = COLLECTED_WITHIN) -> Capabilities:
    """Find out, in a namespace of its own. ``within``: seconds that a garbage collector is waited for."""
    namespace = f"lab-probe-{uuid.uuid4().hex[:6]}"
    kube.create(core_path("namespaces"), {"metadata": {"name": namespace}})
    try:
        return Capabilities(_collects(kube, namespace, within), _aggregated(kube, namespace))
    finally:
        with contextlib.suppress(ReverserError):
            kube.delete(core_path("namespaces", name=namespace))


def _collects(kube: Kube, namespace: str, within: float) -> bool:
    """Whether an object whose owner never existed is deleted."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": str(uuid.uuid4())}
    path = core_path("configmaps", namespace=namespace)
    kube.create(path, {"metadata": {"name": "child", "ownerReferences": [owner]}})
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            kube.get(f"{path}/child")
        except KubeNotFound:
            return True
        time.sleep(0.2)
    return False


def _aggregated(kube: Kube, namespace: str) -> Type | None:
    for candidate in _candidates(kube):
        path = resource_path(candidate.group, candidate.version, candidate.resource, namespace=namespace)
        body = {"apiVersion": candidate.api_version, "kind": candidate.kind, "metadata": {"name": "a"}}
        with contextlib.suppress(ReverserError):
            kube.raw("POST", path, query={"dryRun": "All"}, body=body)
            return candidate
    return None


def _candidates(kube: Kube) -> Iterator[Type]:
    """Types of aggregated APIs that are up, namespaced, and can be created and watched."""
    with contextlib.suppress(ReverserError):
        for service in kube.list(_SERVICES).items:
            spec = service.get("spec") or {}
            if spec.get("service") and _is_up(service):
                yield from _types(kube, str(spec.get("group")), str(spec.get("version")))


def _is_up(service: Obj) -> bool:
    conditions = (service.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Available" and item.get("status") == "True" for item in conditions)


def _types(kube: Kube, group: str, version: str) -> Iterator[Type]:
    with contextlib.suppress(ReverserError):
        found: Obj = orjson.loads(kube.raw("GET", f"/apis/{group}/{version}"))
        for entry in found.get("resources") or []:
            verbs = set(entry.get("verbs") or ())
            if (
                entry.get("namespaced")
                and {"create", "watch", "delete"} <= verbs
                and "/" not in entry["name"]
            ):
                yield Type(group, version, entry["name"], entry["kind"])
