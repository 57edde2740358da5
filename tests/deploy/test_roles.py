"""Permissions: enough for what the product does, and no more than it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.config import SETTINGS
from reverser.controllers.doctor.cluster import needs
from reverser.kinds.parse import parse_git_provider, parse_git_target, parse_watch_rule
from reverser.management import roles
from reverser.management.roles import Grant, Subject
from reverser.rest.peopleroles import people_roles
from reverser.sandbox.authn import impersonation
from tests.deploy.render import DEPLOY, ROOT, check_schemas, kubectl, parsed
from watchers.registry import Registry

SUBJECT = Subject("gitops-reverser")
PROVIDER = {
    "apiVersion": "configbutler.ai/v1alpha3",
    "kind": "GitProvider",
    "metadata": {"name": "shop", "namespace": "shop", "uid": "p"},
    "spec": {
        "url": "ssh://git@git.example.com/shop.git",
        "secretRef": {"name": "shop-key"},
        "allowedBranches": ["main"],
        "commit": {"signing": {"secretRef": {"name": "shop-signing"}, "generateWhenMissing": True}},
    },
}
TARGET = {
    "apiVersion": "configbutler.ai/v1alpha3",
    "kind": "GitTarget",
    "metadata": {"name": "live", "namespace": "shop", "uid": "t"},
    "spec": {
        "providerRef": {"name": "shop"},
        "branch": "main",
        "path": "live",
        "encryption": {
            "provider": "sops",
            "age": {
                "enabled": True,
                "recipients": {"extractFromSecret": True, "generateWhenMissing": True},
            },
            "secretRef": {"name": "shop-age"},
        },
    },
}
RULE = {
    "apiVersion": "configbutler.ai/v1alpha3",
    "kind": "WatchRule",
    "metadata": {"name": "config", "namespace": "shop", "uid": "r"},
    "spec": {
        "targetRef": {"name": "live"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    },
}


def allows(manifests: Iterable[dict[str, Any]], grant: Grant) -> bool:
    """What RBAC would answer."""
    for role in manifests:
        if role["kind"] not in {"Role", "ClusterRole"}:
            continue
        if role["kind"] == "Role" and role["metadata"]["namespace"] != grant.namespace:
            continue
        for rule in role["rules"]:
            if (
                {grant.group, "*"} & set(rule["apiGroups"])
                and {grant.resource, "*"} & set(rule["resources"])
                and grant.verb in rule["verbs"]
                and (not rule.get("resourceNames") or grant.name in rule["resourceNames"])
            ):
                return True
    return False


def test_shipped_files_are_what_the_command_prints() -> None:
    """deploy/ holds exactly the roles of `manage.py rbac`."""
    kustomize = DEPLOY / "kustomize"
    shipped = [
        manifest
        for path in (
            "base",
            *(f"components/{name}" for name in ("named-secrets", "watch-any", "impersonation", "people")),
        )
        for manifest in parsed((kustomize / path / "rbac.yaml").read_text())
    ]
    order = lambda manifest: (manifest["kind"], manifest["metadata"]["name"])  # noqa: E731
    people = people_roles(SETTINGS["session_user_prefix"].default)
    printed = [*roles.standard_roles(SUBJECT), *roles.impersonation_roles(SUBJECT), *people]
    assert sorted(shipped, key=order) == sorted(printed, key=order)


def test_impersonation_is_a_choice() -> None:
    """No shipped variant impersonates; who may do so may do anything."""
    for role in roles.standard_roles(SUBJECT):
        assert all("impersonate" not in rule["verbs"] for rule in role.get("rules", ()))


@pytest.mark.parametrize("name", ["gitops-reverser:ann", "system:serviceaccount:shop:ci"])
def test_whoever_calls_can_be_acted_for(name: str) -> None:
    """A person of the admin and the service account of a pipeline, each with all of their groups: what an API
    server asks for to act as them is in the role.
    """
    headers = [("Impersonate-User", name), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    asked = impersonation(headers)
    assert asked is not None and len(asked.checks) == 3
    for group, resource, _, _ in asked.checks:
        wanted = Grant(group, resource, "impersonate")
        assert allows(roles.impersonation_roles(SUBJECT), wanted), wanted


@pytest.mark.parametrize("answer", ["standard", "exact"])
def test_what_the_doctor_asks_for_is_granted(answer: str) -> None:
    """Both answers give every permission that the doctor checks for this configuration."""
    provider, target = parse_git_provider(PROVIDER), parse_git_target(TARGET)
    rule = parse_watch_rule(RULE)
    wanted = needs([provider], [target], [rule], Registry(), command_namespace=SUBJECT.namespace)
    named = roles.named_grants([provider], [target], command_namespace=SUBJECT.namespace)
    assert len(named) == 6
    granted = roles.standard_roles(SUBJECT) if answer == "standard" else roles.exact_roles(named, SUBJECT)
    check_schemas(granted)
    for need in wanted:
        assert allows(granted, need), need


def test_the_product_may_write_nothing_but_its_own() -> None:
    """Q06: no verb that writes is granted beyond own statuses, Events, kept Secrets and the Lease."""
    writes = {
        (resource, verb)
        for role in roles.standard_roles(SUBJECT)
        for rule in role.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {
        *((f"{own}/status", "update") for own in roles.OWN),
        ("commitrequests", "delete"),
        ("events", "create"),
        ("events", "patch"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
        ("secrets", "create"),
        ("secrets", "update"),
        ("leases", "create"),
        ("leases", "update"),
    }


def test_aggregated_services_are_only_followed() -> None:
    """Nothing ever gets a single one, as the audit log of a whole day of use shows."""
    verbs = {grant.verb for grant in roles.operator_grants() if grant.resource == "apiservices"}
    assert verbs == {"list", "watch"}


def test_secrets_are_never_listed_unless_a_rule_selects_them() -> None:
    """Q06: generated roles hold no wildcard, and Secrets are read by name."""
    named = roles.named_grants(
        [parse_git_provider(PROVIDER)], [parse_git_target(TARGET)], command_namespace=SUBJECT.namespace
    )
    granted = roles.exact_roles(named, SUBJECT)
    for role in granted:
        for rule in role.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            if "secrets" in rule["resources"]:
                assert not {"list", "watch"} & set(rule["verbs"])
                assert rule.get("resourceNames") or rule["verbs"] == ["create"]
    assert not allows(granted, Grant("", "secrets", "get", "shop", "another"))
    assert not allows(granted, Grant("", "secrets", "get", "kube-system", "shop-key"))


def test_no_role_reaches_a_running_container() -> None:
    """A wildcard never carries `get`: that would be nodes/proxy and pods/exec, too."""
    for role in roles.standard_roles(SUBJECT):
        for rule in role.get("rules", ()):
            if "*" in rule["resources"]:
                assert rule["verbs"] == ["list", "watch"]


def test_generated_for_the_rules_of_a_cluster(cluster: Path, tmp_path: Path) -> None:
    """`manage.py rbac --for-rules` grants what the rules select, where they do; an API server takes it."""
    kubectl("create", "namespace", "shop", kubeconfig=cluster)
    documents = yaml.safe_dump_all([PROVIDER, TARGET, RULE])
    kubectl("apply", "-f", "-", stdin=documents.replace("uid:", "generateName:"), kubeconfig=cluster)
    done = subprocess.run(
        [sys.executable, "manage.py", "rbac", "--for-rules"],
        cwd=ROOT,
        env={
            **os.environ,
            "KUBECONFIG": str(cluster),
            "REVERSER_STATE_DIR": str(tmp_path),
            "REVERSER_COMMAND_NAMESPACE": SUBJECT.namespace,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    granted = parsed(done.stdout)
    check_schemas(granted)
    assert allows(granted, Grant("", "configmaps", "watch", "shop"))
    assert not allows(granted, Grant("", "configmaps", "watch", "default"))
    assert allows(granted, Grant("", "secrets", "get", "shop", "shop-age"))
    out = kubectl("apply", "--dry-run=server", "-f", "-", stdin=done.stdout, kubeconfig=cluster)
    assert out.count("(server dry run)") == len(granted)
