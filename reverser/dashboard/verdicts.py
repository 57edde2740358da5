"""Is Git up to date for a target, and if not: since when, and why. Pure.

One word per target, in the order in which a person should look: *failing* needs somebody; *late* means a
change has waited longer than a window and a push should take; *held* waits for a decision; *starting* heals
on its own; *writing* is a change on its way; *unknown* means that nothing was reported yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from reverser.dashboard.readings import BranchReading
from reverser.history.models import TargetState

LATE_MS = 120_000
GATES = ("Validated", "EncryptionConfigured", "StreamsRunning", "GitPathAccepted")
"""The conditions that make a target not ready, in the order in which the first one decides."""
LEFT_OUT = ("ObjectsWritten", "RenderMatchesLive")
"""Conditions for objects that are not in Git although nothing waits."""
PLANNED_MS = 10_000
"""A due time further ahead belongs to a long commit window; a claim moves it by less."""


class State(IntEnum):
    """The worst first."""

    FAILING = 0
    LATE = 1
    HELD = 2
    STARTING = 3
    UNKNOWN = 4
    WRITING = 5
    CURRENT = 6

    @property
    def slug(self) -> str:
        return self.name.lower()

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    State.FAILING: "Failing",
    State.LATE: "Late",
    State.HELD: "Deletions held",
    State.STARTING: "Starting",
    State.UNKNOWN: "Unknown",
    State.WRITING: "Writing",
    State.CURRENT: "Up to date",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one target. A target that is up to date has a reason only where objects are left out."""

    state: State
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    oldest: datetime | None = None
    """The oldest change that is not pushed."""


def moment(milliseconds: int) -> datetime | None:
    """A time of the Redis clock; None for 0."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC) if milliseconds else None


def condition(conditions: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """A condition by its type; empty when it is not there."""
    return next((item for item in conditions if item.get("type") == name), {})


def since_of(found: Mapping[str, Any]) -> datetime | None:
    """When a condition became what it is."""
    text = str(found.get("lastTransitionTime") or "")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def judge(target: TargetState, branch: BranchReading | None, *, now_ms: int) -> Verdict:
    """The verdict on a target; ``branch`` is None where the store does not answer."""
    oldest_ms = branch.oldest_ms.get(target.uid, 0) if branch is not None else 0
    if branch is not None and not oldest_ms and branch.pending_bytes.get(target.uid):
        oldest_ms = max(branch.oldest_ms.values(), default=0)
    oldest = moment(oldest_ms)
    conditions = target.conditions if isinstance(target.conditions, list) else []
    if target.stalled == "True":
        found = condition(conditions, "Stalled")
        message = _because(conditions, target.message)
        return Verdict(State.FAILING, target.reason, message, since_of(found), oldest)
    if branch is not None and branch.health is not None and not branch.health.ok:
        health = branch.health
        return Verdict(State.FAILING, health.reason, health.message, moment(health.since_ms), oldest)
    planned = branch is not None and branch.due_ms - now_ms > PLANNED_MS
    if oldest_ms and now_ms - oldest_ms > LATE_MS and not planned:
        message = "a change waits longer than a commit window and a push should take; is a worker running?"
        return Verdict(State.LATE, "WaitingForWorker", message, oldest, oldest)
    held = condition(conditions, "DeletionsApplied")
    if held.get("status") == "False":
        text = (str(held.get("reason") or ""), str(held.get("message") or ""))
        return Verdict(State.HELD, *text, since_of(held), oldest)
    if target.ready != "True":
        found = condition(conditions, "Ready")
        state = State.STARTING if target.reconciling == "True" else State.UNKNOWN
        message = _because(conditions, target.message)
        return Verdict(state, target.reason, message, since_of(found), oldest)
    if oldest is not None:
        return Verdict(State.WRITING, "", "a change is on its way to Git", oldest, oldest)
    for name in LEFT_OUT:
        found = condition(conditions, name)
        if found.get("status") == "False":
            text = (str(found.get("reason") or ""), str(found.get("message") or ""))
            return Verdict(State.CURRENT, *text, since_of(found))
    return Verdict(State.CURRENT)


def _because(conditions: Sequence[Mapping[str, Any]], message: str) -> str:
    """The summary, and the message of the condition behind it unless the summary repeats it."""
    for name in GATES:
        found = condition(conditions, name)
        if found.get("status") == "False":
            words = str(found.get("message") or "")
            return message if words in message else f"{message}: {words}" if message else words
    return message
