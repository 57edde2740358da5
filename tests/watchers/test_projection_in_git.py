"""The projection on its way into a file: what the watcher leaves out, the writer leaves as Git has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gitwriter.manifests import MemoryTree, Policy, Upsert, WritePlan, plan_writes
from watchers.sanitize import sanitize

INJECT = {"cert-manager.io/inject-ca-from": "shop/cert"}


def webhooks(bundle: str | None, timeout: int) -> dict[str, Any]:
    client: dict[str, Any] = {"url": "https://hooks.lab.test/a"}
    if bundle is not None:
        client["caBundle"] = bundle
    hook = {"name": "a.lab.test", "clientConfig": client, "timeoutSeconds": timeout}
    other = {"name": "b.lab.test", "clientConfig": {**client}, "timeoutSeconds": 3}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "checks", "annotations": INJECT},
        "webhooks": [hook, other],
    }


def definition(bundle: str | None, timeout: int) -> dict[str, Any]:
    client: dict[str, Any] = {"url": "https://hooks.lab.test/a"}
    if bundle is not None:
        client["caBundle"] = bundle
    webhook = {"clientConfig": client, "conversionReviewVersions": [f"v{timeout}"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.lab.test", "annotations": INJECT},
        "spec": {"group": "lab.test", "conversion": {"strategy": "Webhook", "webhook": webhook}},
    }


def service(bundle: str | None, timeout: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"group": "lab.test", "version": "v1", "groupPriorityMinimum": timeout}
    if bundle is not None:
        spec["caBundle"] = bundle
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.lab.test", "annotations": INJECT},
        "spec": spec,
    }


RESOURCES = {
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "CustomResourceDefinition": "customresourcedefinitions",
    "APIService": "apiservices",
}


def arrives(files: dict[str, bytes], live: dict[str, Any]) -> WritePlan:
    """The plan for one live object, as watcher and writer make it together."""
    group, version = live["apiVersion"].split("/")
    kind, name = live["kind"], live["metadata"]["name"]
    change = Upsert(group, version, RESOURCES[kind], kind, False, "", name, body=sanitize(live))
    return plan_writes(MemoryTree(files), [change], Policy())


@pytest.mark.parametrize("make", [webhooks, definition, service])
@pytest.mark.parametrize("in_git", [None, "Z2l0"])
def test_an_injected_bundle_is_git_s_own_business(
    make: Callable[[str | None, int], dict[str, Any]], in_git: str | None
) -> None:
    """Pain 41: whatever cert-manager injects, and however often, Git's bundle (or its absence) stays; other
    changes of the object arrive beside it.
    """
    text = yaml.safe_dump(make(in_git, 5), sort_keys=False).encode()
    files = {"checks.yaml": text}
    for rotated in ("b25l", "dHdv"):
        assert "checks.yaml" not in arrives(files, make(rotated, 5)).files
    written = arrives(files, make("dHdv", 9)).files["checks.yaml"]
    assert written is not None
    assert yaml.safe_load(written) == make(in_git, 9)
    assert len(set(written.splitlines()) ^ set(text.splitlines())) == 2


@pytest.mark.parametrize("make", [webhooks, definition, service])
def test_a_new_document_has_no_injected_bundle(
    make: Callable[[str | None, int], dict[str, Any]],
) -> None:
    """Pain 41: it would be outdated at the next rotation."""
    (written,) = [data for path, data in arrives({}, make("b25l", 5)).files.items() if path.endswith(".yaml")]
    assert written is not None
    assert yaml.safe_load(written) == make(None, 5)
