"""The cluster: reachable, definitions installed and current, and every permission that is needed.

Permissions are asked of the API server (SelfSubjectAccessReview) for the user of this kubeconfig: run the
doctor with the credentials of the installation to judge the installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reverser.controllers.doctor.findings import Finding, good, note, problem
from reverser.errors import KubeNotFound, ReverserError
from reverser.kinds.model import API_GROUP, GitProvider, GitTarget, WatchRule
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from watchers.registry import Registry
from watchers.rules import resolve

REVIEWS = resource_path("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
MOST_REVIEWS = 300
OWN = ("gitproviders", "gittargets", "watchrules", "clusterwatchrules", "commitrequests")


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """One permission; ``resource`` may carry a subresource. Without namespace: in all of them."""

    group: str
    resource: str
    verb: str
    namespace: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {name}{where}"


def check_access(kube: Kube) -> Finding:
    """Whether the API server answers at all."""
    try:
        version = kube.get("/version", timeout=10.0)
    except ReverserError as error:
        remedy = "check KUBECONFIG, its context and credentials, and that the API server is reachable"
        return problem("cluster", f"the API server cannot be used: {error}", remedy)
    return good("cluster", f"the API server answers (version {version.get('gitVersion', 'unknown')})")


def check_definitions(kube: Kube, shipped: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Each custom resource definition: there, served in our version, and not older than ours."""
    install = "apply deploy/crds, or run `manage.py up --install-crds`"
    current = 0
    for manifest in shipped:
        name = str(manifest["metadata"]["name"])
        path = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions", name=name)
        try:
            found = kube.get(path)
        except KubeNotFound:
            yield problem("definitions", f"{name} is not installed", install)
            continue
        except ReverserError as error:
            yield note("definitions", f"{name} cannot be read: {error}")
            continue
        if missing := next(missing_parts(manifest["spec"], found.get("spec") or {}, "spec"), ""):
            yield problem("definitions", f"{name} is not the one of this release ({missing})", install)
        else:
            current += 1
    if current == len(shipped):
        yield good("definitions", f"all {current} custom resource definitions are installed and current")


def missing_parts(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Paths of ``wanted`` that ``found`` lacks or has otherwise; what ``found`` has besides is fine.

    Descriptions do not count. List items with a name are compared by it.
    """
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            if key == "description":
                continue
            if not isinstance(found, Mapping) or key not in found:
                yield f"{path}.{key} is missing"
            else:
                yield from missing_parts(value, found[key], f"{path}.{key}")
    elif isinstance(wanted, list):
        if not isinstance(found, list) or len(found) < len(wanted):
            yield f"{path} has fewer items"
            return
        named = {item.get("name"): item for item in found if isinstance(item, Mapping) and item.get("name")}
        for index, item in enumerate(wanted):
            name = item.get("name") if isinstance(item, Mapping) else None
            other = named.get(name) if isinstance(name, str) else found[index]
            yield from missing_parts(item, other, f"{path}[{name or index}]")
    elif wanted != found:
        yield f"{path} differs"


def needs(
    providers: Iterable[GitProvider],
    targets: Iterable[GitTarget],
    rules: Iterable[WatchRule],
    registry: Registry,
    *,
    command_namespace: str,
) -> list[Need]:
    """Every permission that the present configuration needs, sorted."""
    found = {Need(API_GROUP, resource, verb) for resource in OWN for verb in ("get", "list", "watch")}
    found |= {Need(API_GROUP, f"{resource}/status", "update") for resource in OWN}
    found |= {Need("apiextensions.k8s.io", "customresourcedefinitions", verb) for verb in ("list", "watch")}
    found |= {Need("apiregistration.k8s.io", "apiservices", verb) for verb in ("list", "watch")}
    for verb in ("get", "create", "update"):
        found.add(Need("coordination.k8s.io", "leases", verb, command_namespace))
    for provider in providers:
        namespace = provider.meta.namespace
        found.add(Need("", "events", "create", namespace))
        if provider.secret_name or provider.commit.signing_configured:
            found.add(Need("", "secrets", "get", namespace))
        if provider.commit.signing_generate:
            found |= {Need("", "secrets", verb, namespace) for verb in ("create", "update")}
        if provider.known_hosts is not None and provider.known_hosts.kind == "ConfigMap":
            found.add(Need("", "configmaps", "get", namespace))
    for target in targets:
        namespace = target.meta.namespace
        found.add(Need("", "events", "create", namespace))
        if target.encryption.enabled and target.encryption.secret_name:
            found.add(Need("", "secrets", "get", namespace))
            if target.encryption.generate_when_missing:
                found |= {Need("", "secrets", verb, namespace) for verb in ("create", "update")}
    for rule in rules:
        for claim in resolve(rule, registry).claims:
            kind = claim.record.resource
            for verb in ("list", "watch"):
                found.add(Need(kind.group, kind.resource, verb, claim.namespace or ""))
    return sorted(found)


def check_needs(kube: Kube, wanted: Sequence[Need]) -> Iterator[Finding]:
    """Ask for each permission; at most 300 are asked for."""
    denied = []
    for need in wanted[:MOST_REVIEWS]:
        resource, _, subresource = need.resource.partition("/")
        attributes = {"group": need.group, "resource": resource, "verb": need.verb}
        if subresource:
            attributes["subresource"] = subresource
        if need.namespace:
            attributes["namespace"] = need.namespace
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = kube.create(REVIEWS, body)
        except ReverserError as error:
            yield note("permissions", f"permissions cannot be asked for: {error}")
            return
        if not (answer.get("status") or {}).get("allowed"):
            denied.append(need)
    for need in denied:
        yield problem(
            "permissions", f"not allowed: {need}", "grant it to the user of this kubeconfig (see deploy/)"
        )
    if len(wanted) > MOST_REVIEWS:
        yield note("permissions", f"{len(wanted) - MOST_REVIEWS} more permissions were not asked for")
    if not denied:
        yield good("permissions", f"all {min(len(wanted), MOST_REVIEWS)} permissions asked for are granted")


def check_rules(rules: Iterable[WatchRule], registry: Registry) -> Iterator[Finding]:
    """What each rule selects, and why a selector selects nothing."""
    for rule in rules:
        kind = "ClusterWatchRule" if rule.cluster else "WatchRule"
        for text in rule.problems:
            yield problem("rules", f"{kind} {rule.meta.key}: {text}", "correct the field")
        resolution = resolve(rule, registry)
        for miss in resolution.explanations:
            yield note("rules", f"{kind} {rule.meta.key}: {miss.message}")
        if resolution.claims and not resolution.explanations and not rule.problems:
            yield good("rules", f"{kind} {rule.meta.key} watches {resolution.types} type(s)")
