"""Rendering with real kubectl and real Helm, and judging what comes out."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from helm_python.chart import Chart

from reverser.config import Config, load_config
from reverser.health import PATHS
from tests import needs

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
KUBERNETES = "1.36"
# Served by operators of others; no public schema is at hand.
FOREIGN_GROUPS = ("cert-manager.io", "monitoring.coreos.com")

Manifest = dict[str, Any]
_JUDGED: set[str] = set()


def kubectl(*arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
    """Standard output of kubectl. Raises AssertionError with its words."""
    chosen = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    done = subprocess.run(
        [needs.kubectl(), *chosen, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kustomized(folder: Path) -> list[Manifest]:
    """The manifests of a kustomization."""
    return parsed(kubectl("kustomize", str(folder)))


def helm(values: Mapping[str, Any] | None = None, *, name: str = "mirror", namespace: str = "mirrors") -> str:
    """The chart's manifests as one text, notes left out. Raises helm_python's errors."""
    with Chart.load(CHART) as chart:
        chart.validate_schema(dict(values or {}))
        files = chart.render(dict(values or {}), name=name, namespace=namespace)
    return "\n---\n".join(text for path, text in sorted(files.items()) if path.endswith(".yaml"))


def parsed(text: str) -> list[Manifest]:
    """Manifests of a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]


def check_schemas(manifests: Iterable[Manifest]) -> None:
    """Every built-in object keeps strictly to the schema of its kind. What was judged is not judged again:
    variants share most of what they render.
    """
    for manifest in manifests:
        if manifest["apiVersion"].partition("/")[0] in FOREIGN_GROUPS:
            continue
        text = json.dumps(manifest, sort_keys=True)
        if text in _JUDGED:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        _JUDGED.add(text)


def by_kind(manifests: Iterable[Manifest], kind: str) -> dict[str, Manifest]:
    """Objects of one kind by name."""
    return {m["metadata"]["name"]: m for m in manifests if m["kind"] == kind}


def pods(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Pod templates by the name of their Deployment or StatefulSet."""
    found = list(manifests)
    return {
        name: workload["spec"]["template"]
        for kind in ("Deployment", "StatefulSet")
        for name, workload in by_kind(found, kind).items()
    }


def check_pods(manifests: Iterable[Manifest]) -> None:
    """Every pod fits the `restricted` profile, has a read-only root, probes and bounds, and mounts what it
    names.
    """
    found = list(manifests)
    assert pods(found)
    for name, template in pods(found).items():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] == 65532, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["enableServiceLinks"] is False, name
        volumes = {volume["name"] for volume in spec["volumes"]}
        workload = by_kind(found, "StatefulSet").get(name, {})
        volumes |= {c["metadata"]["name"] for c in workload.get("spec", {}).get("volumeClaimTemplates", ())}
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["capabilities"] == {"drop": ["ALL"]}, name
            assert "memory" in container["resources"]["limits"], name
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, name
        for container in spec["containers"]:
            ports = {port["name"] for port in container["ports"]}
            for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
                assert container[probe]["httpGet"]["port"] in ports, name
                assert container[probe]["httpGet"]["path"] == path
                assert path in PATHS
        mounted = {mount["name"] for c in spec["containers"] for mount in c["volumeMounts"]}
        assert mounted == volumes, f"{name} has volumes that nothing mounts"


def check_references(manifests: Iterable[Manifest]) -> None:
    """Selectors of Services find pods, target ports exist, roles that are bound exist, ConfigMaps exist."""
    found = list(manifests)
    templates = pods(found)
    for name, service in by_kind(found, "Service").items():
        wanted = service["spec"]["selector"].items()
        chosen = [t for t in templates.values() if wanted <= t["metadata"]["labels"].items()]
        assert chosen, f"Service {name} selects no pod"
        for port in service["spec"]["ports"]:
            named = {p["name"] for t in chosen for c in t["spec"]["containers"] for p in c["ports"]}
            assert port["targetPort"] in named, f"Service {name}: no port {port['targetPort']}"
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        for name, item in by_kind(found, kind).items():
            spec = item["spec"]
            labels = (spec.get("selector") or spec.get("podSelector"))["matchLabels"].items()
            assert any(labels <= t["metadata"]["labels"].items() for t in templates.values()), name
    accounts = by_kind(found, "ServiceAccount")
    for kind, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        for name, binding in by_kind(found, kind).items():
            assert binding["roleRef"]["name"] in by_kind(found, role), name
            for subject in binding["subjects"]:
                if subject["kind"] == "Group":
                    continue
                assert subject["namespace"] == accounts[subject["name"]]["metadata"]["namespace"], name
    configmaps = by_kind(found, "ConfigMap")
    for name, template in templates.items():
        for container in template["spec"]["containers"]:
            for source in container["envFrom"]:
                assert source["configMapRef"]["name"] in configmaps, name


def environment(manifests: Iterable[Manifest], workload: str) -> dict[str, str]:
    """What the first container of a workload finds in its environment, plain values only."""
    found = list(manifests)
    container = pods(found)[workload]["spec"]["containers"][0]
    values: dict[str, str] = {}
    for source in container["envFrom"]:
        values |= by_kind(found, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return values | {item["name"]: item["value"] for item in container["env"] if "value" in item}


def accepted_config(manifests: Sequence[Manifest], workload: str, folder: Path) -> Config:
    """The settings of a workload as the product reads them, with its ports checked; ``folder`` takes files in
    place of mounted Secrets.
    """
    values = environment(manifests, workload)
    for key in [key for key in values if key.endswith("_FILE")]:
        secret = folder / key
        secret.write_text("redis://valkey:6379/0")
        values[key] = str(secret)
    config = load_config(values)
    check_ports(manifests, workload, config)
    return config


def check_ports(manifests: Iterable[Manifest], workload: str, config: Config) -> None:
    """Each port of a workload is the one that its process, with these settings, listens on; and each address
    that it listens on has a port.
    """
    web = workload.endswith("web") or by_kind(manifests, "StatefulSet").get(workload) is not None
    wanted = {"http": config.http_addr.port} if web else {"metrics": config.health_addr.port}
    if web and config.author_attribution:
        wanted["audit"] = config.audit_addr.port
    if web and config.admission_cert_dir is not None:
        wanted["admission"] = config.admission_addr.port
    if config.metrics_cert_dir is not None:
        wanted["metrics-tls"] = config.metrics_addr.port
    container = pods(manifests)[workload]["spec"]["containers"][0]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == wanted, workload
