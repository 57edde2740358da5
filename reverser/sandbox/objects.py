"""What a server does to an object's metadata before it stores it: names, uids, times, generation, key
order.
"""

import datetime
import random
import uuid
from typing import Any

from reverser.sandbox.registry import Resource
from reverser.sandbox.structural import METADATA_ORDER

Obj = dict[str, Any]

#: The alphabet of generated names: no vowels, nothing that looks like something else.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_BASE = 58
_random = random.SystemRandom()

#: Built-in kinds whose spec changes are counted in `metadata.generation`.
_COUNTED = frozenset(
    {
        "CSIDriver", "CronJob", "CustomResourceDefinition", "DaemonSet", "Deployment", "EndpointSlice",
        "FlowSchema", "Ingress", "IngressClass", "Job", "MutatingWebhookConfiguration", "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget", "PriorityClass", "PriorityLevelConfiguration", "ReplicaSet",
        "ReplicationController", "StatefulSet", "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration",
    }
)  # fmt: skip

#: Built-in kinds whose update must name the version it replaces.
_CONDITIONAL = frozenset({"CustomResourceDefinition", "APIService", "Lease"})


def now() -> str:
    """The current time as Kubernetes writes it: UTC, whole seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_uid() -> str:
    """A fresh object uid."""
    return str(uuid.uuid4())


def generated_name(base: str) -> str:
    """The name that `generateName` asks for: the base, cut to leave room, and five random letters."""
    return base[:_MAX_GENERATED_BASE] + "".join(_random.choices(_ALPHABET, k=5))


def counts_generation(resource: Resource) -> bool:
    """Whether the kind has `metadata.generation`."""
    return resource.crd is not None or resource.rtype.kind in _COUNTED


def must_name_version(resource: Resource) -> bool:
    """Whether an update without resourceVersion is refused."""
    return resource.crd is not None or resource.rtype.kind in _CONDITIONAL


def spec_changed(resource: Resource, old: Obj, new: Obj) -> bool:
    """Whether a write changes what `generation` counts: all but metadata, and status if it is apart."""
    ignored = (
        {"metadata", "status", "apiVersion"} if resource.has_status or resource.crd is None else {"metadata"}
    )
    keys = (old.keys() | new.keys()) - ignored
    return any(old.get(key) != new.get(key) for key in keys)


def ordered(resource: Resource, obj: Obj) -> Obj:
    """The object with keys in the order a server sends them: typed for built-ins, by name for custom
    resources.
    """
    if resource.crd is not None:
        return sorted_keys(obj)  # type: ignore[no-any-return]
    metadata = ordered_metadata(obj["metadata"])
    head = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata}
    return head | obj | {"metadata": metadata}


def ordered_metadata(metadata: Obj) -> Obj:
    """Metadata with its keys in the order of the Go type."""
    return {key: metadata[key] for key in METADATA_ORDER if key in metadata} | metadata


def sorted_keys(value: Any) -> Any:
    """Maps sorted by key at every depth."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_keys(item) for item in value]
    return value


def nested(obj: Any, path: tuple[str, ...]) -> Any:
    """The value at a key path, or None."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def with_nested(obj: Obj, path: tuple[str, ...], value: Any) -> Obj:
    """A copy of `obj` with the value at a key path set; what is beside the path is shared."""
    head, rest = path[0], path[1:]
    if not rest:
        return obj | {head: value}
    child = obj.get(head)
    return obj | {head: with_nested(child if isinstance(child, dict) else {}, rest, value)}
