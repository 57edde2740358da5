"""The status of a WatchRule or ClusterWatchRule, from its target, its types and their streams. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reverser.controllers.conditions import (
    FALSE,
    READY,
    RECONCILING,
    SETTLE,
    STALLED,
    STEADY,
    TRUE,
    UNKNOWN,
    Plan,
    blocked,
    condition,
    done,
    find,
    progressing,
)
from reverser.controllers.streams import NO_STREAMS, WATCH_ERROR, WATCH_NOT_PERMITTED, Claimed, Streams
from reverser.kinds.model import Condition, GitProvider, GitTarget, WatchRule

BLOCKING_REASONS = frozenset(
    {
        "ProviderNotFound",
        "BranchNotAllowed",
        "TargetConflict",
        "InvalidConfig",
        "UnsupportedContent",
        "IgnoreShadowsManagedPath",
        "ValidationFailed",
        "EncryptionNotConfigured",
        "WorkerUnavailable",
        "GitTargetNotFound",
        "GitProviderNotFound",
        "GitRepoConfigNotFound",
        "GitDestinationInvalid",
        WATCH_ERROR,
        WATCH_NOT_PERMITTED,
    }
)
UNMATCHED_SETTLE = 60.0
"""Seconds for which a rule that matches nothing is looked at often."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a rule selects now: its types, and one line for each selector that selected nothing."""

    claims: tuple[Claimed, ...] = ()
    explanations: tuple[str, ...] = ()

    @property
    def types(self) -> int:
        """Number of distinct types."""
        return len({claim.key for claim in self.claims})


def destination(
    rule: WatchRule, target: GitTarget | None, provider: GitProvider | None
) -> tuple[str, str] | None:
    """(reason, message) of a destination that cannot be found; None when it is there."""
    where = f"'{rule.target_namespace}/{rule.target_name}'"
    if not rule.target_name or not rule.target_namespace:
        return "GitDestinationInvalid", "spec.targetRef must name a GitTarget" + (
            " and its namespace" if rule.cluster else ""
        )
    if target is None:
        return "GitTargetNotFound", f"GitTarget {where} not found; create it or correct spec.targetRef"
    if provider is None:
        return (
            "GitProviderNotFound",
            f"GitProvider '{target.meta.namespace}/{target.provider}' of GitTarget {where} not found; "
            "create it",
        )
    return None


def target_ready(target: GitTarget) -> Condition:
    """``GitTargetReady``: the target's own words about its present generation."""
    current = [c for c in target.conditions if c.observed_generation >= target.meta.generation]
    ready, stalled, reconciling = find(current, READY), find(current, STALLED), find(current, RECONCILING)
    if ready is not None and ready.status == TRUE:
        return condition("GitTargetReady", TRUE, "OK", f"GitTarget '{target.meta.key}' is ready")
    if stalled is not None and stalled.status == TRUE:
        return condition("GitTargetReady", FALSE, stalled.reason, stalled.message)
    said = ready or reconciling
    if said is None:
        return condition(
            "GitTargetReady", UNKNOWN, "Progressing", f"GitTarget '{target.meta.key}' has not reported yet"
        )
    return condition("GitTargetReady", FALSE, said.reason, said.message)


def decide_rule(
    rule: WatchRule,
    target: GitTarget | None,
    provider: GitProvider | None,
    *,
    resolution: Resolution | None,
    streams: Streams = NO_STREAMS,
    age: float = 0.0,
    now: str,
) -> Plan:
    """All conditions and ``streams``. ``resolution`` None = the API surface is not known yet.

    ``age`` is how long, in seconds, this generation of the rule has been looked at; ``now`` is RFC 3339.
    """
    missing = destination(rule, target, provider)
    if missing is not None or target is None:
        reason, message = missing or ("GitTargetNotFound", "the GitTarget is gone")
        conditions = (
            *blocked(reason, message),
            condition("GitTargetReady", FALSE, reason, message),
            condition("ResourcesResolved", UNKNOWN, "NotReady", "not evaluated without a destination"),
            condition("StreamsRunning", UNKNOWN, "NotReady", "not evaluated without a destination"),
        )
        return Plan(conditions, {}, STEADY)
    ready = target_ready(target)
    resolved = _resolved(rule, resolution)
    running = (
        streams.as_condition()
        if resolution is not None
        else condition("StreamsRunning", UNKNOWN, "NotReady", "the API surface is not known yet")
    )
    trio = _trio(target, ready=ready, resolved=resolved, running=running)
    fields: dict[str, Any] = {}
    gate_blocked = any(c.type == STALLED and c.status == TRUE for c in trio)
    if resolution is not None and not (gate_blocked and ready.reason in _GATES):
        fields["streams"] = streams.as_field(now, sample=True)
    nothing = resolution is not None and not resolution.types and age > UNMATCHED_SETTLE
    settle = (ready.status != TRUE or running.status != TRUE) and not nothing
    return Plan((*trio, ready, resolved, running), fields, SETTLE if settle else STEADY)


_GATES = frozenset({"ValidationFailed", "EncryptionNotConfigured", "WorkerUnavailable"})


def _resolved(rule: WatchRule, resolution: Resolution | None) -> Condition:
    if rule.problems:
        return condition("ResourcesResolved", FALSE, "InvalidConfig", "; ".join(rule.problems))
    if resolution is None:
        return condition(
            "ResourcesResolved", FALSE, "UnresolvedResources", "the API surface has not been read yet"
        )
    message = "; ".join((f"watching {resolution.types} resource type(s)", *resolution.explanations))
    return condition("ResourcesResolved", TRUE, "Resolved", message)


def _trio(
    target: GitTarget, *, ready: Condition, resolved: Condition, running: Condition
) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled of a rule; an API surface not read yet is progress, not a block."""
    if resolved.status == FALSE and resolved.reason == "InvalidConfig":
        return blocked(resolved.reason, resolved.message)
    if ready.status == FALSE and ready.reason in BLOCKING_REASONS:
        return blocked(ready.reason, ready.message)
    if running.status == FALSE and running.reason in (WATCH_ERROR, WATCH_NOT_PERMITTED):
        return blocked(running.reason, running.message)
    if resolved.status == FALSE:
        return progressing(resolved.reason, resolved.message)
    if ready.status != TRUE:
        return progressing(ready.reason, ready.message)
    if running.status == TRUE:
        return done("Ready", f"watching for GitTarget '{target.meta.key}'; {resolved.message}")
    if running.reason == "NoResolvedTypes":
        return progressing(running.reason, f"{running.message}; {resolved.message}")
    return progressing(running.reason, running.message)
