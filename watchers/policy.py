"""Fixed tables of the watch policy: what is never followed, what is noise.

Each is a table and a lookup. A type that is refused here is not observed, so nothing of it is written and
nothing of it is deleted; an object that is noise is neither written nor swept.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

DENIED_REASON = "excluded by GitOps Reverser default watch policy"

DENIED_TYPES = frozenset(
    {
        ("", "pods"),
        ("", "events"),
        ("", "endpoints"),
        ("events.k8s.io", "events"),
        ("discovery.k8s.io", "endpointslices"),
        ("coordination.k8s.io", "leases"),
        ("apps", "controllerrevisions"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    }
)
"""(group, resource) in any version: runtime state that no person writes. Jobs and CronJobs are followed."""

NOISE_CONFIGMAPS = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt"})
NOISE_SECRET_TYPES = frozenset(
    {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"}
)


class Noise(StrEnum):
    """Why an object is left out; a metric label."""

    ROOT_CA = "root_ca"
    SEALED_TYPE = "secret_type"
    OWNED = "owned"


def is_denied(group: str, resource: str) -> bool:
    """Whether the type is excluded by default, in any version."""
    return (group, resource) in DENIED_TYPES


def noise(group: str, kind: str, obj: Mapping[str, Any]) -> Noise | None:
    """Why the filter leaves this object out, or None. Total: odd shapes are not noise."""
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping):
        return None
    if not group and kind == "ConfigMap" and meta.get("name") in NOISE_CONFIGMAPS:
        return Noise.ROOT_CA
    if not group and kind == "Secret" and obj.get("type") in NOISE_SECRET_TYPES:
        return Noise.SEALED_TYPE
    owners = meta.get("ownerReferences")
    if isinstance(owners, list) and any(
        isinstance(owner, Mapping) and owner.get("controller") is True for owner in owners
    ):
        return Noise.OWNED
    return None
