"""One API server that knows the kinds of cert-manager and of the Prometheus operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reverser.sandbox.thread import SandboxServer
from tests.deploy.render import DEPLOY, kubectl

_FOREIGN = {
    "cert-manager.io": ("v1", {"issuers": "Issuer", "certificates": "Certificate"}),
    "monitoring.coreos.com": (
        "v1",
        {"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"},
    ),
}


def _definitions() -> str:
    documents = []
    for group, (version, kinds) in _FOREIGN.items():
        for plural, kind in kinds.items():
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
            documents.append(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": f"{plural}.{group}"},
                    "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
                }
            )
    return yaml.safe_dump_all(documents)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """The kubeconfig of a cluster with the definitions and two empty namespaces."""
    with SandboxServer() as server:
        path = server.kubeconfig_path
        kubectl("apply", "--server-side", "-f", str(DEPLOY / "crds"), kubeconfig=path)
        kubectl("apply", "-f", "-", stdin=_definitions(), kubeconfig=path)
        for namespace in ("gitops-reverser", "mirrors"):
            kubectl("create", "namespace", namespace, kubeconfig=path)
        yield path
