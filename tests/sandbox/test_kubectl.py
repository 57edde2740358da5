"""Real kubectl cannot tell the sandbox from a cluster."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverser.sandbox.thread import SandboxServer
from tests import needs
from tests.sandbox.client import Client, eventually

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: till, labels: {app: till}}
spec:
  replicas: 2
  selector: {matchLabels: {app: till}}
  template:
    metadata: {labels: {app: till}}
    spec: {containers: [{name: till, image: "lab/till:1.0", ports: [{containerPort: 8080}]}]}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.lab.test}
spec:
  group: lab.test
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, shortNames: [gz]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
      additionalPrinterColumns:
        - {name: Size, type: integer, jsonPath: .spec.size}
        - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {size: {type: integer, default: 3}, colour: {type: string}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
GIZMO = "{apiVersion: lab.test/v1, kind: Gizmo, metadata: {name: one}, spec: {colour: red}}"


class Kubectl:
    """Runs kubectl against one sandbox, with a cache of its own."""

    def __init__(self, server: SandboxServer, folder: Path) -> None:
        self._binary = needs.kubectl()
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBECONFIG": str(server.kubeconfig_path),
        }

    def run(self, *arguments: str, stdin: str = "", code: int = 0, **environment: str) -> str:
        """The output of a command that must end with `code`."""
        done = subprocess.run(
            [self._binary, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=self._environment | environment,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def json(self, *arguments: str) -> Any:
        """The parsed output of a command with `-o json`."""
        return json.loads(self.run(*arguments, "-o", "json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        return subprocess.Popen(
            [self._binary, *arguments], stdout=subprocess.PIPE, text=True, env=self._environment
        )


@pytest.fixture
def kubectl(sandbox: SandboxServer, tmp_path: Path) -> Kubectl:
    """kubectl as the administrator."""
    return Kubectl(sandbox, tmp_path)


@pytest.fixture
def deployed(kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl where the Deployment `till` exists."""
    kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    yield kubectl


def test_get_and_create(deployed: Kubectl) -> None:
    """Typed and untyped creates work, lists come as tables, single objects as YAML."""
    deployed.run("create", "configmap", "menu", "--from-literal=soup=leek")
    deployed.run("create", "secret", "generic", "safe", "--from-literal=pin=1234")
    deployed.run("create", "namespace", "shop")
    assert "soup: leek" in deployed.run("get", "configmap", "menu", "-o", "yaml")
    assert "0/2" in deployed.run("get", "deployments")
    assert "AlreadyExists" in deployed.run("create", "namespace", "shop", code=1)
    assert "NotFound" in deployed.run("get", "configmap", "absent", code=1)
    assert {i["metadata"]["name"] for i in deployed.json("get", "configmaps", "-A")["items"]} >= {"menu"}


def test_watch(kubectl: Kubectl) -> None:
    """`get -w` prints a row for each change."""
    process = kubectl.start("get", "configmaps", "-w", "--no-headers")
    rows: list[str] = []
    try:
        kubectl.run("create", "configmap", "first", "--from-literal=a=b")
        assert process.stdout is not None
        rows.append(process.stdout.readline())
        kubectl.run("delete", "configmap", "first")
        rows.append(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert [row.split()[0] for row in rows] == ["first", "first"]


def test_client_side_apply(deployed: Kubectl) -> None:
    """`apply` creates, changes by a three-way patch, and sees when nothing changes."""
    manifest = DEPLOYMENT.replace("till", "bell")
    assert "created" in deployed.run("apply", "-f", "-", stdin=manifest)
    assert "unchanged" in deployed.run("apply", "-f", "-", stdin=manifest)
    assert "configured" in deployed.run("apply", "-f", "-", stdin=manifest.replace("1.0", "1.1"))
    container = deployed.json("get", "deployment", "bell")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "lab/bell:1.1"
    assert container["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]


def test_server_side_apply(kubectl: Kubectl) -> None:
    """Field managers conflict unless forced, and a field left out is removed."""
    both = "{apiVersion: v1, kind: ConfigMap, metadata: {name: menu}, data: {soup: leek, price: '4'}}"
    one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: menu}, data: {soup: leek}}"
    other = one.replace("leek", "onion")
    apply = ("apply", "--server-side", "-f", "-")
    kubectl.run(*apply, stdin=both)
    answer = kubectl.run(*apply, "--field-manager=other", stdin=other, code=1)
    assert 'conflict with "kubectl"' in answer
    assert ".data.soup" in answer
    kubectl.run(*apply, stdin=one)
    assert kubectl.json("get", "configmap", "menu")["data"] == {"soup": "leek"}
    kubectl.run(*apply, "--field-manager=other", "--force-conflicts", stdin=other)
    found = kubectl.json("get", "configmap", "menu", "--show-managed-fields")
    assert found["data"] == {"soup": "onion"}
    assert [e["manager"] for e in found["metadata"]["managedFields"]] == ["other"]


def test_edit(deployed: Kubectl) -> None:
    """`edit` sends what the editor changed."""
    deployed.run("edit", "deployment", "till", KUBE_EDITOR="sed -i s/replicas:.2/replicas:\\ 4/")
    assert deployed.json("get", "deployment", "till")["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (
            "json",
            '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "lab/till:2"}]',
        ),
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"till","image":"lab/till:2"}]}}}}'),
        (
            "merge",
            '{"spec":{"template":{"spec":{"containers":[{"name":"till","image":"lab/till:2",'
            '"ports":[{"containerPort":8080}]}]}}}}',
        ),
    ],
)
def test_patch(deployed: Kubectl, kind: str, patch: str) -> None:
    """The three kinds of patch reach the same object."""
    deployed.run("patch", "deployment", "till", f"--type={kind}", "-p", patch)
    [container] = deployed.json("get", "deployment", "till")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "lab/till:2"
    assert container["ports"][0]["containerPort"] == 8080


def test_label_annotate_scale_delete(deployed: Kubectl) -> None:
    """The small verbs work, and each scale is counted in the generation."""
    deployed.run("label", "deployment", "till", "tier=front")
    deployed.run("annotate", "deployment", "till", "note=hello")
    deployed.run("scale", "deployment", "till", "--replicas=7")
    found = deployed.json("get", "deployment", "till", "--show-managed-fields")
    assert found["metadata"]["labels"] == {"app": "till", "tier": "front"}
    assert found["metadata"]["annotations"]["note"] == "hello"
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (7, 2)
    assert "scale" in [e.get("subresource") for e in found["metadata"]["managedFields"]]
    assert "till" in deployed.run("get", "deployments", "-l", "tier=front")
    deployed.run("delete", "deployment", "till")
    deployed.run("create", "configmap", "a", "--from-literal=a=b")
    deployed.run("create", "configmap", "b", "--from-literal=a=b")
    deployed.run("delete", "configmaps", "--all")
    assert deployed.json("get", "configmaps,deployments")["items"] == []


def test_custom_resources(kubectl: Kubectl) -> None:
    """A CustomResourceDefinition appears in discovery, its objects show its printer columns, both vanish."""
    kubectl.run("create", "-f", "-", stdin=CRD)
    kubectl.run("wait", "--for=condition=Established", "crd/gizmos.lab.test", "--timeout=60s")
    assert "lab.test/v1" in kubectl.run("api-resources")
    kubectl.run("create", "-f", "-", stdin=GIZMO)
    table = kubectl.run("get", "gz", "-o", "wide").splitlines()
    assert table[0].split() == ["NAME", "SIZE", "COLOUR"]
    assert table[1].split() == ["one", "3", "red"]
    kubectl.run("scale", "gizmo", "one", "--replicas=5")
    assert kubectl.json("get", "gizmo", "one")["spec"] == {"colour": "red", "size": 5}
    assert "unknown field" in kubectl.run("create", "-f", "-", stdin=GIZMO.replace("colour", "color"), code=1)
    kubectl.run("explain", "gizmo.spec")
    kubectl.run("delete", "crd", "gizmos.lab.test")
    assert "gizmos" not in kubectl.run("api-resources")


def test_authorisation(kubectl: Kubectl) -> None:
    """`auth can-i` and impersonation follow the bindings."""
    assert kubectl.run("auth", "can-i", "create", "pods").strip() == "yes"
    assert kubectl.run("auth", "can-i", "get", "pods", "--as=ada", code=1).strip() == "no"
    kubectl.run("create", "role", "reader", "--verb=get", "--resource=configmaps")
    kubectl.run("create", "rolebinding", "ada", "--role=reader", "--user=ada")
    kubectl.run("create", "configmap", "menu", "--from-literal=a=b")
    assert "menu" in kubectl.run("get", "configmap", "menu", "--as=ada")
    assert "Forbidden" in kubectl.run("delete", "configmap", "menu", "--as=ada", code=1)
    assert "ada" in kubectl.run("auth", "whoami", "--as=ada")


def test_client_certificate(sandbox: SandboxServer, tmp_path: Path) -> None:
    """A client certificate is an identity: its common name the user, its organisations the groups."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(sandbox.kubeconfig(user="grace", groups=("system:masters",)))
    kubectl = Kubectl(sandbox, tmp_path)
    assert "grace" in kubectl.run("auth", "whoami", KUBECONFIG=str(path))
    kubectl.run("create", "configmap", "menu", "--from-literal=a=b", KUBECONFIG=str(path))
    eventually(lambda: len(sandbox.audit_events()) == 2, "the audit events")
    assert {event["user"]["username"] for event in sandbox.audit_events()} == {"grace"}


def test_product_resources(kubectl: Kubectl, admin: Client) -> None:
    """The product's own definitions install, and each kind is listed with its printer columns."""
    folder = Path(__file__).resolve().parents[2] / "deploy" / "crds"
    kubectl.run("create", "-f", str(folder))
    definitions = kubectl.json("get", "crds")["items"]
    assert len(definitions) == len(list(folder.glob("*.yaml")))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    for definition in definitions:
        spec = definition["spec"]
        [version] = [v for v in spec["versions"] if v["storage"]]
        plural = spec["names"]["plural"]
        assert "No resources found" in kubectl.run("get", f"{plural}.{spec['group']}", "-A")
        table = admin.ok("GET", f"/apis/{spec['group']}/{version['name']}/{plural}", headers=accept)
        shown = [column["name"] for column in table["columnDefinitions"]]
        assert shown == ["Name", *(c["name"] for c in version["additionalPrinterColumns"])]
