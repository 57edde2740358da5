"""Conditions as every kind writes them: the kstatus trio, upsert, bounds, and when a write is due.

Invariant: only the three shapes below are ever built, so generic tools (``kubectl wait``, Flux, Argo CD)
read each object as Current, InProgress or Failed and never as two of them. A status is written only
when something other than a clock in it changed; an unchanged object costs no write and wakes nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reverser.kinds.model import Condition

MESSAGE_LIMIT = 1024
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"

STEADY = 300.0
"""Seconds between passes over a healthy object, and over one that a person must repair."""
SETTLE = 10.0
"""Seconds between passes over an object whose streams are not all running."""
SECRET_BLOCKED = 15.0
"""Seconds between passes over an object that waits for a Secret."""
SECRET_STEADY = 30.0
"""Seconds between reads of a Secret that is in use; Secrets are never watched."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided: all conditions, the other status fields, and when the next pass is due.

    ``fields`` holds JSON values; a field that is absent here is removed from the status.
    """

    conditions: tuple[Condition, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    requeue: float | None = STEADY

    def condition(self, kind: str) -> Condition:
        """The condition of one type. Raises KeyError when the plan has none."""
        for item in self.conditions:
            if item.type == kind:
                return item
        raise KeyError(kind)


def cap_message(text: str) -> str:
    """At most 1024 characters, never half a character, never an unpaired surrogate."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= MESSAGE_LIMIT else clean[: MESSAGE_LIMIT - 1] + "…"


def valid_reason(text: str) -> str:
    """``text`` as an API server accepts a reason; one invalid reason would have the whole status refused."""
    if _REASON.fullmatch(text) and len(text) <= MESSAGE_LIMIT:
        return text
    clean = re.sub(r"[^A-Za-z0-9_,:]", "_", text)[:MESSAGE_LIMIT].rstrip(",:")
    return re.sub(r"^[^A-Za-z]+", "", clean) or "Unspecified"


def condition(kind: str, status: str, reason: str, message: str = "") -> Condition:
    """A condition without generation and time; those are filled in when it is written."""
    return Condition(type=kind, status=status, reason=valid_reason(reason), message=cap_message(message))


def done(reason: str, message: str) -> tuple[Condition, ...]:
    """Current: Ready, nothing under way, nothing stuck."""
    return (
        condition(READY, TRUE, reason, message),
        condition(RECONCILING, FALSE, reason, message),
        condition(STALLED, FALSE, reason, message),
    )


def progressing(reason: str, message: str, *, ready_reason: str = "") -> tuple[Condition, ...]:
    """InProgress: heals without a person. ``ready_reason`` replaces the reason on Ready and Stalled."""
    other = ready_reason or reason
    return (
        condition(READY, FALSE, other, message),
        condition(RECONCILING, TRUE, reason, message),
        condition(STALLED, FALSE, other, "not stalled: " + message),
    )


def blocked(reason: str, message: str) -> tuple[Condition, ...]:
    """Failed: waits for a person."""
    return (
        condition(READY, FALSE, reason, message),
        condition(RECONCILING, FALSE, reason, "stalled: " + message),
        condition(STALLED, TRUE, reason, message),
    )


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The first condition of a type."""
    return next((item for item in conditions if item.type == kind), None)


def upsert(
    stored: Sequence[Mapping[str, Any]], wanted: Sequence[Condition], *, generation: int, now: str
) -> list[dict[str, Any]]:
    """The condition list to write: ``wanted``, with the stored transition times where status is the same.

    ``now`` is RFC 3339. Duplicates and types that the kind no longer has are dropped.
    """
    before: dict[str, Mapping[str, Any]] = {}
    for known in stored:
        if isinstance(known, Mapping):
            before.setdefault(str(known.get("type")), known)
    out = []
    for item in wanted:
        old = before.get(item.type, {})
        same = old.get("status") == item.status and old.get("lastTransitionTime")
        out.append(
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason,
                "message": cap_message(item.message),
                "observedGeneration": generation,
                "lastTransitionTime": old["lastTransitionTime"] if same else now,
            }
        )
    return out


def new_status(current: Mapping[str, Any], plan: Plan, *, generation: int, now: str) -> dict[str, Any] | None:
    """The whole status to write, or None when nothing but clocks would change."""
    stored = current.get("conditions")
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": upsert(
            stored if isinstance(stored, list) else (), plan.conditions, generation=generation, now=now
        ),
        **plan.fields,
    }
    if _without_clocks(status) == _without_clocks(current):
        return None
    return status


def _without_clocks(status: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in status.items() if key != "lastReconcileTime"}
    for name in ("streams", "retention"):
        counted = out.get(name)
        if isinstance(counted, Mapping):
            out[name] = {key: value for key, value in counted.items() if key != "observedTime"}
    return out
