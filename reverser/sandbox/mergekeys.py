"""How lists and maps of the built-in types merge: the `patchMergeKey` facts of the Kubernetes API types.

One tree of facts serves strategic merge patch, server-side apply and the OpenAPI documents, so the three
cannot disagree. A path that is not named here merges as the default does: maps by key, lists replaced as a
whole.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType


class ListStrategy(enum.Enum):
    """ATOMIC lists are replaced, SET lists united, MAP lists merged by key."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class MergeNode:
    """The merge behaviour of one field.

    `merge_key` is what strategic merge compares; `keys` is the complete identity that server-side apply uses
    (a container port is merged by `containerPort`, but owned by port and protocol). `key_defaults` fills in
    keys that a client may leave out.
    """

    strategy: ListStrategy = ListStrategy.ATOMIC
    merge_key: str = ""
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    replace_map: bool = False
    retain_keys: bool = False
    children: Mapping[str, "MergeNode"] = field(default_factory=lambda: MappingProxyType({}))

    def child(self, name: str) -> "MergeNode":
        """The behaviour of the field `name` of this map (or of this list's items)."""
        return self.children.get(name, PLAIN)

    def item(self) -> "MergeNode":
        """The behaviour of one item of a MAP list, seen as a map."""
        return MergeNode(children=self.children)


PLAIN = MergeNode()


def _map(**children: MergeNode) -> MergeNode:
    return MergeNode(children=MappingProxyType(children))


def _list(
    merge_key: str,
    *more_keys: str,
    defaults: Mapping[str, str] | None = None,
    children: Mapping[str, MergeNode] | None = None,
) -> MergeNode:
    return MergeNode(
        strategy=ListStrategy.MAP,
        merge_key=merge_key,
        keys=(merge_key, *more_keys),
        key_defaults=MappingProxyType(dict(defaults or {})),
        children=MappingProxyType(dict(children or {})),
    )


_SET = MergeNode(strategy=ListStrategy.SET)
_RETAIN = MergeNode(retain_keys=True)
_PROTOCOL = {"protocol": "TCP"}

_METADATA = _map(finalizers=_SET, ownerReferences=_list("uid"))
_CONDITIONS = _list("type")

_CONTAINER = {
    "env": _list("name"),
    "ports": _list("containerPort", "protocol", defaults=_PROTOCOL),
    "volumeMounts": _list("mountPath"),
    "volumeDevices": _list("devicePath"),
    "resources": _map(claims=_list("name")),
}

_POD_SPEC = _map(
    containers=_list("name", children=_CONTAINER),
    initContainers=_list("name", children=_CONTAINER),
    ephemeralContainers=_list("name", children=_CONTAINER),
    volumes=MergeNode(
        strategy=ListStrategy.MAP,
        merge_key="name",
        keys=("name",),
        retain_keys=True,
        children=MappingProxyType({}),
    ),
    imagePullSecrets=_list("name"),
    hostAliases=_list("ip"),
    topologySpreadConstraints=_list("topologyKey", "whenUnsatisfiable"),
    resourceClaims=_list("name"),
    schedulingGates=_list("name"),
)

_POD_TEMPLATE = _map(metadata=_METADATA, spec=_POD_SPEC)
_JOB_SPEC = _map(template=_POD_TEMPLATE)
_WEBHOOKS = _list("name", children={"matchConditions": _list("name")})
_POLICY_SPEC = _map(matchConditions=_list("name"), variables=_list("name"))


_KINDS: dict[tuple[str, str], dict[str, MergeNode]] = {
    ("", "Pod"): {"spec": _POD_SPEC, "status": _map(conditions=_CONDITIONS, podIPs=_list("ip"))},
    ("", "PodTemplate"): {"template": _POD_TEMPLATE},
    ("", "ReplicationController"): {
        "spec": _map(template=_POD_TEMPLATE),
        "status": _map(conditions=_CONDITIONS),
    },
    ("", "Service"): {
        "spec": _map(ports=_list("port", "protocol", defaults=_PROTOCOL)),
        "status": _map(conditions=_CONDITIONS),
    },
    ("", "ServiceAccount"): {"secrets": _list("name")},
    ("", "Node"): {
        "spec": _map(podCIDRs=_SET),
        "status": _map(conditions=_CONDITIONS, addresses=_list("type")),
    },
    ("", "Namespace"): {"status": _map(conditions=_CONDITIONS)},
    ("", "PersistentVolumeClaim"): {"status": _map(conditions=_CONDITIONS)},
    ("", "PersistentVolume"): {
        "spec": MergeNode(children=MappingProxyType({"claimRef": PLAIN})),
    },
    ("apps", "Deployment"): {
        "spec": _map(template=_POD_TEMPLATE, strategy=_RETAIN),
        "status": _map(conditions=_CONDITIONS),
    },
    ("apps", "ReplicaSet"): {
        "spec": _map(template=_POD_TEMPLATE),
        "status": _map(conditions=_CONDITIONS),
    },
    ("apps", "StatefulSet"): {
        "spec": _map(template=_POD_TEMPLATE),
        "status": _map(conditions=_CONDITIONS),
    },
    ("apps", "DaemonSet"): {
        "spec": _map(template=_POD_TEMPLATE),
        "status": _map(conditions=_CONDITIONS),
    },
    ("batch", "Job"): {"spec": _JOB_SPEC, "status": _map(conditions=_CONDITIONS)},
    ("batch", "CronJob"): {"spec": _map(jobTemplate=_map(metadata=_METADATA, spec=_JOB_SPEC))},
    ("autoscaling", "HorizontalPodAutoscaler"): {"status": _map(conditions=_CONDITIONS)},
    ("policy", "PodDisruptionBudget"): {
        "spec": _map(selector=MergeNode(replace_map=True)),
        "status": _map(conditions=_CONDITIONS),
    },
    ("storage.k8s.io", "CSINode"): {"spec": _map(drivers=_list("name"))},
    ("apiregistration.k8s.io", "APIService"): {"status": _map(conditions=_CONDITIONS)},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": _WEBHOOKS},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {"spec": _POLICY_SPEC},
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): {"spec": _POLICY_SPEC},
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): {"status": _map(conditions=_CONDITIONS)},
}


@cache
def merge_schema(group: str, kind: str) -> MergeNode:
    """The merge behaviour of a built-in kind; of an unknown kind: metadata only."""
    return _map(metadata=_METADATA, **_KINDS.get((group, kind), {}))


def pod_spec_schema() -> MergeNode:
    """The merge behaviour of a pod spec, wherever it is embedded."""
    return _POD_SPEC
