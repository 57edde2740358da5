"""What an API server refuses at write time and what it lets pass, field by field (everything else that is
wrong is told in a status).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from enum import Enum
from typing import Any

import orjson
import pytest
import yaml

from reverser.errors import KubeInvalid
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from tests.crds.test_crds import CRD_DIR, CRDS

GOOD: dict[str, dict[str, Any]] = {
    "GitProvider": {"url": "https://git.example.com/x.git", "allowedBranches": ["main"]},
    "GitTarget": {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"},
    "WatchRule": {"targetRef": {"name": "gt"}, "rules": [{"resources": ["configmaps"]}]},
    "ClusterWatchRule": {
        "targetRef": {"name": "gt", "namespace": "shop"},
        "rules": [{"scope": "Cluster", "resources": ["nodes"]}],
    },
    "CommitRequest": {"targetRef": {"name": "gt"}},
}


class Absent(Enum):
    """A field that is taken away. An enumeration has the same name in every test process."""

    GONE = "gone"


GONE = Absent.GONE


@pytest.fixture(scope="module")
def kube() -> Iterator[Kube]:
    with SandboxServer(record=False) as server:
        client = Kube.connect(str(server.kubeconfig_path))
        definitions = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        for path in sorted(CRD_DIR.glob("*.yaml")):
            client.create(definitions, yaml.safe_load(path.read_text()))
        client.create(core_path("namespaces"), {"metadata": {"name": "shop"}})
        yield client
        client.close()


def changed(kind: str, path: str, value: Any) -> dict[str, Any]:
    """The good spec of a kind with one field set, or gone."""
    spec = copy.deepcopy(GOOD[kind])
    node: Any = spec
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return spec


def create(kube: Kube, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Create, as a dry run."""
    namespace = "" if kind == "ClusterWatchRule" else "shop"
    body = {
        "apiVersion": "configbutler.ai/v1alpha3",
        "kind": kind,
        "metadata": {"name": "x", **({"namespace": namespace} if namespace else {})},
        "spec": spec,
    }
    plural = CRDS[kind]["spec"]["names"]["plural"]
    answer = kube.raw("POST", own_path(plural, namespace=namespace), body=body, query={"dryRun": "All"})
    made: dict[str, Any] = orjson.loads(answer)
    return made


REFUSED: list[tuple[str, str, Any]] = [
    ("GitProvider", "url", GONE),
    ("GitProvider", "url", ""),
    ("GitProvider", "allowedBranches", GONE),
    ("GitProvider", "allowedBranches", []),
    ("GitProvider", "allowedBranches", [""]),
    ("GitProvider", "secretRef", {"name": ""}),
    ("GitProvider", "secretRef", {}),
    ("GitProvider", "secretRef", {"name": "x", "kind": "ConfigMap"}),
    ("GitProvider", "secretRef", {"name": "x", "group": "apps"}),
    ("GitProvider", "knownHostsRef", {"name": "x", "kind": "Pod"}),
    ("GitProvider", "knownHostsRef", {"name": ""}),
    ("GitProvider", "commit.signing", {}),
    ("GitProvider", "commit.signing.secretRef", {"name": ""}),
    ("GitProvider", "commit.signing", {"secretRef": {"name": "x"}, "generateWhenMissing": "yes"}),
    ("GitTarget", "providerRef", GONE),
    ("GitTarget", "providerRef", {"name": ""}),
    ("GitTarget", "providerRef", {"name": "x", "kind": "GitRepository"}),
    ("GitTarget", "providerRef", {"name": "x", "group": "source.toolkit.fluxcd.io"}),
    ("GitTarget", "branch", GONE),
    ("GitTarget", "branch", ""),
    ("GitTarget", "path", GONE),
    ("GitTarget", "path", ""),
    ("GitTarget", "path", "a\nb"),
    ("GitTarget", "encryption.provider", "vault"),
    ("GitTarget", "encryption.secretRef", {"name": ""}),
    ("GitTarget", "encryption.age.recipients.publicKeys", [""]),
    ("GitTarget", "prune.mode", "Sometimes"),
    ("GitTarget", "ignoreFields", [{"kind": "Deployment", "pointers": []}]),
    ("GitTarget", "ignoreFields", [{"kind": "Deployment", "pointers": ["spec"]}]),
    ("WatchRule", "targetRef", GONE),
    ("WatchRule", "targetRef", {"name": "x", "kind": "GitRepository"}),
    ("WatchRule", "rules", GONE),
    ("WatchRule", "rules", []),
    ("WatchRule", "rules.0", {}),
    ("WatchRule", "rules.0.resources", []),
    ("WatchRule", "rules.0.resources", [""]),
    ("WatchRule", "rules.0.resources", ["pods/log"]),
    ("WatchRule", "rules.0.operations", ["PATCH"]),
    ("WatchRule", "rules.0.operations", ["create"]),
    ("ClusterWatchRule", "targetRef", {"name": "x"}),
    ("ClusterWatchRule", "targetRef", {"name": "x", "namespace": ""}),
    ("ClusterWatchRule", "rules.0.scope", GONE),
    ("ClusterWatchRule", "rules.0.scope", "Everything"),
    ("CommitRequest", "targetRef", GONE),
    ("CommitRequest", "targetRef", {"name": ""}),
    ("CommitRequest", "message", ""),
    ("CommitRequest", "message", "x" * 1025),
    ("CommitRequest", "message", "a\tb"),
    ("CommitRequest", "message", "a\rb"),
    ("CommitRequest", "closeDelaySeconds", -1),
    ("CommitRequest", "closeDelaySeconds", 301),
    ("CommitRequest", "closeDelaySeconds", "5"),
    ("CommitRequest", "ttlSecondsAfterFinished", -1),
]
TAKEN: list[tuple[str, str, Any]] = [
    ("GitProvider", "url", "ext::sh"),
    ("GitProvider", "allowedBranches", ["[", "env/*"]),
    ("GitProvider", "push.commitWindow", "soon"),
    ("GitProvider", "commit.message.eventTemplate", "{{.Oops}}"),
    ("GitProvider", "commit.committer.name", " "),
    ("GitTarget", "providerRef", {"name": "x", "kind": "GitProvider", "group": "configbutler.ai"}),
    ("GitTarget", "branch", "--mirror"),
    ("GitTarget", "path", "."),
    ("GitTarget", "path", "../up"),
    ("GitTarget", "path", "deep/ü/ø"),
    ("GitTarget", "placement.byType", {"v1": "x"}),
    ("GitTarget", "placement.default", "../x.yaml"),
    ("GitTarget", "encryption.age.recipients.publicKeys", ["age1broken"]),
    ("WatchRule", "rules.0.operations", ["*", "CREATE", "UPDATE", "DELETE"]),
    ("WatchRule", "rules.0.apiGroups", ["", "*"]),
    ("WatchRule", "rules.0.resources", ["*", "ConfigMaps"]),
    ("CommitRequest", "message", "ü" * 1024),
    ("CommitRequest", "message", "a\n\nb"),
    ("CommitRequest", "closeDelaySeconds", 300),
]


@pytest.mark.parametrize(("kind", "path", "value"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_the_schema_refuses(kube: Kube, kind: str, path: str, value: Any) -> None:
    """Sheet 2.1 to 2.5: the answer names the field."""
    with pytest.raises(KubeInvalid) as refused:
        create(kube, kind, changed(kind, path, value))
    assert path.split(".", maxsplit=1)[0] in str(refused.value)


@pytest.mark.parametrize(("kind", "path", "value"), TAKEN, ids=lambda value: str(value)[:40])
def test_what_is_judged_in_the_status_is_taken(kube: Kube, kind: str, path: str, value: Any) -> None:
    """S7: only schema and CEL reject at write time."""
    create(kube, kind, changed(kind, path, value))


@pytest.mark.parametrize("kind", GOOD)
def test_defaults_are_filled_in(kube: Kube, kind: str) -> None:
    """Sheet 2.1, 2.5: references are spelled out, the delay is 0."""
    spec = create(kube, kind, GOOD[kind])["spec"]
    for field, of in (("providerRef", "GitProvider"), ("targetRef", "GitTarget")):
        if field in spec:
            assert (spec[field]["group"], spec[field]["kind"]) == ("configbutler.ai", of)
    if kind == "CommitRequest":
        assert spec["closeDelaySeconds"] == 0
    secret = create(kube, "GitProvider", changed("GitProvider", "secretRef", {"name": "x"}))["spec"][
        "secretRef"
    ]
    assert (secret["group"], secret["kind"]) == ("", "Secret")


def test_applying_again_and_spelling_out_defaults_is_no_change(kube: Kube) -> None:
    """Sheet 2.3: a no-op re-apply of an immutable field succeeds, another value does not."""
    path = own_path("gittargets", namespace="shop")
    body = {"apiVersion": "configbutler.ai/v1alpha3", "kind": "GitTarget", "metadata": {"name": "gt"}}
    made = kube.create(path, {**body, "spec": GOOD["GitTarget"]})
    one = own_path("gittargets", namespace="shop", name="gt")
    whole = {"providerRef": {"group": "configbutler.ai", "kind": "GitProvider", "name": "gp"}}
    same = kube.patch(one, {"spec": {**GOOD["GitTarget"], **whole}})
    assert same["metadata"]["generation"] == made["metadata"]["generation"]
    for field, value in (("providerRef", {"name": "other"}), ("branch", "x"), ("path", "y")):
        with pytest.raises(KubeInvalid, match=rf"spec\.{field} is immutable"):
            kube.patch(one, {"spec": {field: value}})
        with pytest.raises(KubeInvalid):
            kube.patch(one, {"spec": {field: None}})
    kube.patch(one, {"spec": {"prune": {"mode": "Never"}, "placement": {"default": "x"}}})
