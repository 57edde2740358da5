"""What every cluster holds from the first moment: system namespaces, default roles and bindings, two
ConfigMaps.
"""

from typing import Any

from reverser.sandbox import managed, objects
from reverser.sandbox.authn import MASTERS
from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.mergekeys import merge_schema
from reverser.sandbox.rbac import GROUP
from reverser.sandbox.registry import Registry
from reverser.sandbox.storage import Storage

Obj = dict[str, Any]

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

_VISIBLE = [
    {
        "apiGroups": [""],
        "resources": [
            "configmaps", "endpoints", "events", "limitranges", "namespaces", "persistentvolumeclaims",
            "pods",
            "pods/log", "pods/status", "replicationcontrollers", "replicationcontrollers/scale",
            "resourcequotas", "serviceaccounts", "services", "services/status",
        ],
        "verbs": _READ,
    },
    {
        "apiGroups": ["apps", "autoscaling", "batch", "networking.k8s.io", "policy", "discovery.k8s.io"],
        "resources": ["*"],
        "verbs": _READ,
    },
]  # fmt: skip
_EDITABLE = [
    {
        "apiGroups": [""],
        "resources": [
            "configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "replicationcontrollers",
            "replicationcontrollers/scale", "secrets", "serviceaccounts", "services",
        ],
        "verbs": _WRITE,
    },
    {"apiGroups": [""], "resources": ["secrets"], "verbs": _READ},
    {
        "apiGroups": ["apps", "autoscaling", "batch", "networking.k8s.io", "policy"],
        "resources": ["*"],
        "verbs": _WRITE,
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, *_WRITE]},
]  # fmt: skip
_ADMIN = [{"apiGroups": [GROUP], "resources": ["rolebindings", "roles"], "verbs": [*_READ, *_WRITE]}]
_PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC]

_ROLES: dict[str, list[Obj]] = {
    "cluster-admin": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "view": _VISIBLE,
    "edit": [*_VISIBLE, *_EDITABLE],
    "admin": [*_VISIBLE, *_EDITABLE, *_ADMIN],
    "system:discovery": [{"nonResourceURLs": _DISCOVERY, "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": _PUBLIC, "verbs": ["get"]}],
    "system:basic-user": [
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            "verbs": ["create"],
        },
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ],
}
_BINDINGS = {
    "cluster-admin": [MASTERS],
    "system:discovery": ["system:authenticated"],
    "system:basic-user": ["system:authenticated"],
    "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
}


def seed(storage: Storage, registry: Registry, *, ca: bytes) -> None:
    """Create what is missing; nothing that exists is touched."""
    for name in ("kube-system", "kube-public", "default", "kube-node-lease"):
        _create(storage, registry, ("", "namespaces", ""), {"metadata": {"name": name}})
    for name, rules in _ROLES.items():
        metadata = {"name": name, "labels": _BOOTSTRAP, "annotations": _AUTOUPDATE}
        _create(storage, registry, (GROUP, "clusterroles", ""), {"metadata": metadata, "rules": rules})
    for name, groups in _BINDINGS.items():
        metadata = {"name": name, "labels": _BOOTSTRAP, "annotations": _AUTOUPDATE}
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
        role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        body = {"metadata": metadata, "subjects": subjects, "roleRef": role}
        _create(storage, registry, (GROUP, "clusterrolebindings", ""), body)
    authentication = {
        "metadata": {"name": "extension-apiserver-authentication"},
        "data": {"client-ca-file": ca.decode()},
    }
    _create(storage, registry, ("", "configmaps", "kube-system"), authentication)
    legacy = {
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": objects.now()[:10]},
    }
    _create(storage, registry, ("", "configmaps", "kube-system"), legacy)


def _create(storage: Storage, registry: Registry, place: tuple[str, str, str], body: Obj) -> None:
    group, resource, namespace = place
    found = registry.find(group, "v1", resource)
    name = body["metadata"]["name"]
    if found is None or storage.get((group, resource), namespace, name) is not None:
        return
    rtype = found.rtype
    metadata = body["metadata"] | {"uid": objects.new_uid(), "creationTimestamp": objects.now()}
    if namespace:
        metadata["namespace"] = namespace
    obj = body | {"kind": rtype.kind, "apiVersion": rtype.group_version, "metadata": metadata}
    obj = apply_defaults(group, "v1", rtype.kind, obj)
    obj["metadata"]["managedFields"] = managed.track(
        None,
        obj,
        manager="kube-apiserver",
        api_version=rtype.group_version,
        subresource="",
        time=metadata["creationTimestamp"],
        schema=merge_schema(group, rtype.kind),
    )
    storage.put((group, resource), namespace, name, objects.ordered(found, obj))
