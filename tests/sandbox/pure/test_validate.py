"""Built-in objects are refused with the server's path, reason and words."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from reverser.sandbox.causes import Cause, join
from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.status import invalid
from reverser.sandbox.validate import validate_builtin

RBAC = "rbac.authorization.k8s.io"
NET = "networking.k8s.io"


def pod_template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i:1"}]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, **spec}}


def workload(**spec: Any) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod_template(), **spec}}


def claim(**spec: Any) -> dict[str, Any]:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def binding(name: str) -> dict[str, Any]:
    return {"kind": "RoleBinding", "roleRef": {"kind": "Role", "name": name}}


HOOK = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:1"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
GOOD: dict[tuple[str, str], dict[str, Any]] = {
    ("", "ConfigMap"): {"data": {"a.b": "1"}},
    ("", "Secret"): {"stringData": {"a": "1"}},
    ("", "Service"): {"spec": {"ports": [{"port": 80}]}},
    ("", "Pod"): {"spec": pod_template()["spec"]},
    ("", "PersistentVolumeClaim"): claim(),
    ("", "PersistentVolume"): {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}},
    ("apps", "Deployment"): workload(),
    ("apps", "StatefulSet"): workload(serviceName="x"),
    ("apps", "DaemonSet"): workload(),
    ("apps", "ReplicaSet"): workload(),
    ("batch", "Job"): {"spec": {"template": pod_template(restartPolicy="Never")}},
    ("batch", "CronJob"): {
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": pod_template(restartPolicy="OnFailure")}},
        }
    },
    (NET, "Ingress"): {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    (NET, "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("storage.k8s.io", "StorageClass"): {"provisioner": "p"},
    (RBAC, "Role"): {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    (RBAC, "RoleBinding"): binding("r"),
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    },
    ("policy", "PodDisruptionBudget"): {"spec": {"minAvailable": 1}},
    ("coordination.k8s.io", "Lease"): {"spec": {"leaseDurationSeconds": 15}},
    ("scheduling.k8s.io", "PriorityClass"): {"value": 1},
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): {"webhooks": [HOOK]},
}


def made(group: str, kind: str, fields: dict[str, Any], name: str = "x") -> dict[str, Any]:
    obj = {"kind": kind, "metadata": {"name": name}, **copy.deepcopy(fields)}
    return apply_defaults(group, "v2" if group == "autoscaling" else "v1", kind, obj)


@pytest.mark.parametrize("key", GOOD, ids=lambda key: key[1])
def test_ordinary_objects_pass(key: tuple[str, str]) -> None:
    """A well-formed object of every modelled kind is accepted, new and as an update of itself."""
    obj = made(*key, GOOD[key])
    assert validate_builtin(*key, obj) == []
    assert validate_builtin(*key, obj, obj) == []


@pytest.mark.parametrize(
    ("group", "kind", "fields", "expected"),
    [
        ("", "ConfigMap", {"data": {"a b": "1"}}, 'data[a b]: Invalid value: "a b": a valid config key must'),
        (
            "",
            "ConfigMap",
            {"data": {"k": "x" * (1 << 20 | 1)}},
            "Too long: may not be more than 1048576 bytes",
        ),
        (
            "",
            "Secret",
            {"type": "kubernetes.io/tls", "data": {}},
            "[data[tls.crt]: Required value, data[tls.key]: Required value]",
        ),
        ("", "Service", {"spec": {}}, "spec.ports: Required value"),
        (
            "",
            "Service",
            {"spec": {"ports": [{"port": 0}]}},
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            "",
            "Service",
            {"spec": {"ports": [{"port": 1}, {"port": 2, "name": "b"}]}},
            "spec.ports[0].name: Required value",
        ),
        ("", "Service", {"spec": {"type": "ExternalName"}}, "spec.externalName: Required value"),
        ("", "Pod", {"spec": {}}, "spec.containers: Required value"),
        (
            "",
            "Pod",
            {"spec": {"containers": [{"name": "a"}, {"name": "a", "image": "i"}]}},
            '[spec.containers[0].image: Required value, spec.containers[1].name: Duplicate value: "a"]',
        ),
        (
            "",
            "Pod",
            {
                "spec": {
                    "containers": [
                        {"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
                    ]
                }
            },
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            "",
            "PersistentVolumeClaim",
            {"spec": {}},
            "spec.accessModes: Required value: at least 1 access mode is required",
        ),
        ("apps", "Deployment", {"spec": {"template": pod_template()}}, "spec.selector: Required value"),
        (
            "apps",
            "Deployment",
            workload(replicas=-1),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "apps",
            "Deployment",
            workload(selector={"matchLabels": {"app": "y"}}),
            "`selector` does not match template `labels`",
        ),
        (
            "batch",
            "Job",
            {"spec": {"template": pod_template()}},
            'spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: '
            '"OnFailure", "Never"',
        ),
        (
            "batch",
            "CronJob",
            {
                "spec": {
                    "schedule": "x",
                    "jobTemplate": {"spec": {"template": pod_template(restartPolicy="Never")}},
                }
            },
            "expected exactly 5 fields, found 1: [x]",
        ),
        (NET, "Ingress", {"spec": {}}, "either `defaultBackend` or `rules` must be specified"),
        (
            NET,
            "Ingress",
            {"spec": {"rules": [{"http": {"paths": [{"path": "/"}]}}]}},
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ),
        ("storage.k8s.io", "StorageClass", {}, "provisioner: Required value"),
        (
            RBAC,
            "Role",
            {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            RBAC,
            "ClusterRoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}},
            'roleRef.kind: Unsupported value: "Role"',
        ),
        (
            RBAC,
            "RoleBinding",
            {**binding("r"), "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            "subjects[0].namespace: Required value",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            {"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}}},
            "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        ),
        (
            "policy",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "minAvailable and maxUnavailable cannot be both set",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{**HOOK, "name": "a"}]},
            "should be a domain with at least three segments separated by dots",
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{**HOOK, "clientConfig": {"url": "http://x"}}]},
            "'https' is the only allowed URL scheme",
        ),
    ],
)
def test_refusals(group: str, kind: str, fields: dict[str, Any], expected: str) -> None:
    """What is missing or out of range is named by its path."""
    assert expected in join(validate_builtin(group, kind, made(group, kind, fields)))


def change_selector(obj: dict[str, Any]) -> None:
    obj["spec"]["selector"]["matchLabels"]["app"] = "y"
    obj["spec"]["template"]["metadata"]["labels"]["app"] = "y"


@pytest.mark.parametrize(
    ("group", "kind", "change", "expected"),
    [
        (
            "apps",
            "Deployment",
            change_selector,
            'spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable',
        ),
        (
            "apps",
            "StatefulSet",
            lambda o: o["spec"].update(serviceName="y"),
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', ",
        ),
        ("", "Secret", lambda o: o.update(type="x/y"), 'type: Invalid value: "x/y": field is immutable'),
        (
            "",
            "Pod",
            lambda o: o["spec"].update(hostNetwork=True),
            "spec: Forbidden: pod updates may not change fields other than",
        ),
        (
            "",
            "PersistentVolumeClaim",
            lambda o: o["spec"].update(accessModes=["ReadOnlyMany"]),
            "spec: Forbidden: spec is immutable after creation except",
        ),
        (
            "batch",
            "Job",
            lambda o: o["spec"]["template"]["spec"].update(hostNetwork=True),
            "spec.template: Invalid value",
        ),
        (RBAC, "RoleBinding", lambda o: o["roleRef"].update(name="y"), "roleRef: Invalid value"),
        (
            "storage.k8s.io",
            "StorageClass",
            lambda o: o.update(provisioner="q"),
            "provisioner: Forbidden: updates to provisioner are forbidden.",
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            lambda o: o.update(value=2),
            "value: Forbidden: may not be changed in an update.",
        ),
    ],
)
def test_immutable_fields(group: str, kind: str, change: Callable[[Any], Any], expected: str) -> None:
    """What may not change is refused on update, and only then."""
    old = made(group, kind, GOOD[group, kind])
    new = copy.deepcopy(old)
    change(new)
    assert validate_builtin(group, kind, new) == []
    assert expected in join(validate_builtin(group, kind, new, old))


def test_an_immutable_secret_cannot_change() -> None:
    """The whole Status of a refused change of an immutable Secret, and that unlocking it is refused too."""
    old = made("", "Secret", {"immutable": True, "data": {"a": "Yg=="}})
    new = {**old, "data": {"a": "Yw=="}}
    assert invalid("", "Secret", "imm", validate_builtin("", "Secret", new, old)).body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Secret "imm" is invalid: data: Forbidden: field is immutable when `immutable` is set',
        "reason": "Invalid",
        "details": {
            "name": "imm",
            "kind": "Secret",
            "causes": [
                {
                    "reason": "FieldValueForbidden",
                    "message": "Forbidden: field is immutable when `immutable` is set",
                    "field": "data",
                }
            ],
        },
        "code": 422,
    }
    unlocked = {key: value for key, value in old.items() if key != "immutable"}
    assert "immutable: Forbidden" in join(validate_builtin("", "Secret", unlocked, old))


def test_a_complaint_made_twice_is_said_once() -> None:
    """The sentence of a refusal names equal complaints once, its list of causes each of them, as in Go."""
    twice = [Cause("spec.a", "FieldValueRequired", "Required value")] * 2
    body = invalid("", "Secret", "s", twice).body()
    assert body["message"] == 'Secret "s" is invalid: spec.a: Required value'
    assert len(body["details"]["causes"]) == 2


SUBDOMAIN = (
    'metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case '
    "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
    "'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    "(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("group", "kind", "metadata", "expected"),
    [
        ("", "ConfigMap", {"name": "Bad_Name"}, SUBDOMAIN),
        ("", "ConfigMap", {}, "metadata.name: Required value: name or generateName is required"),
        ("", "Namespace", {"name": "a.b"}, "a lowercase RFC 1123 label must consist of"),
        (RBAC, "ClusterRole", {"name": "a/b"}, "may not contain '/'"),
        (
            "",
            "ConfigMap",
            {"name": "x", "labels": {"a b": "c"}},
            'metadata.labels: Invalid value: "a b": name part must',
        ),
        (
            "",
            "ConfigMap",
            {"name": "x", "labels": {"a": "b c"}},
            'metadata.labels: Invalid value: "b c": a valid label must',
        ),
        ("", "ConfigMap", {"name": "x", "annotations": {"/a": ""}}, "prefix part must be non-empty"),
        (
            "",
            "ConfigMap",
            {"name": "x", "finalizers": ["plain"]},
            "name is neither a standard finalizer name nor",
        ),
        (
            "",
            "ConfigMap",
            {"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a"}]},
            'ownerReferences[0].uid: Invalid value: "": must not be empty',
        ),
        ("lab.test", "Thing", {"name": "x" * 254}, "must be no more than 253 bytes"),
    ],
)
def test_metadata_refusals(group: str, kind: str, metadata: dict[str, Any], expected: str) -> None:
    """Names, labels, annotations, finalizers and owners follow the rules of their kind."""
    assert expected in join(validate_builtin(group, kind, {"kind": kind, "metadata": metadata}))


@pytest.mark.parametrize("name", ["system:node", "lab:odd.name:x", "UPPER"])
def test_rbac_names_are_free(name: str) -> None:
    """RBAC objects may be named by anything that fits into a URL path."""
    assert validate_builtin(RBAC, "ClusterRole", {"kind": "ClusterRole", "metadata": {"name": name}}) == []
