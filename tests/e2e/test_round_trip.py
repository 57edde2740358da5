"""What Git holds can be applied again: to this cluster it changes nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from reverser.kube.paths import resource_path
from tests import needs
from tests.e2e.operator import Operator
from tests.e2e.trust import ENCRYPTION, age_identity, decrypted, secret
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")
DEPLOYMENT = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "till"}},
    "template": {
        "metadata": {"labels": {"app": "till"}},
        "spec": {
            "containers": [
                {
                    "name": "till",
                    "image": "reg.lab.test:5000/till:1.0",
                    "ports": [{"containerPort": 8080}],
                    "env": [{"name": "ON", "value": "yes"}, {"name": "PORT", "value": "0123"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    },
}
SERVICE = {"selector": {"app": "till"}, "ports": [{"port": 80, "targetPort": "http"}], "clusterIP": "None"}
DATA = {"yes": "no", "long": "x" * 400, "script": "a\n\tb \nc\n", "number": "1.10", "mark": "a\n---\nb\n"}


def test_what_is_in_git_changes_nothing_when_it_is_applied(
    space: Workspace, operator: Operator, tmp_path: Path
) -> None:
    """K15: every document, sealed ones decrypted, is accepted by the API server, and what would become of it
    is what it is.
    """
    group = f"trip{space.namespace.rpartition('-')[2]}.lab.test"
    space.definition(group)
    rules = [
        {**CONFIGMAPS, "resources": ["configmaps", "secrets", "services"]},
        {"apiGroups": ["apps"], "resources": ["deployments"]},
        {"apiGroups": [group], "resources": ["gizmos"]},
    ]
    space.base(rules=rules, encryption=ENCRYPTION)
    space.configmap("odd", DATA, labels={"tier": "front"}, annotations={"note": "a: b # c"})
    secret(space, "safe", {"pin": b"\x00\xff", "note": "line1\nline2\n"})
    space.custom(group, "g", status="open", list=[], nothing={}, float=1.5, text="22:30:00")
    for resource, kind, api, spec in (
        ("services", "Service", "", SERVICE),
        ("deployments", "Deployment", "apps", DEPLOYMENT),
    ):
        version = f"{api}/v1" if api else "v1"
        path = resource_path(api, "v1", resource, namespace=space.namespace)
        space.kube.create(
            path, {"apiVersion": version, "kind": kind, "metadata": {"name": "till"}, "spec": spec}
        )
    wanted = {("ConfigMap", "odd"), ("Secret", "safe"), ("Gizmo", "g"), ("Service", "till")}
    wanted |= {("Deployment", "till")}

    def documents() -> list[tuple[str, dict[str, Any]]]:
        files = [path for path in space.git.files("live") if f"/{space.namespace}/" in path]
        return [(path, yaml.safe_load(space.git.read(path) or b"")) for path in files]

    def complete() -> bool:
        return wanted <= {(body["kind"], body["metadata"]["name"]) for _, body in documents()}

    until(complete, "every object is in Git", 60)
    identity = age_identity(space)
    for path, body in documents():
        text = space.git.read(path) or b""
        if path.endswith(".sops.yaml"):
            text = json.dumps(decrypted(text, identity)).encode()
        assert applied(text, operator.kubeconfig) == live(body, operator.kubeconfig), path


def applied(document: bytes, kubeconfig: Path) -> dict[str, Any]:
    """What the API server would make of a document. Raises AssertionError where it refuses it."""
    return _kubectl(
        kubeconfig, "apply", "--server-side", "--dry-run=server", "-o", "json", "-f", "-", stdin=document
    )


def live(body: dict[str, Any], kubeconfig: Path) -> dict[str, Any]:
    """The object that a document stands for."""
    kind = f"{body['kind']}.{body['apiVersion'].rpartition('/')[0]}".rstrip(".")
    where = body["metadata"]
    return _kubectl(kubeconfig, "get", kind, where["name"], "-n", where["namespace"], "-o", "json")


def _kubectl(kubeconfig: Path, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    done = subprocess.run(
        [needs.kubectl(), f"--kubeconfig={kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    for name in _OF_THE_SERVER:
        found["metadata"].pop(name, None)
    return found
