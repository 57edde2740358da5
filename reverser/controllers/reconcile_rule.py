"""WatchRule and ClusterWatchRule: what a rule selects, whether its streams run, and why not.

Watchers resolve the same rules by the same function; here it is done again only to explain the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from reverser.controllers.decide_rule import Resolution, decide_rule
from reverser.controllers.status import StatusWriter, rfc3339
from reverser.controllers.streams import Claimed, roll_up
from reverser.controllers.world import CLUSTER_RULES, RULES, World
from reverser.kinds.model import WatchRule
from reverser.kinds.parse import parse_watch_rule
from reverser.store import AsyncStore
from watchers.registry import Registry
from watchers.rules import resolve

SHOWN_FAILING = 3
STARTING = 30.0
"""Seconds for which the status by an earlier process is kept while the API surface is being read."""


def resolution_of(rule: WatchRule, registry: Registry) -> Resolution | None:
    """What a rule selects now; None while the API surface is not known."""
    if not registry.ready:
        return None
    found = resolve(rule, registry)
    claims = tuple(
        Claimed(
            claim.record.resource.group,
            claim.record.resource.version,
            claim.record.resource.resource,
            claim.namespace,
        )
        for claim in found.claims
    )
    explanations = [item.message for item in found.explanations]
    if found.unexplained:
        explanations.append(f"and {found.unexplained} more selector(s) that match nothing")
    explanations += _blind_spots(rule, registry, missed=bool(explanations))
    return Resolution(claims, tuple(explanations))


def _blind_spots(rule: WatchRule, registry: Registry, *, missed: bool) -> list[str]:
    """Explanations for group versions whose discovery fails and that this rule may select from."""

    def concerned(group: str) -> bool:
        for entry in rule.rules:
            anything = missed or "*" in entry.resources
            if group in entry.api_groups or (anything and (not entry.api_groups or "*" in entry.api_groups)):
                return True
        return False

    failing = sorted(f"{group}/{version}" for group, version in registry.degraded if concerned(group))
    if not failing:
        return []
    more = f" and {len(failing) - SHOWN_FAILING} more" if len(failing) > SHOWN_FAILING else ""
    names = ", ".join(failing[:SHOWN_FAILING])
    return [f"discovery of {names}{more} fails; what is known of these types stays, nothing is deleted"]


class RuleReconciler:
    """Reconciles one rule of either kind."""

    def __init__(
        self,
        world: World,
        store: AsyncStore,
        *,
        writer: StatusWriter,
        registry: Callable[[], Registry],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = world
        self._store = store
        self._writer = writer
        self._registry = registry
        self._clock = clock
        self._first_seen: dict[tuple[str, str], tuple[str, int, float]] = {}

    async def reconcile(self, resource: str, key: str) -> float | None:
        """One pass; returns the seconds until the next one (None = the object is gone)."""
        obj = self._world.raw(resource, key)
        if obj is None:
            self._first_seen.pop((resource, key), None)
            return None
        kind = {RULES: "WatchRule", CLUSTER_RULES: "ClusterWatchRule"}[resource]
        rule = parse_watch_rule({"kind": kind, **obj})
        age, registry = self._age((resource, key), rule), self._registry()
        judged = rule.observed_generation == rule.meta.generation
        if not registry.ready and judged and age < STARTING:
            return STARTING / 10
        target = await self._world.target(rule.target_namespace, rule.target_name)
        provider = None
        if target is not None:
            provider = await self._world.provider(target.meta.namespace, target.provider)
        resolution = resolution_of(rule, registry)
        streams = roll_up(())
        if target is not None and resolution is not None:
            records = await self._store.read_streams(target.meta.uid)
            streams = roll_up(records.values(), resolution.claims)
        plan = decide_rule(
            rule,
            target,
            provider,
            resolution=resolution,
            streams=streams,
            age=age,
            now=rfc3339(),
        )
        await self._writer.write(resource, obj, plan)
        return plan.requeue

    def _age(self, key: tuple[str, str], rule: WatchRule) -> float:
        """Seconds since this generation of the rule was first looked at here."""
        now = self._clock()
        uid, generation, since = self._first_seen.get(key, ("", -1, now))
        if (uid, generation) != (rule.meta.uid, rule.meta.generation):
            since = now
        self._first_seen[key] = (rule.meta.uid, rule.meta.generation, since)
        return now - since
