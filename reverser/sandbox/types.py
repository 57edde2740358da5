"""The resource types a Kubernetes 1.36 API server serves before any CustomResourceDefinition is installed.

Discovery, URL routing, Table rendering and the OpenAPI documents are all derived from this one table, so a
type that discovery lists can also be read and written. The order of the rows is the order in which discovery
lists them: clients such as kubectl resolve an ambiguous short name to the first match.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
#: Custom resources list their verbs in another order than built-in types do.
CUSTOM_RESOURCE_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

_CLUSTER = False


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of a Table: `json_path` is relative to the object and starts with a dot."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    format: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A resource as discovery names it; `group` is empty for the core group."""

    group: str
    version: str
    resource: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    preferred: bool = True
    list_kind: str = ""

    @property
    def group_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`deployments.apps`, or `pods` for the core group: the name error messages use."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def storage_version_hash(self) -> str:
        """The opaque hash of discovery: the first 8 bytes of SHA-256 over group/version/kind, base64."""
        digest = hashlib.sha256(f"{self.group}/{self.version}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below a resource; `group`/`version` are set only where the kind is of another group."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


_READ_WRITE = ("get", "patch", "update")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_CONNECT = ("create", "get")

# Subresources whose kind or verbs differ from "the parent's own kind, get/patch/update".
_SPECIAL: dict[tuple[str, str], Subresource] = {
    ("namespaces", "finalize"): Subresource("finalize", "Namespace", ("update",)),
    ("nodes", "proxy"): Subresource("proxy", "NodeProxyOptions", _PROXY_VERBS),
    ("pods", "attach"): Subresource("attach", "PodAttachOptions", _CONNECT),
    ("pods", "binding"): Subresource("binding", "Binding", ("create",)),
    ("pods", "eviction"): Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    ("pods", "exec"): Subresource("exec", "PodExecOptions", _CONNECT),
    ("pods", "log"): Subresource("log", "Pod", ("get",)),
    ("pods", "portforward"): Subresource("portforward", "PodPortForwardOptions", _CONNECT),
    ("pods", "proxy"): Subresource("proxy", "PodProxyOptions", _PROXY_VERBS),
    ("serviceaccounts", "token"): Subresource(
        "token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"
    ),
    ("services", "proxy"): Subresource("proxy", "ServiceProxyOptions", _PROXY_VERBS),
}


def subresources_of(rtype: ResourceType) -> tuple[Subresource, ...]:
    """The subresources of a type in the order discovery lists them.

    Built-in types list them by name; custom resources list `status` before `scale`.
    """
    builtin = (rtype.group, rtype.version, rtype.resource) in _BUILTIN_KEYS
    names = sorted(rtype.subresources, reverse=not builtin)
    found = []
    for name in names:
        special = _SPECIAL.get((rtype.resource, name)) if builtin else None
        if special is not None:
            found.append(special)
        elif name == "scale":
            found.append(Subresource("scale", "Scale", _READ_WRITE, "autoscaling", "v1"))
        else:
            found.append(Subresource(name, rtype.kind, _READ_WRITE))
    return tuple(found)


def _row(
    group: str,
    version: str,
    resource: str,
    kind: str,
    *,
    scope: bool = True,
    verbs: str = "",
    short: str = "",
    categories: str = "",
    subs: str = "",
) -> ResourceType:
    return ResourceType(
        group=group,
        version=version,
        resource=resource,
        singular=kind.lower(),
        kind=kind,
        namespaced=scope,
        verbs=tuple(verbs.split()) or ALL_VERBS,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources=frozenset(subs.split()),
        # The horizontal pod autoscaler is the one built-in type served in two versions.
        preferred=(group, version) != ("autoscaling", "v1"),
        list_kind=f"{kind}List",
    )


BUILTIN_TYPES: tuple[ResourceType, ...] = (
    _row("", "v1", "bindings", "Binding", verbs="create"),
    _row("", "v1", "componentstatuses", "ComponentStatus", scope=_CLUSTER, verbs="get list", short="cs"),
    _row("", "v1", "configmaps", "ConfigMap", short="cm"),
    _row("", "v1", "endpoints", "Endpoints", short="ep"),
    _row("", "v1", "events", "Event", short="ev"),
    _row("", "v1", "limitranges", "LimitRange", short="limits"),
    _row(
        "",
        "v1",
        "namespaces",
        "Namespace",
        scope=_CLUSTER,
        verbs="create delete get list patch update watch",
        short="ns",
        subs="finalize status",
    ),
    _row("", "v1", "nodes", "Node", scope=_CLUSTER, short="no", subs="proxy status"),
    _row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", subs="status"),
    _row("", "v1", "persistentvolumes", "PersistentVolume", scope=_CLUSTER, short="pv", subs="status"),
    _row(
        "",
        "v1",
        "pods",
        "Pod",
        short="po",
        categories="all",
        subs="attach binding ephemeralcontainers eviction exec log portforward proxy resize status",
    ),
    _row("", "v1", "podtemplates", "PodTemplate"),
    _row(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short="rc",
        categories="all",
        subs="scale status",
    ),
    _row("", "v1", "resourcequotas", "ResourceQuota", short="quota", subs="status"),
    _row("", "v1", "secrets", "Secret"),
    _row("", "v1", "serviceaccounts", "ServiceAccount", short="sa", subs="token"),
    _row("", "v1", "services", "Service", short="svc", categories="all", subs="proxy status"),
    _row(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        scope=_CLUSTER,
        categories="api-extensions",
        subs="status",
    ),
    _row("apps", "v1", "controllerrevisions", "ControllerRevision"),
    _row("apps", "v1", "daemonsets", "DaemonSet", short="ds", categories="all", subs="status"),
    _row("apps", "v1", "deployments", "Deployment", short="deploy", categories="all", subs="scale status"),
    _row("apps", "v1", "replicasets", "ReplicaSet", short="rs", categories="all", subs="scale status"),
    _row("apps", "v1", "statefulsets", "StatefulSet", short="sts", categories="all", subs="scale status"),
    _row("events.k8s.io", "v1", "events", "Event", short="ev"),
    _row(
        "authentication.k8s.io",
        "v1",
        "selfsubjectreviews",
        "SelfSubjectReview",
        scope=_CLUSTER,
        verbs="create",
    ),
    _row("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", scope=_CLUSTER, verbs="create"),
    _row(
        "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs="create"
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        scope=_CLUSTER,
        verbs="create",
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        scope=_CLUSTER,
        verbs="create",
    ),
    _row(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        scope=_CLUSTER,
        verbs="create",
    ),
    _row(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short="hpa",
        categories="all",
        subs="status",
    ),
    _row(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short="hpa",
        categories="all",
        subs="status",
    ),
    _row("batch", "v1", "cronjobs", "CronJob", short="cj", categories="all", subs="status"),
    _row("batch", "v1", "jobs", "Job", categories="all", subs="status"),
    _row(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        scope=_CLUSTER,
        short="csr",
        subs="approval status",
    ),
    _row("networking.k8s.io", "v1", "ingressclasses", "IngressClass", scope=_CLUSTER),
    _row("networking.k8s.io", "v1", "ingresses", "Ingress", short="ing", subs="status"),
    _row("networking.k8s.io", "v1", "ipaddresses", "IPAddress", scope=_CLUSTER, short="ip"),
    _row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short="netpol"),
    _row("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", scope=_CLUSTER, subs="status"),
    _row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short="pdb", subs="status"),
    _row("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", scope=_CLUSTER),
    _row("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", scope=_CLUSTER),
    _row("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    _row("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    _row("storage.k8s.io", "v1", "csidrivers", "CSIDriver", scope=_CLUSTER),
    _row("storage.k8s.io", "v1", "csinodes", "CSINode", scope=_CLUSTER),
    _row("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity"),
    _row("storage.k8s.io", "v1", "storageclasses", "StorageClass", scope=_CLUSTER, short="sc"),
    _row("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", scope=_CLUSTER, subs="status"),
    _row(
        "storage.k8s.io",
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        scope=_CLUSTER,
        short="vac",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        scope=_CLUSTER,
        categories="api-extensions",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        scope=_CLUSTER,
        categories="api-extensions",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        scope=_CLUSTER,
        categories="api-extensions",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        scope=_CLUSTER,
        categories="api-extensions",
        subs="status",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        scope=_CLUSTER,
        categories="api-extensions",
    ),
    _row(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        scope=_CLUSTER,
        categories="api-extensions",
    ),
    _row(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        scope=_CLUSTER,
        short="crd crds",
        categories="api-extensions",
        subs="status",
    ),
    _row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", scope=_CLUSTER, short="pc"),
    _row("coordination.k8s.io", "v1", "leases", "Lease"),
    _row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", scope=_CLUSTER),
    _row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    _row("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", scope=_CLUSTER),
    _row("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subs="status"),
    _row("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _row("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", scope=_CLUSTER),
    _row("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", scope=_CLUSTER, subs="status"),
    _row(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        scope=_CLUSTER,
        subs="status",
    ),
)

_BUILTIN_KEYS = frozenset((t.group, t.version, t.resource) for t in BUILTIN_TYPES)


def group_versions(types: Iterable[ResourceType]) -> dict[str, list[str]]:
    """Group name to its versions, both in the order discovery lists them."""
    found: dict[str, list[str]] = {}
    for rtype in types:
        versions = found.setdefault(rtype.group, [])
        if rtype.version not in versions:
            versions.append(rtype.version)
    return found
