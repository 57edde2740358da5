"""The roll-up of streams: how many types run, which do not, and what the condition says about it.

Counted over distinct types (group, version, resource), not over shards: a type followed in several
namespaces counts once, at its worst state. A claimed type without a record counts as replaying, because
nothing has proved yet that a write to it would be delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reverser.controllers.conditions import FALSE, TRUE, condition
from reverser.kinds.model import Condition
from reverser.store.model import StreamRecord, StreamState

SAMPLE = 5
_INT32_MAX = 2**31 - 1
_WORST = {StreamState.STREAMING: 0, StreamState.REPLAYING: 1, StreamState.BLOCKED: 2}
WATCH_NOT_PERMITTED = "WatchNotPermitted"
WATCH_ERROR = "WatchError"

TypeKey = tuple[str, str, str]
"""(group, version, resource)"""


def display_name(key: TypeKey) -> str:
    """``resource`` for the core group, else ``resource.group``."""
    return f"{key[2]}.{key[0]}" if key[0] else key[2]


@dataclass(frozen=True, slots=True)
class Claimed:
    """One type that a rule selects, in one namespace (None = all, or cluster-scoped)."""

    group: str
    version: str
    resource: str
    namespace: str | None = None

    @property
    def key(self) -> TypeKey:
        return (self.group, self.version, self.resource)


@dataclass(frozen=True, slots=True)
class Streams:
    """Counts over distinct types, the names of those that do not run, and the reason that follows."""

    total: int = 0
    ready: int = 0
    replaying: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    reason: str = "NoResolvedTypes"
    message: str = "0/0 streams running; no resolved resource types"

    @property
    def running(self) -> bool:
        """Every type, and at least one, runs."""
        return self.total > 0 and self.ready == self.total

    def as_condition(self) -> Condition:
        """``StreamsRunning``."""
        return condition("StreamsRunning", TRUE if self.running else FALSE, self.reason, self.message)

    def as_field(self, observed: str, *, sample: bool = False) -> dict[str, Any]:
        """``status.streams``; ``sample`` adds up to five names, blocked ones first."""
        out: dict[str, Any] = {
            "summary": f"{self.ready}/{self.total}",
            "total": min(self.total, _INT32_MAX),
            "ready": min(self.ready, _INT32_MAX),
            "replaying": min(len(self.replaying), _INT32_MAX),
            "blocked": min(len(self.blocked), _INT32_MAX),
            "observedTime": observed,
        }
        names = (*self.blocked, *self.replaying)[:SAMPLE]
        if sample and names:
            out["pendingSample"] = list(names)
        return out


NO_STREAMS = Streams()


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:SAMPLE])


def roll_up(records: Iterable[StreamRecord], claims: Iterable[Claimed] | None = None) -> Streams:
    """Fold shard records into counts.

    With ``claims`` the types are theirs: a claim is served by the shard of its namespace or by the one that
    covers all namespaces, whatever version that shard reads, and a claim without a shard counts as replaying.
    Without claims (the API surface is not known) every record counts.
    """
    by_resource: dict[tuple[str, str], list[StreamRecord]] = {}
    everything = []
    for record in records:
        everything.append(record)
        by_resource.setdefault((record.type.group, record.type.resource), []).append(record)
    if claims is None:
        claims = [
            Claimed(r.type.group, r.type.version, r.type.resource, r.scope.namespace) for r in everything
        ]
    worst: dict[TypeKey, StreamState] = {}
    reasons: dict[TypeKey, tuple[str, str]] = {}
    for claim in claims:
        serving = [
            record
            for record in by_resource.get((claim.group, claim.resource), ())
            if record.scope.namespace in (None, claim.namespace)
        ]
        best = min(serving, key=lambda record: _WORST[record.state], default=None)
        state = best.state if best is not None else StreamState.REPLAYING
        known = worst.get(claim.key)
        if known is None or _WORST[state] > _WORST[known]:
            worst[claim.key] = state
        blocked = best is not None and state is StreamState.BLOCKED
        if best is not None and blocked and reasons.get(claim.key, ("",))[0] != WATCH_NOT_PERMITTED:
            reasons[claim.key] = (best.reason, best.message)

    def named(state: StreamState) -> tuple[str, ...]:
        return tuple(sorted(display_name(key) for key, found in worst.items() if found is state))

    replaying, blocked_names = named(StreamState.REPLAYING), named(StreamState.BLOCKED)
    ready = sum(state is StreamState.STREAMING for state in worst.values())
    reason, message = _wording(
        f"{ready}/{len(worst)} streams running", replaying=replaying, blocked=blocked_names, reasons=reasons
    )
    return Streams(
        total=len(worst),
        ready=ready,
        replaying=replaying,
        blocked=blocked_names,
        reason=reason,
        message=message,
    )


def _wording(
    summary: str,
    *,
    replaying: Sequence[str],
    blocked: Sequence[str],
    reasons: Mapping[TypeKey, tuple[str, str]],
) -> tuple[str, str]:
    """Reason and message, the strongest case first."""
    parts = [summary]
    if blocked:
        parts.append(f"{len(blocked)} blocked ({_names(blocked)})")
    if replaying:
        parts.append(f"{len(replaying)} replaying ({_names(replaying)})")
    if blocked:
        denied = sorted(key for key, (reason, _) in reasons.items() if reason == WATCH_NOT_PERMITTED)
        detail = reasons[denied[0] if denied else min(reasons)][1]
        message = "; ".join(parts) + (f": {detail}" if detail else "")
        if denied:
            return WATCH_NOT_PERMITTED, f"{message}; grant list and watch: manage.py rbac --for-rules"
        return WATCH_ERROR, message
    if replaying:
        return "Replaying", "; ".join(parts)
    if summary.startswith("0/"):
        return "NoResolvedTypes", f"{summary}; no resolved resource types"
    return "AllStreamsReady", summary
