"""The Table columns of built-in types: headings and cells as a real server prints them.

Types that are not listed show name and age. A column of priority 1 is printed by `kubectl get -o wide` only.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reverser.sandbox.cells import (
    access_modes,
    at,
    available,
    claim,
    completions,
    endpoint_addresses,
    event_object,
    external_ip,
    hosts,
    job_duration,
    job_status,
    labels_text,
    last_schedule,
    last_seen,
    load_balancer,
    node_roles,
    node_status,
    none,
    pod_ready,
    pod_status,
    ready_of_desired,
    reference,
    restarts,
    selector_text,
    service_of,
    service_ports,
    subjects,
    targets,
    webhook_count,
)
from reverser.sandbox.times import age
from reverser.sandbox.types import PrinterColumn

Object = dict[str, Any]
Cell = Callable[[Object], Any]

NAME = PrinterColumn("Name", "string", ".metadata.name", format="name", description="Name of the object.")


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and how its cell is made; `timed` cells also need to know what time it is."""

    definition: PrinterColumn
    make: Cell | None
    timed: Callable[[Object, datetime.datetime], Any] | None = None

    def cell(self, obj: Object, now: datetime.datetime) -> Any:
        """The cell for one object."""
        if self.timed is not None:
            return self.timed(obj, now)
        return self.make(obj) if self.make is not None else None


def _column(name: str, make: Cell, *, kind: str = "string", wide: bool = False) -> Column:
    return Column(PrinterColumn(name, kind, "", priority=int(wide)), make)


def _timed(name: str, timed: Callable[[Object, datetime.datetime], Any]) -> Column:
    return Column(PrinterColumn(name, "string", ""), None, timed)


def _field(name: str, *path: str, default: Any = "", kind: str = "string", wide: bool = False) -> Column:
    return _column(name, lambda obj: at(obj, *path, default=default), kind=kind, wide=wide)


_NAME = Column(NAME, lambda obj: at(obj, "metadata", "name", default=""))
_AGE = _timed("Age", lambda obj, now: age(at(obj, "metadata", "creationTimestamp"), now))
_CREATED = _field("Created At", "metadata", "creationTimestamp", kind="date")


def _containers(*path: str) -> tuple[Column, Column]:
    def join(obj: Object, key: str) -> str:
        return ",".join(str(item.get(key, "")) for item in at(obj, *path, "containers", default=[]))

    return (
        _column("Containers", lambda obj: join(obj, "name"), wide=True),
        _column("Images", lambda obj: join(obj, "image"), wide=True),
    )


def _count(name: str, *path: str) -> Column:
    return _field(name, *path, default=0, kind="integer")


def _data_count(obj: Object) -> int:
    return len(at(obj, "data", default={})) + len(at(obj, "binaryData", default={}))


_TEMPLATE = ("spec", "template", "spec")
_SELECTOR = _column("Selector", lambda obj: selector_text(at(obj, "spec", "selector")), wide=True)


_REPLICAS = (
    _NAME,
    _count("Desired", "spec", "replicas"),
    _count("Current", "status", "replicas"),
    _count("Ready", "status", "readyReplicas"),
    _AGE,
    *_containers(*_TEMPLATE),
    _SELECTOR,
)
_BINDING = (
    _NAME,
    _column("Role", lambda obj: f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"),
    _AGE,
    _column("Users", subjects("User"), wide=True),
    _column("Groups", subjects("Group"), wide=True),
    _column("ServiceAccounts", subjects("ServiceAccount"), wide=True),
)
_WEBHOOKS = (_NAME, _column("Webhooks", webhook_count, kind="integer"), _AGE)
_EVENT = (
    _timed("Last Seen", last_seen),
    _field("Type", "type"),
    _field("Reason", "reason"),
    _column("Object", event_object),
    _column("Message", lambda obj: str(at(obj, "message") or at(obj, "note", default="")).strip()),
)

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "ConfigMap"): (_NAME, _column("Data", _data_count), _AGE),
    ("", "Secret"): (_NAME, _field("Type", "type"), _column("Data", _data_count), _AGE),
    ("", "Namespace"): (_NAME, _field("Status", "status", "phase"), _AGE),
    ("", "Service"): (
        _NAME,
        _field("Type", "spec", "type"),
        _field("Cluster-IP", "spec", "clusterIP", default="<none>"),
        _column("External-IP", external_ip),
        _column("Port(s)", service_ports),
        _AGE,
        _column("Selector", lambda obj: labels_text(at(obj, "spec", "selector")), wide=True),
    ),
    ("", "ServiceAccount"): (
        _NAME,
        _column("Secrets", lambda obj: len(at(obj, "secrets", default=[]))),
        _AGE,
    ),
    ("", "Pod"): (
        _NAME,
        _column("Ready", pod_ready),
        _column("Status", pod_status),
        _column("Restarts", restarts),
        _AGE,
        _field("IP", "status", "podIP", default="<none>", wide=True),
        _field("Node", "spec", "nodeName", default="<none>", wide=True),
        _field("Nominated Node", "status", "nominatedNodeName", default="<none>", wide=True),
        _column("Readiness Gates", lambda obj: "<none>", wide=True),
    ),
    ("", "Node"): (
        _NAME,
        _column("Status", node_status),
        _column("Roles", node_roles),
        _AGE,
        _field("Version", "status", "nodeInfo", "kubeletVersion"),
    ),
    ("", "PersistentVolumeClaim"): (
        _NAME,
        _field("Status", "status", "phase"),
        _field("Volume", "spec", "volumeName"),
        _field("Capacity", "status", "capacity", "storage"),
        _column("Access Modes", access_modes("status", "accessModes")),
        _field("StorageClass", "spec", "storageClassName"),
        _field("VolumeAttributesClass", "spec", "volumeAttributesClassName", default="<unset>"),
        _AGE,
        _field("VolumeMode", "spec", "volumeMode", default="<unset>", wide=True),
    ),
    ("", "PersistentVolume"): (
        _NAME,
        _field("Capacity", "spec", "capacity", "storage"),
        _column("Access Modes", access_modes("spec", "accessModes")),
        _field("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _field("Status", "status", "phase"),
        _column("Claim", claim),
        _field("StorageClass", "spec", "storageClassName"),
        _field("VolumeAttributesClass", "spec", "volumeAttributesClassName", default="<unset>"),
        _field("Reason", "status", "reason"),
        _AGE,
        _field("VolumeMode", "spec", "volumeMode", default="<unset>", wide=True),
    ),
    ("", "ReplicationController"): _REPLICAS,
    ("", "Endpoints"): (_NAME, _column("Endpoints", endpoint_addresses), _AGE),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "LimitRange"): (_NAME, _CREATED),
    ("apps", "Deployment"): (
        _NAME,
        _column("Ready", ready_of_desired),
        _count("Up-to-date", "status", "updatedReplicas"),
        _count("Available", "status", "availableReplicas"),
        _AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("apps", "StatefulSet"): (_NAME, _column("Ready", ready_of_desired), _AGE, *_containers(*_TEMPLATE)),
    ("apps", "DaemonSet"): (
        _NAME,
        _count("Desired", "status", "desiredNumberScheduled"),
        _count("Current", "status", "currentNumberScheduled"),
        _count("Ready", "status", "numberReady"),
        _count("Up-to-date", "status", "updatedNumberScheduled"),
        _count("Available", "status", "numberAvailable"),
        _column("Node Selector", lambda obj: labels_text(at(obj, *_TEMPLATE, "nodeSelector"))),
        _AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("batch", "Job"): (
        _NAME,
        _column("Status", job_status),
        _column("Completions", completions),
        _timed("Duration", job_duration),
        _AGE,
        *_containers(*_TEMPLATE),
        _SELECTOR,
    ),
    ("batch", "CronJob"): (
        _NAME,
        _field("Schedule", "spec", "schedule"),
        _field("Timezone", "spec", "timeZone", default="<none>"),
        _column("Suspend", lambda obj: str(at(obj, "spec", "suspend", default=False))),
        _column("Active", lambda obj: len(at(obj, "status", "active", default=[])), kind="integer"),
        _timed("Last Schedule", last_schedule),
        _AGE,
        *_containers("spec", "jobTemplate", *_TEMPLATE),
    ),
    ("networking.k8s.io", "Ingress"): (
        _NAME,
        _field("Class", "spec", "ingressClassName", default="<none>"),
        _column("Hosts", hosts),
        _column("Address", load_balancer),
        _column("Ports", lambda obj: "80, 443" if at(obj, "spec", "tls") else "80"),
        _AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        _NAME,
        _field("Controller", "spec", "controller"),
        _column("Parameters", lambda obj: none(at(obj, "spec", "parameters", "name"))),
        _AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        _NAME,
        _column("Pod-Selector", lambda obj: selector_text(at(obj, "spec", "podSelector"))),
        _AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        _NAME,
        _column("Min Available", lambda obj: str(at(obj, "spec", "minAvailable", default="N/A"))),
        _column("Max Unavailable", lambda obj: str(at(obj, "spec", "maxUnavailable", default="N/A"))),
        _count("Allowed Disruptions", "status", "disruptionsAllowed"),
        _AGE,
    ),
    ("storage.k8s.io", "StorageClass"): (
        _NAME,
        _field("Provisioner", "provisioner"),
        _field("ReclaimPolicy", "reclaimPolicy"),
        _field("VolumeBindingMode", "volumeBindingMode"),
        _field("AllowVolumeExpansion", "allowVolumeExpansion", default=False, kind="boolean"),
        _AGE,
    ),
    ("rbac.authorization.k8s.io", "Role"): (_NAME, _CREATED),
    ("rbac.authorization.k8s.io", "ClusterRole"): (_NAME, _CREATED),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("autoscaling", "HorizontalPodAutoscaler"): (
        _NAME,
        _column("Reference", reference),
        _column("Targets", targets),
        _column("MinPods", lambda obj: str(at(obj, "spec", "minReplicas", default="<unset>"))),
        _count("MaxPods", "spec", "maxReplicas"),
        _count("Replicas", "status", "currentReplicas"),
        _AGE,
    ),
    ("coordination.k8s.io", "Lease"): (_NAME, _field("Holder", "spec", "holderIdentity"), _AGE),
    ("scheduling.k8s.io", "PriorityClass"): (
        _NAME,
        _count("Value", "value"),
        _field("Global-Default", "globalDefault", default=False, kind="boolean"),
        _AGE,
        _field("PreemptionPolicy", "preemptionPolicy"),
    ),
    ("node.k8s.io", "RuntimeClass"): (_NAME, _field("Handler", "handler"), _AGE),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (_NAME, _CREATED),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("apiregistration.k8s.io", "APIService"): (
        _NAME,
        _column("Service", service_of),
        _column("Available", available),
        _AGE,
    ),
}

_PLAIN = (_NAME, _AGE)


def builtin_columns(group: str, kind: str) -> tuple[Column, ...]:
    """The columns of a built-in kind, the name first."""
    return _COLUMNS.get((group, kind), _PLAIN)
