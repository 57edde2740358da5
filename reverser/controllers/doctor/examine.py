"""The whole examination, in the order in which one thing needs the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from gitwriter.sources import Sources
from reverser.config import Config
from reverser.controllers.doctor.cluster import (
    check_access,
    check_command_namespace,
    check_definitions,
    check_impersonation,
    check_needs,
    check_rules,
    check_sensitive,
    needs,
)
from reverser.controllers.doctor.data import check_audit, check_database, check_redis
from reverser.controllers.doctor.findings import Finding, Level, good, note, problem
from reverser.controllers.doctor.remotes import check_provider, check_target
from reverser.controllers.world import CLUSTER_RULES, PROVIDERS, RULES, TARGETS
from reverser.errors import KubeNotFound, ReverserError
from reverser.kinds.parse import parse_git_provider, parse_git_target, parse_watch_rule
from reverser.kube.aio import AsyncKube
from reverser.kube.paths import own_path
from reverser.kube.sync import Kube
from reverser.store import Store
from reverser.store.model import LeaseKind
from reverser.trust.github import TokenSource
from watchers.discovery import scan
from watchers.registry import Registry, judge

CRD_DIR = Path(__file__).resolve().parents[3] / "deploy" / "crds"


def examine(
    config: Config,
    *,
    kube: Kube | ReverserError,
    store: Store | None,
    kubeconfig: str | None,
    namespace: str = "",
) -> Iterator[Finding]:
    """Findings in order. ``kube`` is a client, or why there is none; ``store`` None = none is set;
    ``namespace`` limits providers, targets and rules.
    """
    access = check_access(kube)
    yield access
    usable = isinstance(kube, Kube) and access.level is not Level.PROBLEM
    if isinstance(kube, Kube) and usable:
        shipped = [yaml.safe_load(path.read_text()) for path in sorted(CRD_DIR.glob("*.yaml"))]
        yield from check_definitions(kube, shipped)
    holders: dict[str, str] = {}
    if store is None:
        remedy = "set REVERSER_REDIS_URL, or start `manage.py up` with this state directory"
        yield problem("redis", "no Redis is configured, and none runs in the state directory", remedy)
    else:
        redis = list(check_redis(store))
        yield from redis
        if all(finding.level is not Level.PROBLEM for finding in redis):
            holders = store.lease_holders(LeaseKind.TARGET)
            yield check_audit(
                store,
                on=config.author_attribution,
                ttl=config.author_attribution_ttl,
                grace=config.author_attribution_grace,
            )
    yield check_database()
    if isinstance(kube, Kube) and usable:
        yield from _configuration(config, kube, kubeconfig=kubeconfig, namespace=namespace, holders=holders)


def _configuration(
    config: Config, kube: Kube, *, kubeconfig: str | None, namespace: str, holders: dict[str, str]
) -> Iterator[Finding]:
    try:
        registry = asyncio.run(_registry(kubeconfig))
        providers = [parse_git_provider(obj) for obj in _listed(kube, PROVIDERS, namespace)]
        targets = [parse_git_target(obj) for obj in _listed(kube, TARGETS, namespace)]
        rules = [
            parse_watch_rule({"kind": kind, **obj})
            for resource, kind in ((RULES, "WatchRule"), (CLUSTER_RULES, "ClusterWatchRule"))
            for obj in _listed(kube, resource, "" if resource == CLUSTER_RULES else namespace)
        ]
    except ReverserError as error:
        yield problem("cluster", f"the configuration cannot be read: {error}", "see the findings above")
        return
    if namespace:
        rules = [rule for rule in rules if rule.target_namespace == namespace]
    for group, version in sorted(registry.degraded):
        yield note("cluster", f"discovery of {group}/{version} fails; its types keep what is known of them")
    command_namespace, missing = check_command_namespace(kube, config.command_namespace)
    if missing is not None:
        yield missing
    wanted = needs(
        providers,
        targets,
        rules,
        registry,
        command_namespace=command_namespace,
        default_known_hosts=config.default_known_hosts_configmap,
    )
    yield from check_needs(kube, wanted)
    yield from check_impersonation(kube)
    if not targets:
        yield note("target", "there is no GitTarget", "create one; docs/kinds/gittarget.md shows how")
    sources = Sources(kube, config, TokenSource())
    for provider in providers:
        yield from check_provider(provider, sources)
    by_key = {provider.meta.key: provider for provider in providers}
    for target in targets:
        yield from check_target(target, by_key, holders)
        if not any(
            (rule.target_namespace, rule.target_name) == (target.meta.namespace, target.meta.name)
            for rule in rules
        ):
            yield note("target", f"{target.meta.key}: no rule names it, so nothing is watched for it")
    yield from check_rules(rules, registry)
    yield from check_sensitive(config.additional_sensitive_resources, registry)
    if targets and not holders:
        yield note("watcher", "no watcher holds any target", "start one: `manage.py up` or `manage.py watch`")
    elif holders:
        names = ", ".join(sorted(set(holders.values())))
        yield good("watcher", f"{len(holders)} target(s) are held by {names}")


def _listed(kube: Kube, resource: str, namespace: str) -> Sequence[dict[str, Any]]:
    try:
        return kube.list(own_path(resource, namespace=namespace)).items
    except KubeNotFound:
        return ()


async def _registry(kubeconfig: str | None) -> Registry:
    kube = await AsyncKube.connect(kubeconfig)
    try:
        return judge(Registry(), await scan(kube), 0.0)
    finally:
        await kube.close()
