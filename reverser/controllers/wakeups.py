"""Which objects must be reconciled after another one changed.

A wake-up is a hint: the regular passes alone reach the right state, later. Status writes of the controllers
themselves wake nobody, except that a GitTarget which becomes ready, or stops being so, wakes its rules and
the requests that wait for it. Annotations count as a change of a GitTarget, because one of them releases held
deletions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reverser.controllers.world import (
    CLUSTER_RULES,
    PROVIDERS,
    REQUESTS,
    RULES,
    TARGETS,
    Object,
    World,
    object_key,
)
from reverser.kinds.model import WatchRule
from reverser.kinds.parse import parse_watch_rule

Key = tuple[str, str]
"""(resource, object key)"""


def rule_key(rule: WatchRule) -> Key:
    """The work key of a rule."""
    return (CLUSTER_RULES if rule.cluster else RULES, rule.meta.key)


def _meta(obj: Object | None) -> Mapping[str, Any]:
    return (obj or {}).get("metadata") or {}


def _changed(old: Object | None, new: Object | None) -> bool:
    """True for create, delete, another object of the name, and a change of the spec."""
    if old is None or new is None:
        return True
    return any(
        _meta(old).get(part) != _meta(new).get(part) for part in ("uid", "generation", "deletionTimestamp")
    )


def _verdicts(obj: Object | None) -> list[tuple[object, ...]]:
    status = (obj or {}).get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return [
        (item.get("type"), item.get("status"), item.get("reason"), item.get("observedGeneration"))
        for item in conditions or ()
        if isinstance(item, Mapping) and item.get("type") in ("Ready", "Stalled")
    ]


def wake_ups(resource: str, old: Object | None, new: Object | None, world: World) -> set[Key]:
    """Keys to reconcile after ``old`` became ``new`` (None = did not, or does not, exist)."""
    obj = new if new is not None else old
    if obj is None:
        return set()
    changed = _changed(old, new)
    found: set[Key] = {(resource, object_key(obj))} if changed else set()
    if resource == PROVIDERS and changed:
        found |= _after_provider(obj, world)
    elif resource == TARGETS:
        if changed or _meta(old).get("annotations") != _meta(new).get("annotations"):
            found.add((resource, object_key(obj)))
        if changed or _verdicts(old) != _verdicts(new):
            found |= set(_dependants(obj, world))
        if old is None or new is None:
            found |= {(TARGETS, key) for key in world.keys(TARGETS)}
    elif resource in (RULES, CLUSTER_RULES) and changed:
        kind = "WatchRule" if resource == RULES else "ClusterWatchRule"
        for side in (old, new):
            if side is not None:
                rule = parse_watch_rule({"kind": kind, **side})
                found.add((TARGETS, f"{rule.target_namespace}/{rule.target_name}"))
    return found


def _after_provider(provider: Object, world: World) -> set[Key]:
    """Targets compete by repository, so any of them may be affected; rules only through their target."""
    namespace, name = _meta(provider).get("namespace"), _meta(provider).get("name")
    found: set[Key] = set()
    for target in world.targets():
        found.add((TARGETS, target.meta.key))
        if (target.meta.namespace, target.provider) == (namespace, name):
            found |= {rule_key(rule) for rule in world.rules_of(target)}
    return found


def _dependants(target: Object, world: World) -> Iterator[Key]:
    where = (_meta(target).get("namespace"), _meta(target).get("name"))
    for rule in world.rules():
        if (rule.target_namespace, rule.target_name) == where:
            yield rule_key(rule)
    for request in world.requests():
        if (request.meta.namespace, request.target_name) == where:
            yield REQUESTS, request.meta.key


def hinted(topic: str, world: World) -> set[Key]:
    """Keys to reconcile after a hint of the store: ``target:<uid>``, ``request:<uid>`` or ``branch:<id>``."""
    kind, _, ident = topic.partition(":")
    found: set[Key] = set()
    if kind == "request":
        found |= {(REQUESTS, request.meta.key) for request in world.requests() if request.meta.uid == ident}
    for target in world.targets() if kind in ("target", "branch") else ():
        if ident in (target.meta.uid, world.branch_of(target).id):
            found.add((TARGETS, target.meta.key))
            found |= {rule_key(rule) for rule in world.rules_of(target)}
    return found
