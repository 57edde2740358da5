"""How a document and a live object are recognised as the same thing.

Matching ignores the version: a file that says autoscaling/v1 and an object served as autoscaling/v2 are
one object, so a version change is an edit of one line and never a second file.
"""

from __future__ import annotations

from typing import NamedTuple

CLUSTER_SEGMENT = "_cluster"

_CLUSTER_SCOPED = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IPAddress"),
        ("networking.k8s.io", "IngressClass"),
        ("networking.k8s.io", "ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodSecurityPolicy"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
    }
)


class NameKey(NamedTuple):
    """What the index is keyed by: everything of an identity but the namespace, which kustomize may supply."""

    group: str
    kind: str
    name: str


class ObjectKey(NamedTuple):
    """One live object, whatever version it is served in; `namespace` is empty for cluster-scoped kinds."""

    group: str
    kind: str
    namespace: str
    name: str


def split_api_version(api_version: str) -> tuple[str, str]:
    """(group, version) of an `apiVersion`; the core group is the empty string."""
    group, slash, version = api_version.rpartition("/")
    return (group, version) if slash else ("", api_version)


def join_api_version(group: str, version: str) -> str:
    """The `apiVersion` text of a group and a version."""
    return f"{group}/{version}" if group else version


def is_known_cluster_scoped(group: str, kind: str) -> bool:
    """True for the built-in kinds that never have a namespace; kinds that we do not know count as
    namespaced.
    """
    return (group, kind) in _CLUSTER_SCOPED


def describe(api_version: str, kind: str, namespace: str, name: str) -> str:
    """An identity as people read it in messages: `apps/v1/Deployment/default/web`."""
    return f"{api_version}/{kind}/{namespace or CLUSTER_SEGMENT}/{name}"


def placement_sort_key(group: str, version: str, resource: str, namespace: str, name: str) -> str:
    """The order of new documents in one file: `group/version/resource/namespace/name`."""
    parts = [group, version, resource, *([namespace] if namespace else []), name]
    return "/".join(parts)
