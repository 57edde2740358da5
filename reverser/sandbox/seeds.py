"""What the demo starts with: a shop, its configuration, and the custom resources that mirror it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from reverser.errors import KubeConflict, SettingsInvalid
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.sync import Kube

NAMESPACE = "shop"
TARGET = "shop-live"
BRANCH = "main"
PATH = "clusters/demo"
_API = "configbutler.ai/v1alpha3"


def create_repository(path: Path) -> None:
    """A bare repository with the branch ``main`` unborn; what an existing one holds is left alone.

    git completes a repository that an earlier start could make only in part. Raises SettingsInvalid where it
    cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["git", "init", "--quiet", "--bare", "--initial-branch", BRANCH, str(path)],
        check=False,
        timeout=30,
        capture_output=True,
    )
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SettingsInvalid(
            [f"{path}: the repository cannot be made: {reason}; see to its space and rights"]
        )


def custom_resources(repository: Path) -> list[tuple[str, dict[str, Any]]]:
    """(collection path, manifest) of the provider, the target and the rule."""
    provider = {
        "apiVersion": _API,
        "kind": "GitProvider",
        "metadata": {"name": "shop-repo", "namespace": NAMESPACE},
        "spec": {
            "url": f"file://{repository}",
            "allowedBranches": [BRANCH],
            "push": {"commitWindow": "2s"},
        },
    }
    target = {
        "apiVersion": _API,
        "kind": "GitTarget",
        "metadata": {"name": TARGET, "namespace": NAMESPACE},
        "spec": {
            "providerRef": {"name": "shop-repo"},
            "branch": BRANCH,
            "path": PATH,
            "encryption": {
                "provider": "sops",
                "secretRef": {"name": "shop-age"},
                "age": {
                    "enabled": True,
                    "recipients": {"extractFromSecret": True, "generateWhenMissing": True},
                },
            },
        },
    }
    rule = {
        "apiVersion": _API,
        "kind": "WatchRule",
        "metadata": {"name": "shop-config", "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"name": TARGET},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps", "secrets", "services"],
                },
                {"apiGroups": ["apps"], "resources": ["deployments"]},
            ],
        },
    }
    return [
        (own_path("gitproviders", namespace=NAMESPACE), provider),
        (own_path("gittargets", namespace=NAMESPACE), target),
        (own_path("watchrules", namespace=NAMESPACE), rule),
    ]


def workloads() -> list[tuple[str, dict[str, Any]]]:
    """(collection path, manifest) of what the shop runs before anyone watches."""
    opening_hours = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "opening-hours", "namespace": NAMESPACE},
        "data": {"monday": "08:00-18:00", "sunday": "closed"},
    }
    labels = {"app": "till"}
    till = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "till", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "name": "till",
                            "image": "registry.example/till:1.0",
                            "ports": [{"containerPort": 8080}],
                        }
                    ]
                },
            },
        },
    }
    return [
        (core_path("configmaps", namespace=NAMESPACE), opening_hours),
        (resource_path("apps", "v1", "deployments", namespace=NAMESPACE), till),
    ]


def plant(kube: Kube, repository: Path) -> None:
    """Create namespace, workloads and custom resources; what exists is left as it is."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for path, manifest in [(core_path("namespaces"), namespace), *workloads(), *custom_resources(repository)]:
        try:
            kube.create(path, manifest)
        except KubeConflict as error:
            if not error.exists:
                raise
