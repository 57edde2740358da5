"""The doctor: each finding with its remedy, and an exit code that scripts can use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from reverser.controllers.doctor.cluster import (
    check_command_namespace,
    check_impersonation,
    check_needs,
    check_sensitive,
    missing_parts,
    needs,
)
from reverser.controllers.doctor.data import NEWEST_FACTS, audit_lags, judge_lag
from reverser.controllers.doctor.examine import examine
from reverser.controllers.doctor.findings import Finding, Level, exit_code, good, note, problem, render
from reverser.controllers.doctor.remotes import check_target
from reverser.kinds.parse import parse_git_target
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.sync import Kube
from reverser.management import roles
from reverser.management.roles import Grant
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from reverser.store.attribution import Fact as AuditFact
from reverser.store.attribution import encode
from tests.controllers.builders import provider, target
from tests.controllers.cluster import CRD_DIR, CRDS
from watchers.discovery import Resource
from watchers.registry import Registry, TypeRecord, Verdict

CONFIG: Any = SimpleNamespace(
    command_namespace="default",
    default_known_hosts_configmap="",
    insecure_allow_missing_known_hosts=False,
    additional_sensitive_resources=frozenset({"secrets"}),
    author_attribution=False,
    author_attribution_ttl=900.0,
    author_attribution_grace=3.0,
)


def test_the_screen_and_the_exit_code() -> None:
    """The last line counts, a remedy follows its problem, and only a problem makes the exit code 1."""
    findings = [good("a", "fine"), note("b", "hm"), problem("c", "bad", "do this")]
    text = render(findings)
    assert text.splitlines()[-1] == "1 problem(s), 1 note(s)"
    assert "-> do this" in text
    assert (exit_code(findings), exit_code(findings[:2])) == (1, 0)
    assert render([good("a", "fine")]).endswith("everything is in order")


def test_an_older_definition_is_told_by_what_it_lacks() -> None:
    """Additions of the API server and descriptions do not count."""
    wanted = {"a": 1, "items": [{"name": "x", "k": [1, 2]}], "description": "new words"}
    same = {"a": 1, "items": [{"name": "y"}, {"name": "x", "k": [1, 2], "more": 1}], "z": 1}
    assert list(missing_parts(wanted, same, "spec")) == []
    older = {"a": 2, "items": [{"name": "x", "k": [1]}]}
    assert list(missing_parts(wanted, older, "spec")) == ["spec.a differs", "spec.items[x].k has fewer items"]


def test_a_sensitive_type_that_is_not_served_is_a_problem() -> None:
    """E1: its objects would be written in clear text under another name; what is served says nothing."""
    gizmos = Resource("lab.test", "v1", "gizmos", "Gizmo", True)
    record = TypeRecord(gizmos, Verdict.FOLLOWABLE, None, "")
    registry = Registry({record.key: record}, ready=True)
    found = list(check_sensitive(frozenset({"secrets", "lab.test/gizmo", "gizmos"}), registry))
    assert [f.level for f in found] == [Level.PROBLEM]
    assert "'gizmos' is no type that the cluster serves" in found[0].text
    assert "lab.test/gizmos may be meant" in found[0].text
    assert "clear text" in found[0].remedy
    assert list(check_sensitive(frozenset({"secrets", "lab.test/gizmo", "gizmos.lab.test"}), registry)) == []
    away = Registry({record.key: record}, ready=True, degraded=frozenset({("away.test", "v1")}))
    for entry in ("away.test/things", "things.away.test"):
        assert [f.level for f in check_sensitive(frozenset({entry}), away)] == [Level.NOTE]


def test_denied_permissions_are_named() -> None:
    """One finding per permission, with a remedy."""

    def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
        attributes = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": attributes["resource"] != "secrets"}}

    kube: Any = SimpleNamespace(create=create)
    found = list(
        check_needs(kube, [Grant("", "secrets", "get", "shop"), Grant("apps", "deployments", "list")])
    )
    assert [(f.level, f.text) for f in found] == [
        (Level.PROBLEM, "not allowed: get secrets in namespace shop")
    ]


def test_what_is_asked_is_what_is_shipped() -> None:
    """Every permission of the shipped operator roles is asked for, and nothing that they do not hold: a
    CommitRequest's deletion, TokenReviews and SubjectAccessReviews included.
    """
    wanted = set(needs([], [], [], Registry(), command_namespace="ops"))
    shipped = set()
    for role in roles.standard_roles(roles.Subject("ops")):
        if not str(role["metadata"]["name"]).endswith(("-secrets", "-watch-any")):
            for rule in role.get("rules", ()):
                shipped |= {
                    Grant(group, resource, verb, role["metadata"].get("namespace", ""), name)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                    for name in rule.get("resourceNames", [""])
                }
    assert wanted == shipped
    assert {
        Grant("configbutler.ai", "commitrequests", "delete"),
        Grant("authentication.k8s.io", "tokenreviews", "create"),
        Grant("authorization.k8s.io", "subjectaccessreviews", "create"),
    } <= wanted


def test_named_objects_are_asked_for_by_name() -> None:
    """A narrow role that grants one Secret is enough for the doctor, too."""
    asked: list[dict[str, Any]] = []

    def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body["spec"]["resourceAttributes"])
        return {"status": {"allowed": True}}

    kube: Any = SimpleNamespace(create=create)
    found = needs(
        [provider(secret_name="cred")],
        [target()],
        [],
        Registry(),
        command_namespace="ops",
        default_known_hosts="hosts",
    )
    assert [f.level for f in check_needs(kube, found)] == [Level.OK]
    assert {"resource": "secrets", "verb": "get", "namespace": "shop", "name": "cred"} in asked
    assert {"resource": "configmaps", "verb": "get", "namespace": "ops", "name": "hosts"} in asked
    assert {
        "group": "configbutler.ai", "resource": "gittargets", "subresource": "status", "verb": "update"
    } in asked  # fmt: skip


@pytest.mark.parametrize("granted", [True, False])
def test_impersonation_is_a_choice(granted: bool) -> None:
    """Said either way, and never a problem."""
    kube: Any = SimpleNamespace(create=lambda *_: {"status": {"allowed": granted}})
    (finding,) = check_impersonation(kube)
    assert finding.level is (Level.OK if granted else Level.NOTE)


def test_a_missing_command_namespace_is_told(kube: Kube) -> None:
    """The Lease is then asked for where it is really kept."""
    where, finding = check_command_namespace(kube, "not-there")
    assert where == "default"
    assert finding is not None
    assert "REVERSER_COMMAND_NAMESPACE" in finding.remedy
    assert check_command_namespace(kube, "default") == ("default", None)


@pytest.mark.parametrize(
    ("lags", "level"),
    [([], Level.NOTE), ([0.5] * 99 + [30.0], Level.OK), ([0.5] * 90 + [10.0] * 10, Level.PROBLEM)],
)
def test_audit_lag_against_the_grace(lags: list[float], level: Level) -> None:
    """The batch-max-wait trap: 95 of 100 facts must be there in time."""
    assert judge_lag(lags, grace=3.0).level is level


def test_audit_lag_is_read_from_what_is_there(store: Store) -> None:
    """Arrival is told from the remaining time to live; odd values are skipped, and what was sent again after
    nobody had listened."""
    fact = AuditFact(
        "configmaps", "a", "alice", "patch", uid="u", stage_timestamp="2031-01-01T00:00:00.123456789Z"
    )
    late = replace(fact, stage_timestamp="2030-12-31T23:50:00.000000000Z", from_before=True)
    staged, began = 1_924_992_000_123, store.time_ms()
    for number, value in enumerate((encode(fact), encode(late), b"odd", b'{"conflict":true}')):
        store.client.set(f"gitops-reverser:author:v1:audit:configmaps:object:u:{number}", value, px=800_000)
    (lag,) = audit_lags(store, ttl=900.0, now_ms=staged + 102_000)
    took = (store.time_ms() - began) / 1000
    assert 1.99 - took <= lag <= 2.01


def test_audit_lag_is_that_of_the_newest(store: Store) -> None:
    """Whoever shortens the batches is not told of the slow ones of the last quarter of an hour."""
    new, old, began = "2031-01-01T00:00:00", "2030-12-31T23:55:00", store.time_ms()
    for number in range(NEWEST_FACTS + 50):
        stamp, left = (new, 800_000) if number < NEWEST_FACTS else (old, 530_000)
        fact = AuditFact("configmaps", "a", "alice", "patch", uid="u", stage_timestamp=f"{stamp}.000000000Z")
        store.client.set(
            f"gitops-reverser:author:v1:audit:configmaps:object:u:{number}", encode(fact), px=left
        )
    lags = audit_lags(store, ttl=900.0, now_ms=1_924_992_000_000 + 102_000)
    took = (store.time_ms() - began) / 1000
    assert len(lags) == NEWEST_FACTS
    assert 1.99 - took <= lags[-1] <= 2.01


@pytest.fixture
def kube(sandbox: SandboxServer) -> Iterator[Kube]:
    client = Kube.connect(str(sandbox.kubeconfig_path))
    yield client
    client.close()


def configured(kube: Kube, url: str) -> None:
    for path in sorted(CRD_DIR.glob("*.yaml")):
        kube.create(CRDS, yaml.safe_load(path.read_text()))
    kube.create(core_path("namespaces"), {"metadata": {"name": "shop"}})
    for kind, resource, name, spec in (
        ("GitProvider", "gitproviders", "gp", {"url": url, "allowedBranches": ["main"]}),
        ("GitTarget", "gittargets", "gt", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}),
        (
            "WatchRule",
            "watchrules",
            "wr",
            {"targetRef": {"name": "gt"}, "rules": [{"resources": ["configmaps", "gizmos"]}]},
        ),
    ):
        body = {
            "apiVersion": "configbutler.ai/v1alpha3",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            "spec": spec,
        }
        kube.create(own_path(resource, namespace="shop"), body)


def run(kube: Kube, sandbox: SandboxServer, store: Store | None) -> list[Finding]:
    kubeconfig = str(sandbox.kubeconfig_path)
    return list(examine(CONFIG, kube=kube, store=store, kubeconfig=kubeconfig, namespace="shop"))


@pytest.mark.django_db
def test_an_installation_that_works_except_for_its_controller(
    kube: Kube, sandbox: SandboxServer, store: Store, url: str
) -> None:
    """What is fine is said; the one thing that is missing is a problem with a remedy."""
    configured(kube, url)
    found = run(kube, sandbox, store)
    assert [(f.area, f.text) for f in found if f.level is Level.PROBLEM] == [
        ("target", "shop/gt: its controller has not judged it")
    ]
    said = " | ".join(f.text for f in found)
    assert "all 5 custom resource definitions are installed and current" in said
    assert "shop/gp: the credentials may push" in said
    assert "permissions asked for are granted" in said
    assert any(f.level is Level.NOTE and "gizmos" in f.text for f in found)


@pytest.mark.django_db
def test_a_broken_installation_is_examined_to_the_end(
    kube: Kube, sandbox: SandboxServer, url: str, tmp_path: Path
) -> None:
    """Missing definition, no Redis, a repository that is gone: all in one run."""
    configured(kube, f"file://{tmp_path}/gone.git")
    name = "commitrequests.configbutler.ai"
    kube.delete(resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions", name=name))
    found = [f for f in run(kube, sandbox, None) if f.level is Level.PROBLEM]
    assert {f.area for f in found} >= {"definitions", "redis", "provider", "target"}
    assert all(f.remedy for f in found)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ("EncryptionConfigured", "failed to fetch encryption secret shop/age: create it"),
        ("Validated", "spec.path '../x' contains a '..' segment"),
    ],
)
def test_a_closed_gate_is_told_in_its_own_words(gate: str, message: str) -> None:
    """The gate says what to do; Stalled, which names only the gate, is not what is shown."""
    closed = parse_git_target(
        {
            "metadata": {"name": "gt", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"},
            "status": {
                "observedGeneration": 1,
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "X", "message": "gate failed"},
                    {"type": "Stalled", "status": "True", "reason": "X", "message": "gate failed"},
                    {"type": gate, "status": "False", "reason": "Y", "message": message},
                ],
            },
        }
    )
    found = [f for f in check_target(closed, {"shop/gp": provider()}, {}) if f.level is Level.PROBLEM]
    assert [f.text for f in found] == [f"shop/gt: X: {message}"]


@pytest.mark.django_db
def test_the_remedy_fits_the_fault(kube: Kube, sandbox: SandboxServer, tmp_path: Path) -> None:
    """A URL that cannot work and a Secret that is missing are no matter of the network."""
    configured(kube, f"file://{tmp_path}/gone.git")
    for name, spec in (("typo", {"url": "htps://a.test/x"}), ("absent", {"secretRef": {"name": "no"}})):
        body = {
            "apiVersion": "configbutler.ai/v1alpha3",
            "kind": "GitProvider",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"url": "https://a.test/x", "allowedBranches": ["main"], **spec},
        }
        kube.create(own_path("gitproviders", namespace="shop"), body)
    found = [f for f in run(kube, sandbox, None) if f.area == "provider" and f.level is Level.PROBLEM]
    remedies = {f.text.partition(":")[0]: f.remedy for f in found}
    assert remedies["shop/typo"] == remedies["shop/absent"] == "correct what the message names"
    assert "network" in remedies["shop/gp"]


def _doctor(kubeconfig: Path, state: Path) -> subprocess.CompletedProcess[str]:
    """`manage.py doctor` as a person runs it."""
    manage = Path(__file__).resolve().parents[2] / "manage.py"
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(kubeconfig),
        "REVERSER_STATE_DIR": str(state),
    }
    return subprocess.run(
        [sys.executable, str(manage), "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_says_what_is_wrong(sandbox: SandboxServer, tmp_path: Path) -> None:
    """`manage.py doctor` on an empty cluster: findings on the screen, exit code 1, no traceback."""
    done = _doctor(sandbox.kubeconfig_path, tmp_path / "state")
    assert done.returncode == 1, done.stderr
    assert "gittargets.configbutler.ai is not installed" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [None, ": : x", "kind: Config"])
def test_an_unusable_kubeconfig_is_a_finding(content: str | None, tmp_path: Path) -> None:
    """The rest is examined nevertheless; exit code 1."""
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    done = _doctor(kubeconfig, tmp_path / "state")
    assert done.returncode == 1, done.stderr
    assert "FAIL  cluster" in done.stdout
    assert "FAIL  redis" in done.stdout
    assert "Traceback" not in done.stderr


def test_an_api_server_that_does_not_answer(sandbox: SandboxServer, kube: Kube) -> None:
    """It is reported as a problem, not raised."""
    sandbox.stop()
    from reverser.controllers.doctor.cluster import check_access

    assert check_access(kube).level is Level.PROBLEM
