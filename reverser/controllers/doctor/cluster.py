"""The cluster: reachable, definitions installed and current, and every permission that is needed.

Permissions are asked of the API server (SelfSubjectAccessReview) for the user of this kubeconfig: run the
doctor with the credentials of the installation to judge the installation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reverser.controllers.doctor.findings import Finding, good, note, problem
from reverser.errors import KubeNotFound, ReverserError
from reverser.kinds.model import GitProvider, GitTarget, WatchRule
from reverser.kinds.sensitive import unmatched
from reverser.kube.paths import core_path, resource_path
from reverser.kube.sync import Kube
from reverser.management import roles
from reverser.management.roles import Grant
from watchers.registry import Registry
from watchers.rules import resolve

REVIEWS = resource_path("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
MOST_REVIEWS = 300
FALLBACK = "default"


def check_access(kube: Kube | ReverserError) -> Finding:
    """Whether the API server answers at all; an error instead of a client is why it cannot be asked."""
    try:
        if isinstance(kube, ReverserError):
            raise kube
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


def check_command_namespace(kube: Kube, name: str) -> tuple[str, Finding | None]:
    """Where the Lease and the digest key are kept, and a note where that is not where it should be."""
    try:
        kube.get(core_path("namespaces", name=name), timeout=10.0)
    except KubeNotFound:
        remedy = f"create it, or set REVERSER_COMMAND_NAMESPACE; `{FALLBACK}` is used meanwhile"
        return FALLBACK, note("cluster", f"namespace {name} does not exist", remedy)
    except ReverserError as error:
        return name, note("cluster", f"namespace {name} cannot be read: {error}")
    return name, None


def needs(
    providers: Iterable[GitProvider],
    targets: Iterable[GitTarget],
    rules: Iterable[WatchRule],
    registry: Registry,
    *,
    command_namespace: str,
    default_known_hosts: str = "",
) -> list[Grant]:
    """Every permission that the present configuration needs, sorted: what `manage.py rbac --for-rules`
    grants, no more and no less.
    """
    named = roles.named_grants(
        providers, targets, command_namespace=command_namespace, default_known_hosts=default_known_hosts
    )
    own = roles.operator_grants() | roles.command_grants(command_namespace)
    return sorted(own | named | roles.rule_grants(rules, registry))


def _allowed(kube: Kube, need: Grant) -> bool:
    resource, _, subresource = need.resource.partition("/")
    wanted = {
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "verb": need.verb,
        "namespace": need.namespace,
        "name": need.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in wanted.items() if value}},
    }
    return bool((kube.create(REVIEWS, body).get("status") or {}).get("allowed"))


def check_needs(kube: Kube, wanted: Sequence[Grant]) -> Iterator[Finding]:
    """Ask for each permission; at most 300 are asked for."""
    try:
        denied = [need for need in wanted[:MOST_REVIEWS] if not _allowed(kube, need)]
    except ReverserError as error:
        yield note("permissions", f"permissions cannot be asked for: {error}")
        return
    for need in denied:
        yield problem(
            "permissions",
            f"not allowed: {need}",
            "grant it to the user of this kubeconfig: `manage.py rbac --for-rules` prints the roles",
        )
    if len(wanted) > MOST_REVIEWS:
        yield note("permissions", f"{len(wanted) - MOST_REVIEWS} more permissions were not asked for")
    if not denied:
        yield good("permissions", f"all {min(len(wanted), MOST_REVIEWS)} permissions asked for are granted")


def check_impersonation(kube: Kube) -> Iterator[Finding]:
    """Whether save in the admin and in REST can act in a caller's name; a choice, so never a problem."""
    try:
        granted = all(_allowed(kube, need) for need in sorted(roles.impersonation_grants()))
    except ReverserError:
        return  # said by the check of the other permissions
    if granted:
        yield good("permissions", "save in the admin and in REST can act in a caller's name")
    else:
        yield note(
            "permissions",
            "impersonation is not granted, so save in the admin and in REST is refused",
            "nothing, if that is not used; else read docs/rbac.md and `manage.py rbac --impersonate`",
        )


def check_sensitive(wanted: frozenset[str], registry: Registry) -> Iterator[Finding]:
    """Whether each further type that is to be sealed is one that is served: what matches nothing leaks."""
    unseen = {group for group, _ in registry.degraded}
    for entry in unmatched(wanted, registry.names):
        text = f"REVERSER_ADDITIONAL_SENSITIVE_RESOURCES: {entry}"
        if any(entry.entry.startswith(f"{group}/") or entry.entry.endswith(f".{group}") for group in unseen):
            yield note("sealing", f"{text}; but discovery of its group fails now, so it may be")
            continue
        yield problem(
            "sealing",
            text,
            "correct the entry (group/plural), or install its definition; what it was meant for is written "
            "in clear text otherwise",
        )


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
