"""First replay of a realistic mix: twenty kinds, 2 KB on average, one object in twenty a Secret."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyrage

from reverser.errors import KubeConflict
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.trust.sealing import SECRET_REGEX, find_sops
from tests.bench.floor import measure_floor
from tests.bench.installation import installation, settled
from tests.bench.options import Options
from tests.bench.pipeline import first_replay
from tests.bench.report import Report, timed
from tests.e2e.workspace import Workspace

GROUP = "mix.bench.example.com"
CUSTOM = 4
SAMPLE = 40
"""Plain runs of sops from which the time for all is reckoned."""

_TEXT = "lorem ipsum dolor sit amet, consetetur sadipscing elitr\n"
_LABELS = {"app": "web"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of the mix; ``body`` is what an object holds besides its identity."""

    group: str
    version: str
    plural: str
    kind: str
    body: Mapping[str, Any]

    def path(self, namespace: str) -> str:
        """The collection."""
        return resource_path(self.group, self.version, self.plural, namespace=namespace)

    def object(self, number: int) -> dict[str, Any]:
        """One object, padded by an annotation as many real ones are."""
        api = f"{self.group}/{self.version}" if self.group else self.version
        note = _TEXT * (3 + number % 20)
        metadata = {
            "name": f"o{number:05}",
            "labels": {**_LABELS, "number": str(number)},
            "annotations": {"example.com/note": note},
        }
        return {"apiVersion": api, "kind": self.kind, "metadata": metadata, **self.body}


def _pods() -> dict[str, Any]:
    container = {
        "name": "web",
        "image": "registry.example/web:1.0",
        "env": [{"name": f"SETTING_{index}", "value": f"value {index}"} for index in range(8)],
        "resources": {"limits": {"cpu": "1", "memory": "256Mi"}, "requests": {"cpu": "10m"}},
    }
    return {"metadata": {"labels": _LABELS}, "spec": {"containers": [container]}}


def _workload(**more: Any) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": _LABELS}, "template": _pods(), **more}}


def _job() -> dict[str, Any]:
    pods = _pods()
    return {"template": {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}}


def kinds() -> list[Kind]:
    """The twenty kinds, Secrets first. Nothing of it runs or takes an address: no replicas, no node fits,
    suspended, headless.
    """
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    secret = {"password": base64.b64encode(b"a password of some length").decode()}
    nowhere = _workload()
    nowhere["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/nowhere": "true"}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    scale = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
    }
    person = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "web"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"}
    built_in = [
        Kind("", "v1", "secrets", "Secret", {"type": "Opaque", "data": secret}),
        Kind("", "v1", "configmaps", "ConfigMap", {"data": {"text": _TEXT * 5}}),
        Kind(
            "",
            "v1",
            "services",
            "Service",
            {"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": _LABELS}},
        ),
        Kind("", "v1", "serviceaccounts", "ServiceAccount", {}),
        Kind(
            "",
            "v1",
            "limitranges",
            "LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}},
        ),
        Kind("apps", "v1", "deployments", "Deployment", _workload(replicas=0)),
        Kind("apps", "v1", "statefulsets", "StatefulSet", _workload(replicas=0, serviceName="web")),
        Kind("apps", "v1", "daemonsets", "DaemonSet", nowhere),
        Kind("apps", "v1", "replicasets", "ReplicaSet", _workload(replicas=0)),
        Kind(
            "batch",
            "v1",
            "cronjobs",
            "CronJob",
            {"spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": _job()}}},
        ),
        Kind(
            "networking.k8s.io",
            "v1",
            "ingresses",
            "Ingress",
            {"spec": {"rules": [{"http": {"paths": paths}}]}},
        ),
        Kind(
            "networking.k8s.io",
            "v1",
            "networkpolicies",
            "NetworkPolicy",
            {"spec": {"podSelector": {"matchLabels": _LABELS}, "ingress": [{"ports": [{"port": 80}]}]}},
        ),
        Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", {"rules": [rule]}),
        Kind(
            "rbac.authorization.k8s.io",
            "v1",
            "rolebindings",
            "RoleBinding",
            {"roleRef": reference, "subjects": [person]},
        ),
        Kind(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}},
        ),
        Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", {"spec": scale}),
    ]
    return built_in + [
        Kind(
            GROUP, "v1", f"gadget{number}s", f"Gadget{number}", {"spec": {"text": _TEXT * 8, "size": number}}
        )
        for number in range(CUSTOM)
    ]


def run(report: Report, folder: Path, options: Options) -> None:
    """Wall, CPU and memory of the first replay, beside plain tools without and with sealing."""
    mixed = kinds()
    each = max(options.objects // len(mixed), 1)
    with installation(folder) as (operator, space):
        for number in range(CUSTOM):
            _define(space, f"gadget{number}s")
        size = _fill(space.kube, space, mixed, each)
        made = each * len(mixed)
        floor = measure_floor(space.kube, [kind.path(space.namespace) for kind in mixed], folder)
        report.add("mix: floor without sealing", floor.total, "s", note=str(floor))
        recipient = str(pyrage.x25519.Identity.generate().to_public())
        report.add(
            "mix: the Secrets by plain sops", _sealing(mixed[0], recipient) * each, "s", note="reckoned"
        )
        space.provider(window="1s")
        keys = {"enabled": True, "recipients": {"publicKeys": [recipient]}}
        rules = [
            {"apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural]}
            for kind in mixed
        ]
        first_replay(
            report,
            operator,
            space,
            what=f"a mix of {made} objects, {size / made / 1024:.1f} KB each",
            floor=floor,
            rules=rules,
            commits=len(mixed),
            encryption={"provider": "sops", "age": keys},
        )
        settled(operator, space)


def _define(space: Workspace, plural: str) -> None:
    try:
        space.definition(GROUP, plural)
    except KubeConflict:
        return  # a cluster that ran this before


def _fill(kube: Kube, space: Workspace, mixed: list[Kind], each: int) -> int:
    """Create the objects; returns the bytes of all."""
    bodies = [(kind.path(space.namespace), kind.object(number)) for kind in mixed for number in range(each)]

    def create(item: tuple[str, dict[str, Any]]) -> int:
        return len(orjson.dumps(kube.create(*item)))

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(create, bodies))


def _sealing(kind: Kind, recipient: str) -> float:
    """Wall seconds of one plain run of sops, as many at a time as the product runs."""
    options = ["--age", recipient, "--encrypted-regex", SECRET_REGEX, "--input-type", "yaml"]
    command = [str(find_sops()), "--disable-version-check", "--encrypt", "--output-type", "yaml", *options]

    def one(number: int) -> None:
        data = orjson.dumps(kind.object(number))
        subprocess.run([*command, "/dev/stdin"], input=data, check=True, capture_output=True)

    with timed() as taken, ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        list(pool.map(one, range(SAMPLE)))
    return taken.wall / SAMPLE
