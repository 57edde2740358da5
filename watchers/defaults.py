"""Known server defaults: JSON pointers to values that the API server fills in.

A new document mirrors them; where a hand-written document lacks such a field, the writer leaves it out, so
that a short file stays short. Built-in types have a table here, custom resources their schema. A table is a
tree: a mapping by field name (``*`` for list items), whose leaves say which values are the default. A mapping
that holds nothing but defaults is a default itself, because the server makes it when it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LIMIT = 400
"""Pointers per object; an object with more is large, and its file is not one that somebody keeps short."""
Predicate = Callable[[Any, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Is:
    """A leaf: the default values, or a test of (value, the mapping it stands in)."""

    values: tuple[Any, ...] = ()
    test: Predicate | None = None

    def holds(self, value: Any, parent: Mapping[str, Any]) -> bool:
        """Whether ``value`` is what the server would have filled in."""
        if self.test is not None:
            return self.test(value, parent)
        return any(type(value) is type(known) and value == known for known in self.values)


Node = Mapping[str, Any]
"""Field name to Is or Node; ``*`` stands for every item of a list, WHOLE for the value itself."""
WHOLE = ""


def optional_pointers(obj: Mapping[str, Any], table: Node | None) -> tuple[str, ...]:
    """JSON pointers of ``obj`` whose values are defaults by ``table``, at most 400, in document order."""
    if table is None:
        return ()
    found: list[str] = []
    _walk(obj, table, "", found)
    if obj.get("kind") in ("Job", "ReplicationController") and _labels_of_template(obj):
        found.append("/metadata/labels")
    return tuple(found[:LIMIT])


def _labels_of_template(obj: Mapping[str, Any]) -> bool:
    """Whether an object has the labels of its template, as the server gives one without any of its own."""
    template = (obj.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    own = {key: value for key, value in labels.items() if key not in _JOB_NAMES}
    return bool(own) and own == (obj.get("metadata") or {}).get("labels")


def _walk(value: Mapping[str, Any], node: Node, pointer: str, found: list[str]) -> bool:
    """Collects pointers below ``value``; true when all that it holds is default."""
    whole = bool(value)
    for key, child in value.items():
        rule = node.get(key)
        path = f"{pointer}/{_escape(key)}"
        if rule is None:
            whole = False
        elif isinstance(rule, Is):
            if rule.holds(child, value):
                found.append(path)
            else:
                whole = False
        else:
            mark = len(found)
            leaf = rule.get(WHOLE)
            if _inside(child, rule, path, found) or (isinstance(leaf, Is) and leaf.holds(child, value)):
                found.insert(mark, path)
            else:
                whole = False
    return whole


def _inside(child: Any, rule: Node, path: str, found: list[str]) -> bool:
    """Collects below one value; true for a mapping that holds nothing but defaults."""
    if isinstance(child, Mapping):
        return bool(child) and _walk(child, rule, path, found)
    items = rule.get("*")
    if isinstance(child, list) and isinstance(items, Mapping):
        for index, item in enumerate(child):
            if isinstance(item, Mapping):
                _walk(item, items, f"{path}/{index}", found)
    return False


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def builtin_table(group: str, kind: str) -> Node | None:
    """The table of a built-in kind, or None."""
    return _BUILTIN.get((group, kind))


def schema_tables(definition: Mapping[str, Any]) -> dict[str, Node | None]:
    """The tables of every version of a CustomResourceDefinition."""
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    entries = [entry for entry in versions or () if isinstance(entry, Mapping)]
    return {str(entry.get("name")): schema_table(definition, str(entry.get("name"))) for entry in entries}


def schema_table(definition: Mapping[str, Any], version: str) -> Node | None:
    """The table of a custom resource, from the defaults in the schema of its CustomResourceDefinition."""
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    for entry in versions if isinstance(versions, list) else ():
        if isinstance(entry, Mapping) and entry.get("name") == version:
            schema = entry.get("schema")
            root = schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
            return _schema_node(root, 0) if isinstance(root, Mapping) else None
    return None


def _schema_node(schema: Mapping[str, Any], depth: int) -> Node | None:
    if depth > 30:
        return None
    node: dict[str, Any] = {}
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(child, Mapping):
            continue
        inner = _schema_node(child, depth + 1)
        leaf = Is((child["default"],)) if "default" in child else None
        if inner is not None:
            node[name] = {**inner, WHOLE: leaf} if leaf is not None else inner
        elif leaf is not None:
            node[name] = leaf
    items = schema.get("items")
    if isinstance(items, Mapping):
        inner = _schema_node(items, depth + 1)
        if inner is not None:
            node["*"] = inner
    return node or None


def _is(*values: Any) -> Is:
    return Is(values)


def _pull_policy(value: Any, container: Mapping[str, Any]) -> bool:
    image = str(container.get("image", ""))
    name = image.rpartition("/")[2]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return bool(value == ("IfNotPresent" if tagged else "Always"))


def _policy_types(value: Any, spec: Mapping[str, Any]) -> bool:
    return bool(value == (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]))


def _same_port(value: Any, port: Mapping[str, Any]) -> bool:
    return type(value) is int and value == port.get("port")


def _image_policy(value: Any, volume: Mapping[str, Any]) -> bool:
    return _pull_policy(value, {"image": volume.get("reference", "")})


def _of_max(value: Any, item: Mapping[str, Any]) -> bool:
    return _taken(value, item.get("max"))


def _of_limits(value: Any, item: Mapping[str, Any]) -> bool:
    return _taken(value, item.get("default"), item.get("min"))


def _taken(value: Any, *sources: Any) -> bool:
    """Whether every entry of ``value`` stands in the first source that has its key."""
    known: dict[str, Any] = {}
    for source in sources:
        known = {**source, **known} if isinstance(source, Mapping) else known
    return isinstance(value, Mapping) and all(known.get(key) == entry for key, entry in value.items())


def _singular(value: Any, names: Mapping[str, Any]) -> bool:
    return bool(value == str(names.get("kind", "")).lower())


def _list_kind(value: Any, names: Mapping[str, Any]) -> bool:
    return bool(value == f"{names.get('kind', '')}List")


def _always(_value: Any, _parent: Mapping[str, Any]) -> bool:
    return True


def _same_account(value: Any, spec: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and value == spec.get("serviceAccountName")


_PROBE: Node = {
    "timeoutSeconds": _is(1),
    "periodSeconds": _is(10),
    "successThreshold": _is(1),
    "failureThreshold": _is(3),
    "httpGet": {"scheme": _is("HTTP"), "path": _is("/")},
    "grpc": {"service": _is("")},
}
_FIELD_REF: Node = {"apiVersion": _is("v1")}
_RESOURCE_REF: Node = {"divisor": _is("0")}
_BLANK: Node = {WHOLE: Is(({},))}
"""A structure that the server shows empty where nobody wrote it."""
_CONTAINER: Node = {
    "terminationMessagePath": _is("/dev/termination-log"),
    "terminationMessagePolicy": _is("File"),
    "imagePullPolicy": Is(test=_pull_policy),
    "resources": _is({}),
    "ports": {"*": {"protocol": _is("TCP")}},
    "env": {
        "*": {
            "valueFrom": {
                "fieldRef": _FIELD_REF,
                "resourceFieldRef": _RESOURCE_REF,
                "fileKeyRef": {"optional": _is(False)},
            }
        }
    },
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {
        "postStart": {"httpGet": {"scheme": _is("HTTP"), "path": _is("/")}},
        "preStop": {"httpGet": {"scheme": _is("HTTP"), "path": _is("/")}},
    },
}
_MODE = _is(420)
_ITEMS: Node = {"*": {"fieldRef": _FIELD_REF, "resourceFieldRef": _RESOURCE_REF}}
_SOURCES: Node = {
    "*": {
        "serviceAccountToken": {"expirationSeconds": _is(3600)},
        "downwardAPI": {"items": _ITEMS},
    }
}
_CLAIM_SPEC: Node = {"volumeMode": _is("Filesystem"), "resources": _BLANK}
_VOLUME: Node = {
    "configMap": {"defaultMode": _MODE},
    "secret": {"defaultMode": _MODE},
    "downwardAPI": {"defaultMode": _MODE, "items": _ITEMS},
    "projected": {"defaultMode": _MODE, "sources": _SOURCES},
    "hostPath": {"type": _is("")},
    "iscsi": {"iscsiInterface": _is("default")},
    "image": {"pullPolicy": Is(test=_image_policy)},
    "ephemeral": {"volumeClaimTemplate": {"metadata": _BLANK, "spec": _CLAIM_SPEC}},
}
_POD_SPEC: Node = {
    "restartPolicy": _is("Always"),
    "dnsPolicy": _is("ClusterFirst"),
    "schedulerName": _is("default-scheduler"),
    "terminationGracePeriodSeconds": _is(30),
    "securityContext": _is({}),
    "enableServiceLinks": _is(True),
    "serviceAccount": Is(test=_same_account),
    "containers": {"*": _CONTAINER},
    "initContainers": {"*": _CONTAINER},
    "volumes": {"*": _VOLUME},
}
_TEMPLATE: Node = {"metadata": _BLANK, "spec": _POD_SPEC}
_CLAIMS: Node = {
    "*": {
        "apiVersion": _is("v1"),
        "kind": _is("PersistentVolumeClaim"),
        "spec": _CLAIM_SPEC,
        "status": {"phase": _is("Pending"), **_BLANK},
    }
}
_JOB_NAMES = ("job-name", "batch.kubernetes.io/job-name")
_JOB_SPEC: Node = {
    "backoffLimit": _is(6),
    "completions": _is(1),
    "parallelism": _is(1),
    "completionMode": _is("NonIndexed"),
    "suspend": _is(False),
    "podReplacementPolicy": _is("TerminatingOrFailed"),
    "manualSelector": _is(False),
    "template": {
        "metadata": {"labels": dict.fromkeys(_JOB_NAMES, Is(test=_always)), **_BLANK},
        "spec": {key: rule for key, rule in _POD_SPEC.items() if key != "restartPolicy"},
    },
}
_WEBHOOK: Node = {
    "failurePolicy": _is("Fail"),
    "matchPolicy": _is("Equivalent"),
    "namespaceSelector": _is({}),
    "objectSelector": _is({}),
    "timeoutSeconds": _is(10),
    "reinvocationPolicy": _is("Never"),
    "rules": {"*": {"scope": _is("*")}},
    "clientConfig": {"service": {"port": _is(443)}},
}
_MATCH: Node = {
    "matchPolicy": _is("Equivalent"),
    "namespaceSelector": _is({}),
    "objectSelector": _is({}),
    "resourceRules": {"*": {"scope": _is("*")}},
    "excludeResourceRules": {"*": {"scope": _is("*")}},
}
_POLICY: Node = {"spec": {"failurePolicy": _is("Fail"), "matchConstraints": _MATCH}}
_POLICY_BINDING: Node = {"spec": {"matchResources": _MATCH}}
_REQUEST: Node = {
    "allocationMode": _is("ExactCount"),
    "count": _is(1),
    "tolerations": {"*": {"operator": _is("Equal")}},
}
_DEVICES: Node = {
    "spec": {"devices": {"requests": {"*": {"exactly": _REQUEST, "firstAvailable": {"*": _REQUEST}}}}}
}
_RULES: Node = {"rules": _is(None)}
_PATHS: Node = {"*": {"pathType": _is("ImplementationSpecific")}}

_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_UP: Node = {
    "stabilizationWindowSeconds": _is(0),
    "selectPolicy": _is("Max"),
    "policies": _is([{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT]),
}
_SCALE_DOWN: Node = {"selectPolicy": _is("Max"), "policies": _is([_PERCENT])}

_BUILTIN: dict[tuple[str, str], Node] = {
    ("apps", "Deployment"): {
        "spec": {
            "replicas": _is(1),
            "revisionHistoryLimit": _is(10),
            "progressDeadlineSeconds": _is(600),
            "strategy": {
                "type": _is("RollingUpdate"),
                "rollingUpdate": {"maxSurge": _is("25%"), "maxUnavailable": _is("25%")},
            },
            "template": _TEMPLATE,
        }
    },
    ("apps", "StatefulSet"): {
        "spec": {
            "replicas": _is(1),
            "revisionHistoryLimit": _is(10),
            "podManagementPolicy": _is("OrderedReady"),
            "updateStrategy": {"type": _is("RollingUpdate"), "rollingUpdate": {"partition": _is(0)}},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": _is("Retain"),
                "whenScaled": _is("Retain"),
            },
            "template": _TEMPLATE,
            "volumeClaimTemplates": _CLAIMS,
        }
    },
    ("apps", "DaemonSet"): {
        "spec": {
            "revisionHistoryLimit": _is(10),
            "updateStrategy": {
                "type": _is("RollingUpdate"),
                "rollingUpdate": {"maxSurge": _is(0), "maxUnavailable": _is(1)},
            },
            "template": _TEMPLATE,
        }
    },
    ("apps", "ReplicaSet"): {"spec": {"replicas": _is(1), "template": _TEMPLATE}},
    ("", "ReplicationController"): {"spec": {"replicas": _is(1), "template": _TEMPLATE}},
    ("", "Pod"): {"spec": _POD_SPEC},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("batch", "Job"): {"spec": _JOB_SPEC},
    ("batch", "CronJob"): {
        "spec": {
            "concurrencyPolicy": _is("Allow"),
            "suspend": _is(False),
            "successfulJobsHistoryLimit": _is(3),
            "failedJobsHistoryLimit": _is(1),
            "jobTemplate": {
                "metadata": _BLANK,
                "spec": {key: r for key, r in _JOB_SPEC.items() if key not in {"suspend"}},
            },
        }
    },
    ("", "Service"): {
        "spec": {
            "type": _is("ClusterIP"),
            "sessionAffinity": _is("None"),
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _is(10800)}},
            "externalTrafficPolicy": _is("Cluster"),
            "internalTrafficPolicy": _is("Cluster"),
            "allocateLoadBalancerNodePorts": _is(True),
            "ports": {"*": {"protocol": _is("TCP"), "targetPort": Is(test=_same_port)}},
        }
    },
    ("", "LimitRange"): {
        "spec": {"limits": {"*": {"default": Is(test=_of_max), "defaultRequest": Is(test=_of_limits)}}}
    },
    ("", "PersistentVolumeClaim"): {"spec": _CLAIM_SPEC},
    ("", "PersistentVolume"): {
        "spec": {
            "persistentVolumeReclaimPolicy": _is("Retain"),
            "volumeMode": _is("Filesystem"),
            "hostPath": {"type": _is("")},
        }
    },
    ("", "Secret"): {"type": _is("Opaque")},
    ("", "Namespace"): {
        "metadata": {"labels": {"kubernetes.io/metadata.name": Is(test=_always)}},
        "spec": {"finalizers": _is(["kubernetes"])},
    },
    ("networking.k8s.io", "NetworkPolicy"): {
        "spec": {
            "podSelector": _BLANK,
            "policyTypes": Is(test=_policy_types),
            "ingress": {"*": {"ports": {"*": {"protocol": _is("TCP")}}}},
            "egress": {"*": {"ports": {"*": {"protocol": _is("TCP")}}}},
        }
    },
    ("networking.k8s.io", "Ingress"): {"spec": {"rules": {"*": {"http": {"paths": _PATHS}}}}},
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "spec": {
            "minReplicas": _is(1),
            "metrics": _is(
                [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ]
            ),
            "behavior": {"scaleUp": _SCALE_UP, "scaleDown": _SCALE_DOWN},
        }
    },
    ("storage.k8s.io", "StorageClass"): {
        "reclaimPolicy": _is("Delete"),
        "volumeBindingMode": _is("Immediate"),
    },
    ("storage.k8s.io", "CSIDriver"): {
        "spec": {
            "attachRequired": _is(True),
            "podInfoOnMount": _is(False),
            "storageCapacity": _is(False),
            "fsGroupPolicy": _is("ReadWriteOnceWithFSType"),
            "requiresRepublish": _is(False),
            "seLinuxMount": _is(False),
            "volumeLifecycleModes": _is(["Persistent"]),
        }
    },
    ("scheduling.k8s.io", "PriorityClass"): {
        "preemptionPolicy": _is("PreemptLowerPriority"),
        "globalDefault": _is(False),
    },
    ("networking.k8s.io", "IngressClass"): {"spec": {"parameters": {"scope": _is("Cluster")}}},
    ("resource.k8s.io", "ResourceClaim"): _DEVICES,
    ("resource.k8s.io", "ResourceClaimTemplate"): {"spec": {"metadata": _BLANK, **_DEVICES}},
    ("rbac.authorization.k8s.io", "Role"): _RULES,
    ("rbac.authorization.k8s.io", "ClusterRole"): _RULES,
    ("rbac.authorization.k8s.io", "RoleBinding"): {
        "roleRef": {"apiGroup": _is("rbac.authorization.k8s.io")},
        "subjects": {"*": {"apiGroup": _is("rbac.authorization.k8s.io")}},
    },
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {
        "roleRef": {"apiGroup": _is("rbac.authorization.k8s.io")},
        "subjects": {"*": {"apiGroup": _is("rbac.authorization.k8s.io")}},
    },
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": {"*": _WEBHOOK}},
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): {"webhooks": {"*": _WEBHOOK}},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _POLICY,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("apiregistration.k8s.io", "APIService"): {"spec": {"service": {"port": _is(443)}}},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {
            "names": {"singular": Is(test=_singular), "listKind": Is(test=_list_kind)},
            "conversion": {
                "strategy": _is("None"),
                "webhook": {"clientConfig": {"service": {"port": _is(443)}}},
            },
            "preserveUnknownFields": _is(False),
        }
    },
}
