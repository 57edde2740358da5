"""Which permissions the installation needs, as RBAC manifests.

There are two sets. ``standard_roles`` is shipped: what the product itself does, Secrets by name only (never
listed), and the right to read every type in a role of its own that can be left out. ``exact_roles`` is
generated for the configuration of the moment: the types that rules select, in the namespaces where they
select them, and the Secrets and ConfigMaps that are named. RBAC only ever adds, so a narrow role restricts
nothing beside a wide one: install one or the other. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reverser.controllers.election import LEASE_NAME
from reverser.kinds.model import API_GROUP, GitProvider, GitTarget, WatchRule
from reverser.trust.digests import DIGEST_SECRET
from watchers.registry import Registry
from watchers.rules import resolve

Manifest = dict[str, Any]

OWN = ("clusterwatchrules", "commitrequests", "gitproviders", "gittargets", "watchrules")
NAME = "gitops-reverser"
_READ = ("get", "list", "watch")
# Following a type takes these two; `get` on a wildcard would reach nodes/proxy and pods/exec as well.
_FOLLOW = ("list", "watch")
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "impersonate")


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One permission. Without namespace it holds in all of them; without name for every object."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name!r}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{named}{where}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The ServiceAccount that the roles are bound to."""

    namespace: str
    name: str = NAME


def operator_grants() -> frozenset[Grant]:
    """What the product does whatever is configured, outside its own namespace."""
    found = {Grant(API_GROUP, resource, verb) for resource in OWN for verb in _READ}
    found |= {Grant(API_GROUP, f"{resource}/status", "update") for resource in OWN}
    # A finished CommitRequest is removed after its ttlSecondsAfterFinished.
    found.add(Grant(API_GROUP, "commitrequests", "delete"))
    found |= {Grant("apiextensions.k8s.io", "customresourcedefinitions", verb) for verb in _READ}
    found |= {Grant("apiregistration.k8s.io", "apiservices", verb) for verb in _FOLLOW}
    # REST asks whose token it was given, and what that caller may do.
    found.add(Grant("authentication.k8s.io", "tokenreviews", "create"))
    found.add(Grant("authorization.k8s.io", "subjectaccessreviews", "create"))
    found.add(Grant("", "namespaces", "get"))
    # A repeated Event raises the count of the first one.
    found |= {Grant("", "events", verb) for verb in ("create", "patch")}
    return frozenset(found)


def command_grants(namespace: str) -> frozenset[Grant]:
    """What the product does in its own namespace: the controllers' Lease and the digest key."""
    leases, secrets = ("coordination.k8s.io", "leases"), ("", "secrets")
    # The name of an object that does not exist yet cannot narrow its creation.
    return frozenset(
        {
            Grant(*leases, "create", namespace),
            Grant(*leases, "get", namespace, LEASE_NAME),
            Grant(*leases, "update", namespace, LEASE_NAME),
            Grant(*secrets, "create", namespace),
            Grant(*secrets, "get", namespace, DIGEST_SECRET),
        }
    )


def secret_grants() -> frozenset[Grant]:
    """The Secrets and ConfigMaps that custom resources may name, in every namespace; never a list of them."""
    return frozenset(
        {Grant("", "secrets", verb) for verb in ("get", "create", "update")}
        | {Grant("", "configmaps", "get")}
    )


def watch_any_grants() -> frozenset[Grant]:
    """Every type of every group, readable: any rule may then name any type."""
    return frozenset(Grant("*", "*", verb) for verb in _FOLLOW)


def impersonation_grants() -> frozenset[Grant]:
    """Acting in a caller's name, for *save* in the admin and in REST; service accounts, which pipelines call
    with, are a resource of their own to Kubernetes. Never part of the shipped roles: who may impersonate
    anybody may do anything.
    """
    return frozenset(
        Grant("", resource, "impersonate") for resource in ("groups", "serviceaccounts", "users")
    )


def named_grants(
    providers: Iterable[GitProvider],
    targets: Iterable[GitTarget],
    *,
    command_namespace: str,
    default_known_hosts: str = "",
) -> frozenset[Grant]:
    """Exactly the Secrets and ConfigMaps that the given objects (and the default known hosts) name."""
    found: set[Grant] = set()
    if default_known_hosts:
        found.add(Grant("", "configmaps", "get", command_namespace, default_known_hosts))
    for provider in providers:
        namespace, commit = provider.meta.namespace, provider.commit
        found |= {Grant("", "secrets", "get", namespace, n) for n in (provider.secret_name,) if n}
        if provider.known_hosts is not None:
            resource = "configmaps" if provider.known_hosts.kind == "ConfigMap" else "secrets"
            found.add(Grant("", resource, "get", namespace, provider.known_hosts.name))
        if commit.signing_configured and commit.signing_secret:
            found |= _kept_secret(namespace, commit.signing_secret, made=commit.signing_generate)
    for target in targets:
        encryption = target.encryption
        if encryption.enabled and encryption.secret_name:
            found |= _kept_secret(
                target.meta.namespace, encryption.secret_name, made=encryption.generate_when_missing
            )
    return frozenset(found)


def _kept_secret(namespace: str, name: str, *, made: bool) -> set[Grant]:
    found = {Grant("", "secrets", "get", namespace, name)}
    if made:
        found |= {
            Grant("", "secrets", "update", namespace, name),
            Grant("", "secrets", "create", namespace),
        }
    return found


def rule_grants(rules: Iterable[WatchRule], registry: Registry) -> frozenset[Grant]:
    """Reading what the rules select: in the rule's namespace, or in the whole cluster for cluster rules."""
    return frozenset(
        Grant(claim.record.resource.group, claim.record.resource.resource, verb, claim.namespace or "")
        for rule in rules
        for claim in resolve(rule, registry).claims
        for verb in _FOLLOW
    )


def standard_roles(subject: Subject) -> list[Manifest]:
    """The shipped roles: the operator, Secrets by name, its own namespace, and watch-any."""
    return [
        *_bound_cluster_role(NAME, operator_grants(), subject),
        *_bound_cluster_role(f"{NAME}-secrets", secret_grants(), subject),
        *_bound_cluster_role(f"{NAME}-watch-any", watch_any_grants(), subject),
        *_bound_role(NAME, subject.namespace, command_grants(subject.namespace), subject),
    ]


def impersonation_roles(subject: Subject) -> list[Manifest]:
    """The role of its own that lets *save* act in a caller's name."""
    return _bound_cluster_role(f"{NAME}-impersonate", impersonation_grants(), subject)


def exact_roles(grants: Iterable[Grant], subject: Subject) -> list[Manifest]:
    """Roles for exactly these grants and what the product itself needs; no wildcard, no list of Secrets
    unless a rule selects them.
    """
    by_namespace: dict[str, set[Grant]] = defaultdict(set)
    for grant in {*grants, *operator_grants(), *command_grants(subject.namespace)}:
        by_namespace[grant.namespace].add(grant)
    found = _bound_cluster_role(NAME, by_namespace.pop(""), subject)
    for namespace in sorted(by_namespace):
        found += _bound_role(NAME, namespace, by_namespace[namespace], subject)
    return found


def policy_rules(grants: Iterable[Grant]) -> list[Manifest]:
    """The grants as RBAC rules: resources that share group, verbs and name stand in one rule."""
    verbs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for grant in grants:
        verbs[(grant.group, grant.name, grant.resource)].add(grant.verb)
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, name, resource), allowed in sorted(verbs.items()):
        merged[(group, name, tuple(sorted(allowed, key=_VERBS.index)))].append(resource)
    found = []
    for (group, name, allowed_verbs), resources in sorted(merged.items()):
        rule: Manifest = {"apiGroups": [group], "resources": resources}
        if name:
            rule["resourceNames"] = [name]
        found.append({**rule, "verbs": list(allowed_verbs)})
    return found


def _metadata(name: str, namespace: str = "") -> Manifest:
    labels: Mapping[str, str] = {"app.kubernetes.io/name": NAME}
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(labels)}


def _bound_cluster_role(name: str, grants: Iterable[Grant], subject: Subject) -> list[Manifest]:
    return [
        {**_kind("ClusterRole"), "metadata": _metadata(name), "rules": policy_rules(grants)},
        {
            **_kind("ClusterRoleBinding"),
            "metadata": _metadata(name),
            **_binding("ClusterRole", name, subject),
        },
    ]


def _bound_role(name: str, namespace: str, grants: Iterable[Grant], subject: Subject) -> list[Manifest]:
    return [
        {**_kind("Role"), "metadata": _metadata(name, namespace), "rules": policy_rules(grants)},
        {
            **_kind("RoleBinding"),
            "metadata": _metadata(name, namespace),
            **_binding("Role", name, subject),
        },
    ]


def _kind(kind: str) -> Manifest:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}


def _binding(kind: str, name: str, subject: Subject) -> Manifest:
    return {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": subject.name, "namespace": subject.namespace}],
    }
