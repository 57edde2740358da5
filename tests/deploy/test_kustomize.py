"""The kustomizations: an API server accepts what they render, it hangs together, and is what was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from reverser.supervision.up import TERM_LIMIT_SECONDS
from tests.deploy.render import (
    DEPLOY,
    accepted_config,
    by_kind,
    check_pods,
    check_references,
    check_schemas,
    kubectl,
    kustomized,
    parsed,
    pods,
)
from tests.e2e.test_health import COMMANDS
from webhooks.server import Limits

OVERLAYS = DEPLOY / "kustomize" / "overlays"
VARIANTS = (
    ("minimal", ()),
    ("minimal", ("attribution", "admission", "cert-manager", "monitoring")),
    ("ha", ()),
    ("ha", ("attribution",)),
    ("ha", ("admission",)),
    (
        "ha",
        ("attribution", "admission", "cert-manager", "monitoring", "impersonation", "people", "metrics-tls"),
    ),
)


def composed(folder: Path, overlay: str, components: tuple[str, ...]) -> Path:
    """A kustomization of a person's own on top of an overlay."""
    here = folder / "mine"
    here.mkdir()
    kustomize = DEPLOY / "kustomize"
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(kustomize / "overlays" / overlay, here)],
        "components": [os.path.relpath(kustomize / "components" / name, here) for name in components],
    }
    (here / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return here


@pytest.mark.parametrize(("overlay", "components"), VARIANTS)
def test_every_variant_is_accepted(
    overlay: str, components: tuple[str, ...], cluster: Path, tmp_path: Path
) -> None:
    """Each overlay, with each set of components, keeps to the schemas, hangs together, and an API server
    accepts it without a warning.
    """
    text = kubectl("kustomize", str(composed(tmp_path, overlay, components)))
    manifests = parsed(text)
    check_schemas(manifests)
    check_pods(manifests)
    check_references(manifests)
    out = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text, kubeconfig=cluster)
    assert out.count("(server dry run)") == len(manifests)
    assert all("app.kubernetes.io/name" in m["metadata"].get("labels", {}) for m in pods(manifests).values())


@pytest.mark.parametrize("overlay", ["minimal", "ha"])
def test_settings_are_settings(overlay: str, tmp_path: Path) -> None:
    """Each process's environment is one that the product accepts, with attribution and admission on."""
    manifests = kustomized(composed(tmp_path, overlay, ("attribution", "admission")))
    for name in pods(manifests):
        config = accepted_config(manifests, name, tmp_path)
        assert str(config.state_dir) == "/state"
        if name.endswith(("web", "watcher")) or overlay == "minimal":
            assert config.author_attribution, name
        if name.endswith("web") or overlay == "minimal":
            assert str(config.admission_cert_dir) == "/certificates/admission"


def test_high_availability_is_that() -> None:
    """Two or more of everything but beat, spread over nodes, with budgets that never block a drain."""
    manifests = kustomized(OVERLAYS / "ha")
    deployments = by_kind(manifests, "Deployment")
    assert set(deployments) == {f"gitops-reverser-{kind}" for kind in ("web", "watcher", "worker", "beat")}
    for name, deployment in deployments.items():
        if name == "gitops-reverser-beat":
            assert deployment["spec"]["replicas"] == 1
            assert deployment["spec"]["strategy"] == {"type": "Recreate"}
            continue
        assert deployment["spec"]["replicas"] >= 2, name
        assert deployment["spec"]["template"]["spec"]["topologySpreadConstraints"], name
        assert by_kind(manifests, "PodDisruptionBudget")[name]["spec"]["maxUnavailable"] == 1


def test_grace_covers_the_shutdown() -> None:
    """Kubernetes waits longer than each process takes at most: 25 s for a worker, 24 s for `up`."""
    ha, minimal = pods(kustomized(OVERLAYS / "ha")), pods(kustomized(OVERLAYS / "minimal"))
    assert ha["gitops-reverser-worker"]["spec"]["terminationGracePeriodSeconds"] > 25
    web = ha["gitops-reverser-web"]["spec"]
    (pause,) = web["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1:]
    # Two listeners and the main server let requests finish, one after the other; then the metrics.
    assert web["terminationGracePeriodSeconds"] > int(pause) + 2 * Limits().drain + 5 + 4
    assert ha["gitops-reverser-watcher"]["spec"]["terminationGracePeriodSeconds"] > 25
    assert minimal["gitops-reverser"]["spec"]["terminationGracePeriodSeconds"] > TERM_LIMIT_SECONDS


def test_processes_are_started_as_the_tests_start_them() -> None:
    """The commands of the manifests are those that tests/e2e/test_health.py drives."""
    for name, template in pods(kustomized(OVERLAYS / "ha")).items():
        container = template["spec"]["containers"][0]
        driven = list(COMMANDS[name.removeprefix("gitops-reverser-")])
        if "args" in container:
            assert container["args"] == driven[2:], name
        else:
            ours = [word for word in driven[2:] if word != "health@%h"]
            assert container["command"][:2] == ["tini", "--"]
            assert [word for word in container["command"][2:] if word != "worker@%h"] == ours, name


def test_private_keys_of_authorities_stay_out_of_pods(tmp_path: Path) -> None:
    """No pod mounts the Secret with the root's private key, nor the API server's client key."""
    manifests = kustomized(composed(tmp_path, "ha", ("attribution", "admission", "cert-manager")))
    mounted = {
        volume["secret"]["secretName"]
        for template in pods(manifests).values()
        for volume in template["spec"]["volumes"]
        if "secret" in volume
    }
    assert mounted == {
        "gitops-reverser-connections",
        "gitops-reverser-audit-server",
        "gitops-reverser-admission-server",
    }
