"""Every rule of the projection as a table, and what must hold for any object."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchers.sanitize import canonical, project, sanitize

NAME = {"name": "n", "namespace": "s"}


def obj(api_version: str, kind: str, meta: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {**NAME, **(meta or {})}, **fields}


def test_metadata_is_an_allow_list() -> None:
    """K01, A24: name, namespace, labels and annotations stay; everything else of the metadata goes."""
    server = {
        "uid": "u",
        "resourceVersion": "1",
        "generation": 2,
        "creationTimestamp": "t",
        "deletionTimestamp": "t",
        "deletionGracePeriodSeconds": 0,
        "selfLink": "/x",
        "managedFields": [{}],
        "ownerReferences": [{}],
        "finalizers": ["f"],
        "generateName": "n-",
    }
    kept = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    expected = obj("v1", "ConfigMap", kept, data={"status": "kept"})
    assert (
        sanitize(obj("v1", "ConfigMap", {**server, **kept}, data={"status": "kept"}, status={})) == expected
    )


def test_cluster_scoped_objects_have_no_namespace() -> None:
    """K01: no namespace key appears where there was none, or an empty one."""
    assert sanitize({"metadata": {"name": "n", "namespace": ""}}) == {"metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("field", "key", "stays"),
    [
        ("labels", "kustomize.toolkit.fluxcd.io/name", False),
        ("labels", "kro.run/x", False),
        ("labels", "applyset.kubernetes.io/part-of", False),
        ("labels", "app", True),
        ("labels", "kubectl.kubernetes.io/x", True),
        ("annotations", "kubectl.kubernetes.io/last-applied-configuration", False),
        ("annotations", "control-plane.alpha.kubernetes.io/leader", False),
        ("annotations", "deployment.kubernetes.io/revision", False),
        ("annotations", "autoscaling.alpha.kubernetes.io/conditions", False),
        ("annotations", "kustomize.toolkit.fluxcd.io/reconcile", False),
        ("annotations", "applyset.kubernetes.io/tooling", False),
        ("annotations", "argocd.argoproj.io/tracking-id", False),
        ("annotations", "argocd.argoproj.io/sync-wave", True),
        ("annotations", "argocd.argoproj.io/sync-options", True),
        ("annotations", "argocd.argoproj.io/hook", True),
        ("annotations", "kro.run/x", True),
    ],
)
def test_marks_of_tools(field: str, key: str, stays: bool) -> None:
    """Marks of deployment tools and controllers go, wishes stay; a map that ends up empty goes too."""
    meta = sanitize(obj("v1", "ConfigMap", {field: {key: "v"}}))["metadata"]
    assert meta == ({**NAME, field: {key: "v"}} if stays else NAME)


def test_labels_of_kubectl_do_not_rewrite_a_secret() -> None:
    """J06: a Secret is encrypted whole for every change; a tool's own label is none."""
    labelled = obj(
        "v1", "Secret", {"labels": {"kubectl.kubernetes.io/x": "y", "app": "shop"}}, data={"a": "eA=="}
    )
    assert sanitize(labelled)["metadata"] == {**NAME, "labels": {"app": "shop"}}
    only = obj("v1", "Secret", {"labels": {"kubectl.kubernetes.io/x": "y"}})
    assert sanitize(only)["metadata"] == NAME


CASES: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "allocated cluster IP",
        "v1",
        "Service",
        {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "a": 1},
        {"a": 1},
    ),
    ("headless", "v1", "Service", {"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": "None"}),
    (
        "health port",
        "v1",
        "Service",
        {"healthCheckNodePort": 3, "ports": [{"nodePort": 4}]},
        {"ports": [{"nodePort": 4}]},
    ),
    ("single stack default", "v1", "Service", {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}, {}),
    (
        "dual stack",
        "v1",
        "Service",
        {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"},
        {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"},
    ),
    (
        "single stack of the other family",
        "v1",
        "Service",
        {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
        {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
    ),
    ("default traffic policy", "v1", "Service", {"internalTrafficPolicy": "Cluster"}, {}),
    (
        "local traffic policy",
        "v1",
        "Service",
        {"internalTrafficPolicy": "Local"},
        {"internalTrafficPolicy": "Local"},
    ),
    (
        "a Service of another group",
        "serving.knative.dev/v1",
        "Service",
        {"clusterIP": "x"},
        {"clusterIP": "x"},
    ),
    ("bound claim", "v1", "PersistentVolumeClaim", {"volumeName": "pv", "volumeMode": "Filesystem"}, {}),
    ("block claim", "v1", "PersistentVolumeClaim", {"volumeMode": "Block"}, {"volumeMode": "Block"}),
    ("pod", "v1", "Pod", {"nodeName": "n", "serviceAccountName": "a"}, {"serviceAccountName": "a"}),
    (
        "namespace finalizers",
        "v1",
        "Namespace",
        {"finalizers": ["kubernetes"]},
        {"finalizers": ["kubernetes"]},
    ),
    ("spec.status", "lab.test/v1", "Gizmo", {"status": "open"}, {"status": "open"}),
    (
        "blank template time",
        "apps/v1",
        "Deployment",
        {"template": {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}}},
        {"template": {"metadata": {"labels": {"a": "b"}}}},
    ),
    (
        "blank template metadata",
        "apps/v1",
        "Deployment",
        {"template": {"metadata": {"creationTimestamp": None}, "spec": {}}},
        {"template": {"spec": {}}},
    ),
    (
        "restart mark in the template",
        "apps/v1",
        "Deployment",
        {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "t"}}}},
        {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "t"}}}},
    ),
    (
        "job template",
        "batch/v1",
        "CronJob",
        {
            "jobTemplate": {
                "metadata": {"creationTimestamp": None},
                "spec": {"template": {"metadata": {"creationTimestamp": None}, "spec": {}}},
            }
        },
        {"jobTemplate": {"spec": {"template": {"spec": {}}}}},
    ),
    (
        "volume claim templates",
        "apps/v1",
        "StatefulSet",
        {"volumeClaimTemplates": [{"metadata": {"name": "d", "creationTimestamp": None}}]},
        {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]},
    ),
    (
        "generated job selector",
        "batch/v1",
        "Job",
        {
            "selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "app": "x"}}},
        },
        {"template": {"metadata": {"labels": {"app": "x"}}}},
    ),
    (
        "manual job selector",
        "batch/v1",
        "Job",
        {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "u"}}},
        {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "u"}}},
    ),
]


@pytest.mark.parametrize(("case", "api", "kind", "before", "after"), CASES, ids=[case[0] for case in CASES])
def test_spec_rules(case: str, api: str, kind: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """K02, K03, pains 34, 36, 37, 40: what the server fills in goes, what a person meant stays."""
    assert sanitize(obj(api, kind, spec=before))["spec"] == after, case


@pytest.mark.parametrize(
    "fields",
    [
        {"provisioner": "p", "parameters": {"a": "b"}, "reclaimPolicy": "Delete", "mountOptions": ["x"]},
        {"immutable": True, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
        {"aggregationRule": {"clusterRoleSelectors": [{}]}, "rules": None},
        {"imagePullSecrets": [{"name": "x"}], "automountServiceAccountToken": False},
        {"value": 1000000000, "globalDefault": False, "preemptionPolicy": "Never"},
        {"config": {"a": 1}, "payload": [1, 2], "handler": "runc"},
    ],
)
def test_every_other_top_level_field_stays(fields: dict[str, Any]) -> None:
    """K03, K05, A24, pain 39: status goes from every kind; there is no list of allowed top-level fields."""
    assert sanitize(obj("x.io/v1", "Thing", **fields, status={"a": 1})) == obj("x.io/v1", "Thing", **fields)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("NetworkPolicy", {"podSelector": {}, "egress": [], "policyTypes": ["Egress"]}),
        ("NetworkPolicy", {"podSelector": {}, "ingress": [{}]}),
        ("Pod", {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"securityContext": {}}]}),
        ("Thing", {"a": None, "b": [None, {}, []], "c": {"d": {"e": None}}, "f": ""}),
    ],
)
def test_empties_mean_something(kind: str, spec: dict[str, Any]) -> None:
    """Pain 10: an empty map, list, text or null stays at every depth: without it the object is another."""
    assert sanitize(obj("x.io/v1", kind, spec=spec))["spec"] == spec


def test_injected_bundles_go_only_where_they_are_injected() -> None:
    """Pain 41: caBundle is left out where cert-manager's annotation stands, and kept elsewhere."""
    mark = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}
    hook = {"name": "h", "clientConfig": {"caBundle": "x", "url": "https://a"}}
    api = "admissionregistration.k8s.io/v1"
    injected = sanitize(obj(api, "ValidatingWebhookConfiguration", mark, webhooks=[hook]))
    assert injected["webhooks"] == [{"name": "h", "clientConfig": {"url": "https://a"}}]
    plain = obj(api, "ValidatingWebhookConfiguration", webhooks=[hook])
    assert sanitize(plain) == plain
    conversion = {"conversion": {"webhook": {"clientConfig": {"caBundle": "x"}}}}
    crd = sanitize(obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", mark, spec=conversion))
    assert crd["spec"] == {"conversion": {"webhook": {"clientConfig": {}}}}
    service = sanitize(
        obj("apiregistration.k8s.io/v1", "APIService", mark, spec={"caBundle": "x", "group": "g"})
    )
    assert service["spec"] == {"group": "g"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        ("v1", "Service"),
        ("v1", "PersistentVolumeClaim"),
        ("batch/v1", "Job"),
        ("apps/v1", "Deployment"),
        ("x/v1", "X"),
    ]
)


@given(kind=KINDS, spec=VALUES, fields=st.dictionaries(st.text(min_size=1, max_size=6), VALUES, max_size=3))
def test_it_is_idempotent_total_and_leaves_its_input_alone(
    kind: tuple[str, str], spec: Any, fields: dict[str, Any]
) -> None:
    """For any object: twice is once, the input stays as it was, unknown top-level fields stay."""
    raw = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "n"}, "spec": spec}
    raw.update({key: value for key, value in fields.items() if key not in raw and key != "status"})
    before = copy.deepcopy(raw)
    once = sanitize(raw)
    assert raw == before
    assert sanitize(once) == once
    assert {
        key: once[key] for key in fields if key in once and key not in {"template", "webhooks", "metadata"}
    } == {key: raw[key] for key in fields if key in once and key not in {"template", "webhooks", "metadata"}}
    assert set(once) == set(raw)


def test_it_is_fast() -> None:
    """At least 20,000 small objects a second on one core (a third of that is asserted, machines are
    shared).
    """
    config_map = obj("v1", "ConfigMap", {"uid": "u" * 36, "labels": {"a": "b"}}, data={"k": "v" * 200})
    started = time.process_time()
    for _ in range(5000):
        canonical(project(config_map))
    assert time.process_time() - started < 5000 / 7000
