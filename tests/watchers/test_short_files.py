"""A hand-written file stays as short as it is: what the server fills in is neither written nor taken away."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gitwriter.manifests.editing import EditMode, edit_document
from reverser.sandbox.builtindecode import decode_builtin
from reverser.sandbox.defaults import apply_defaults
from watchers.defaults import builtin_table, optional_pointers
from watchers.sanitize import sanitize

POD = """\
      containers:
      - name: c
        image: i:1
        ports: [{containerPort: 80}]
        env:
        - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        resources: {limits: {cpu: "1"}}
        livenessProbe: {grpc: {port: 80}}
        lifecycle: {preStop: {httpGet: {port: 80}}}
      volumes:
      - name: labels
        downwardAPI:
          items:
          - {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu}}
      - name: scratch
        ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}
      - name: all
        projected: {sources: [{serviceAccountToken: {path: token}}]}
"""
NESTED = POD.replace("\n", "\n    ").rstrip(" ").replace("      containers", "          containers", 1)
FILES = {
    "Deployment": f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: a}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
      hostNetwork: true
{POD}""",
    "DaemonSet": f"""\
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: a}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
{POD}""",
    "StatefulSet": f"""\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: a}}
spec:
  serviceName: a
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
{POD}  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce]}}
""",
    "CronJob": f"""\
apiVersion: batch/v1
kind: CronJob
metadata: {{name: a}}
spec:
  schedule: "*/5 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
{NESTED}""",
    "Job": f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: a}}
spec:
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
      restartPolicy: Never
{POD}""",
    "Job without labels": f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: a}}
spec:
  template:
    spec:
      restartPolicy: Never
{POD}""",
    "Namespace": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
    "labelled Namespace": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {team: x}\n",
    "ClusterRole": """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: a}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}
""",
    "NetworkPolicy": """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a}
spec:
  ingress: [{ports: [{port: 80}]}]
""",
    "IngressClass": """\
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: a}
spec: {controller: lab.test/a, parameters: {apiGroup: lab.test, kind: A, name: a}}
""",
    "CustomResourceDefinition": """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.lab.test}
spec:
  group: lab.test
  scope: Namespaced
  names: {kind: Aa, plural: aas}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
""",
    "PersistentVolumeClaim": """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: a}
spec: {accessModes: [ReadWriteOnce]}
""",
    "APIService": """\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.lab.test}
spec: {group: lab.test, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {name: a}}
""",
}


def live(text: str) -> dict[str, Any]:
    """The object as a server shows it after the file was applied."""
    sent = yaml.safe_load(text)
    group, _, version = sent["apiVersion"].rpartition("/")
    decoded, unknown = decode_builtin(group, version, sent["kind"], sent)
    assert not unknown
    decoded["metadata"]["uid"] = "u"
    made = apply_defaults(group, version, sent["kind"], decoded)
    if sent["kind"] == "Namespace":
        made["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = made["metadata"]["name"]
    return made


def older(made: Any) -> Any:
    """The same from a server before 1.34, which shows the unset time of every template."""
    if isinstance(made, list):
        return [older(item) for item in made]
    if not isinstance(made, dict):
        return made
    result = {key: older(value) for key, value in made.items()}
    for key in ("template", "jobTemplate", "volumeClaimTemplate"):
        if isinstance(result.get(key), dict):
            result[key]["metadata"] = {"creationTimestamp": None, **result[key].get("metadata", {})}
    return result


@pytest.mark.parametrize("server", [lambda made: made, older], ids=["1.36", "before 1.34"])
@pytest.mark.parametrize("name", FILES)
def test_what_the_server_fills_in_is_not_written(name: str, server: Any) -> None:
    """Pains 34 and 45: a file without defaults is left as it is when the cluster shows them."""
    text = FILES[name]
    made = sanitize(server(live(text)))
    table = builtin_table(made["apiVersion"].rpartition("/")[0], made["kind"])
    result = edit_document(text.encode(), 0, made, optional=optional_pointers(made, table))
    assert result.data.decode() == text
    assert result.mode is EditMode.NO_CHANGE
    assert "creationTimestamp" not in json.dumps(made)


def test_what_somebody_chose_is_written() -> None:
    """Another label of a Namespace, and metadata of a template that is not empty."""
    text = FILES["Namespace"]
    made = live(text)
    made["metadata"]["labels"]["team"] = "x"
    result = edit_document(
        text.encode(), 0, sanitize(made), optional=optional_pointers(made, builtin_table("", "Namespace"))
    )
    assert yaml.safe_load(result.data)["metadata"] == {"name": "a", "labels": {"team": "x"}}


def pointers(kind: str, obj: dict[str, Any], group: str = "") -> set[str]:
    return set(optional_pointers({"kind": kind, **obj}, builtin_table(group, kind)))


def test_limits_that_follow_from_others() -> None:
    """A container's default is its maximum, its default request the default or the minimum."""
    item = {
        "type": "Container",
        "max": {"cpu": "1", "memory": "1Gi"},
        "min": {"cpu": "100m", "memory": "10Mi"},
        "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "1", "memory": "1Gi"},
    }
    both = {"/spec/limits/0/default", "/spec/limits/0/defaultRequest"}
    assert pointers("LimitRange", {"spec": {"limits": [item]}}) == both
    chosen = {**item, "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "3"}}
    assert pointers("LimitRange", {"spec": {"limits": [chosen]}}) == set()


def test_labels_that_a_job_has_from_its_template() -> None:
    """Only where they are the template's and nothing else."""
    template = {"metadata": {"labels": {"a": "b", "job-name": "x"}}}
    for labels, optional in (({"a": "b"}, True), ({"a": "b", "c": "d"}, False), ({}, False)):
        found = pointers("Job", {"metadata": {"labels": labels}, "spec": {"template": template}}, "batch")
        assert ("/metadata/labels" in found) is optional, labels
        assert "/spec/template/metadata/labels/job-name" in found


def test_claims_of_devices_and_images_as_volumes() -> None:
    """One device exactly, and a pull policy that follows from the tag."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claim = {"spec": {"devices": {"requests": [{"name": "a", "exactly": exactly}]}}}
    place = "/spec/devices/requests/0/exactly"
    assert pointers("ResourceClaim", claim, "resource.k8s.io") == {
        f"{place}/allocationMode",
        f"{place}/count",
    }
    template = {"spec": {"metadata": {}, **claim}}
    assert pointers("ResourceClaimTemplate", template, "resource.k8s.io") == {
        "/spec/metadata",
        f"/spec{place}/allocationMode",
        f"/spec{place}/count",
    }
    for reference, policy in (("a/b:1", "IfNotPresent"), ("a/b", "Always")):
        volume = {"name": "v", "image": {"reference": reference, "pullPolicy": policy}}
        found = pointers("PodTemplate", {"template": {"spec": {"volumes": [volume]}}})
        assert found == {"/template/spec/volumes/0/image/pullPolicy"}
