"""The server fills in the defaults a real API server fills in, once."""

import copy
from typing import Any

import pytest

from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.poddefaults import image_pull_policy
from reverser.sandbox.services import SequentialAllocator
from tests.sandbox.pure.test_validate import GOOD, pod_template, workload

CONTAINER = {
    "name": "c",
    "image": "i:1",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
POD = {
    "containers": [CONTAINER],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "x"}}
ROLLING = {"type": "RollingUpdate"}


def spec(group: str, kind: str, obj: dict[str, Any], version: str = "v1") -> Any:
    return apply_defaults(group, version, kind, {"kind": kind, "metadata": {"name": "x"}, **obj})["spec"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "Deployment",
            {
                "replicas": 1,
                "strategy": {**ROLLING, "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
            },
        ),
        ("ReplicaSet", {"replicas": 1}),
        (
            "DaemonSet",
            {
                "updateStrategy": {**ROLLING, "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
                "revisionHistoryLimit": 10,
            },
        ),
        (
            "StatefulSet",
            {
                "replicas": 1,
                "serviceName": "",
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {**ROLLING, "rollingUpdate": {"partition": 0}},
                "revisionHistoryLimit": 10,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        ),
    ],
)
def test_workloads(kind: str, expected: dict[str, Any]) -> None:
    """Replicas, strategies, limits and the pod template of the four workloads."""
    assert spec("apps", kind, workload()) == {"selector": SELECTOR, "template": TEMPLATE, **expected}


def test_recreate_has_no_rolling_update() -> None:
    """The parameters of a rolling update belong to that strategy only."""
    assert spec("apps", "Deployment", workload(strategy={"type": "Recreate"}))["strategy"] == {
        "type": "Recreate"
    }


def test_jobs() -> None:
    """A Job counts one pod, and its selector and labels are generated from its uid."""
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"template": pod_template(restartPolicy="Never")},
    }
    made = apply_defaults("batch", "v1", "Job", job)
    labels = {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
    }
    assert made["spec"] == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {
            "metadata": {"labels": {"app": "x", **labels}},
            "spec": {**POD, "restartPolicy": "Never"},
        },
    }
    assert made["metadata"]["labels"] == {"app": "x"}


def test_cron_jobs() -> None:
    """A CronJob gets its own defaults and those of the pod template, not those of a Job."""
    made = spec("batch", "CronJob", GOOD["batch", "CronJob"])
    assert {key: value for key, value in made.items() if key not in ("schedule", "jobTemplate")} == {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    assert made["jobTemplate"]["spec"] == {
        "template": {**TEMPLATE, "spec": {**POD, "restartPolicy": "OnFailure"}}
    }


def test_secrets_and_namespaces() -> None:
    """stringData is encoded into data and wins; a namespace is labelled with its name and is active."""
    secret = {"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "p@ss: word#1"}}
    made = apply_defaults("", "v1", "Secret", secret)
    assert made == {"data": {"a": "cEBzczogd29yZCMx", "b": "Yg=="}, "type": "Opaque"}
    namespace = apply_defaults("", "v1", "Namespace", {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert namespace == {
        "metadata": {"name": "n", "labels": {"a": "b", "kubernetes.io/metadata.name": "n"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("reg:5000/nginx", "Always"),
        ("reg:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    """Only an image that may change under its name is always pulled."""
    assert image_pull_policy(image) == policy


def test_pod_details() -> None:
    """Probes, volumes, references and limits inside a pod spec get their defaults too."""
    container = {
        "name": "c",
        "image": "i:1",
        "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    volumes = [
        {"name": "a"},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "h", "hostPath": {"path": "/"}},
    ]
    made = spec(
        "apps",
        "Deployment",
        {"spec": {"template": {"spec": {"containers": [container], "volumes": volumes}}}},
    )
    pod = made["template"]["spec"]
    assert pod["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert pod["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert pod["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
        {"name": "h", "hostPath": {"path": "/", "type": ""}},
    ]


def test_what_only_a_pod_gets() -> None:
    """Requests at the limits, and host ports on the host's network: in a Pod, not in a template of one."""
    container = {
        "name": "c",
        "image": "i:1",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
    }
    body = {"hostNetwork": True, "containers": [container]}
    (own,) = spec("", "Pod", {"spec": body})["containers"]
    assert own["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert own["ports"][0]["hostPort"] == 80
    (other,) = spec("apps", "Deployment", {"spec": {"template": {"spec": body}}})["template"]["spec"][
        "containers"
    ]
    assert other["resources"]["requests"] == {"cpu": "500m"}
    assert "hostPort" not in other["ports"][0]


def service(allocator: SequentialAllocator | None = None, old: Any = None, **fields: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **fields}}
    return apply_defaults("", "v1", "Service", obj, allocator=allocator, old=old)


def test_services() -> None:
    """A Service gets an address and its families, and an update that leaves them out keeps them."""
    allocator = SequentialAllocator()
    made = service(allocator, selector={"a": "b"})
    assert made["spec"] == {
        "selector": {"a": "b"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
        "clusterIP": "10.0.0.2",
        "clusterIPs": ["10.0.0.2"],
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
    }
    assert made["status"] == {"loadBalancer": {}}
    assert service(allocator, old=made, selector={"a": "b"})["spec"] == made["spec"]
    assert service(allocator, selector={})["spec"]["clusterIP"] == "10.0.0.3"
    allocator.release(made)
    assert service(allocator)["spec"]["clusterIP"] == "10.0.0.2"


def test_headless_node_port_and_external_services() -> None:
    """Headless Services have no address, node ports are handed out and kept, external names have neither."""
    assert service(clusterIP="None", selector={"a": "b"})["spec"]["clusterIPs"] == ["None"]
    assert service(clusterIP="None")["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    allocator = SequentialAllocator()
    node = service(allocator, type="NodePort")
    assert node["spec"]["ports"][0]["nodePort"] == 30000
    assert node["spec"]["externalTrafficPolicy"] == "Cluster"
    assert service(allocator, old=node, type="NodePort")["spec"]["ports"][0]["nodePort"] == 30000
    external = service(allocator, type="ExternalName", externalName="x.test")["spec"]
    assert "clusterIP" not in external
    assert "ipFamilies" not in external


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_autoscalers(version: str) -> None:
    """A missing minimum is one; only version 2 has a default metric."""
    made = spec("autoscaling", "HorizontalPodAutoscaler", {"spec": {"maxReplicas": 3}}, version)
    assert made["minReplicas"] == 1
    assert ("metrics" in made) == (version == "v2")


@pytest.mark.parametrize(
    ("group", "kind", "given", "expected"),
    [
        (
            "networking.k8s.io",
            "NetworkPolicy",
            {"spec": {"egress": [{"ports": [{"port": 1}]}]}},
            {
                "spec": {
                    "podSelector": {},
                    "policyTypes": ["Ingress", "Egress"],
                    "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
                }
            },
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            {"provisioner": "p"},
            {"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
        ("rbac.authorization.k8s.io", "Role", {"rules": []}, {"rules": None}),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
            },
            {
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [
                    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                    {"kind": "ServiceAccount", "name": "s"},
                ],
            },
        ),
        (
            "",
            "PersistentVolumeClaim",
            {"spec": {}},
            {"spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
        ),
        (
            "",
            "PersistentVolume",
            {"spec": {}},
            {
                "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
        ),
        ("", "ConfigMap", {"data": {"a": "b"}}, {"data": {"a": "b"}}),
        ("lab.test", "Thing", {"spec": {}}, {"spec": {}}),
    ],
)
def test_other_kinds(group: str, kind: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """The small defaults of other kinds; kinds without rules stay as they are."""
    assert apply_defaults(group, "v1", kind, given) == expected


@pytest.mark.parametrize("key", GOOD, ids=lambda key: key[1])
def test_defaulting_is_idempotent_and_leaves_its_argument(key: tuple[str, str]) -> None:
    """A defaulted object passes unchanged, and the object handed in is not touched."""
    version = "v2" if key[0] == "autoscaling" else "v1"
    obj = {"kind": key[1], "metadata": {"name": "x", "uid": "u"}, **GOOD[key]}
    before = copy.deepcopy(obj)
    once = apply_defaults(key[0], version, key[1], obj)
    assert obj == before
    assert apply_defaults(key[0], version, key[1], once) == once
