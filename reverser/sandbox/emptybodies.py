"""What a bookmark shows beside its metadata: the zero value of the Go type, for the types whose zero value
is not empty.
"""

from typing import Any

Obj = dict[str, Any]

_TEMPLATE: Obj = {"metadata": {}, "spec": {"containers": None}}
_SPEC_AND_STATUS: Obj = {"spec": {}, "status": {}}

_BODIES: dict[tuple[str, str], Obj] = {
    ("", "Namespace"): _SPEC_AND_STATUS,
    ("", "Node"): _SPEC_AND_STATUS,
    ("", "PersistentVolume"): _SPEC_AND_STATUS,
    ("", "PersistentVolumeClaim"): {"spec": {"resources": {}}, "status": {}},
    ("", "Pod"): {"spec": {"containers": None}, "status": {}},
    ("", "ResourceQuota"): _SPEC_AND_STATUS,
    ("", "ReplicationController"): {"spec": {}, "status": {"replicas": 0}},
    ("", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("apps", "Deployment"): {
        "spec": {"replicas": 0, "selector": None, "template": _TEMPLATE, "strategy": {}},
        "status": {},
    },
    ("apps", "DaemonSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "updateStrategy": {}},
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    },
    ("apps", "ReplicaSet"): {
        "spec": {"replicas": 0, "selector": None, "template": _TEMPLATE},
        "status": {"replicas": 0},
    },
    ("apps", "StatefulSet"): {
        "spec": {
            "replicas": 0,
            "selector": None,
            "template": _TEMPLATE,
            "serviceName": "",
            "updateStrategy": {},
        },
        "status": {"replicas": 0},
    },
    ("batch", "Job"): {"spec": {"template": _TEMPLATE}, "status": {}},
    ("batch", "CronJob"): {
        "spec": {
            "schedule": "",
            "concurrencyPolicy": "",
            "suspend": None,
            "jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}},
        },
        "status": {},
    },
    ("networking.k8s.io", "Ingress"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("networking.k8s.io", "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io", "Role"): {"rules": None},
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": "", "kind": "", "name": ""}
    },
    ("rbac.authorization.k8s.io", "RoleBinding"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
    ("storage.k8s.io", "StorageClass"): {"provisioner": ""},
    ("coordination.k8s.io", "Lease"): {"spec": {}},
    ("policy", "PodDisruptionBudget"): {
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
    ("apiregistration.k8s.io", "APIService"): {
        "spec": {"groupPriorityMinimum": 0, "versionPriority": 0},
        "status": {},
    },
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
    },
}


def empty_body(group: str, kind: str) -> Obj:
    """The fields beside metadata that a bookmark of a built-in kind carries."""
    return _BODIES.get((group, kind), {})
