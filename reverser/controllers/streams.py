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


def roll_up(records: Iterable[StreamRecord], claimed: Iterable[TypeKey] | None = None) -> Streams:
    """Fold shard records into counts. ``claimed`` limits them to these types and adds missing ones."""
    worst: dict[TypeKey, StreamState] = {}
    reasons: dict[TypeKey, tuple[str, str]] = {}
    wanted = None if claimed is None else set(claimed)
    for record in records:
        key = (record.type.group, record.type.version, record.type.resource)
        if wanted is not None and key not in wanted:
            continue
        known = worst.get(key)
        if known is None or _WORST[record.state] > _WORST[known]:
            worst[key] = record.state
        if record.state is StreamState.BLOCKED and reasons.get(key, ("",))[0] != WATCH_NOT_PERMITTED:
            reasons[key] = (record.reason, record.message)
    for key in wanted or ():
        worst.setdefault(key, StreamState.REPLAYING)

    def named(state: StreamState) -> tuple[str, ...]:
        return tuple(sorted({display_name(key) for key, found in worst.items() if found is state}))

    total = len(worst)
    ready = sum(state is StreamState.STREAMING for state in worst.values())
    return Streams(
        total=total,
        ready=ready,
        replaying=named(StreamState.REPLAYING),
        blocked=named(StreamState.BLOCKED),
        **_wording(worst, reasons, ready=ready),
    )


def _wording(
    worst: Mapping[TypeKey, StreamState], reasons: Mapping[TypeKey, tuple[str, str]], *, ready: int
) -> dict[str, str]:
    total = len(worst)
    summary = f"{ready}/{total} streams running"
    blocked = sorted(display_name(key) for key, state in worst.items() if state is StreamState.BLOCKED)
    replaying = sorted(display_name(key) for key, state in worst.items() if state is StreamState.REPLAYING)
    parts = [summary]
    if blocked:
        parts.append(f"{len(blocked)} blocked ({_names(blocked)})")
    if replaying:
        parts.append(f"{len(replaying)} replaying ({_names(replaying)})")
    if blocked:
        denied = sorted(key for key, (reason, _) in reasons.items() if reason == WATCH_NOT_PERMITTED)
        first = denied[0] if denied else min(reasons)
        detail = reasons[first][1]
        message = "; ".join(parts) + (f": {detail}" if detail else "")
        return {"reason": WATCH_NOT_PERMITTED if denied else WATCH_ERROR, "message": message}
    if replaying:
        return {"reason": "Replaying", "message": "; ".join(parts)}
    if not total:
        return {"reason": "NoResolvedTypes", "message": f"{summary}; no resolved resource types"}
    return {"reason": "AllStreamsReady", "message": summary}
