"""The status and the gate of a GitTarget, from its spec and what is known. Pure.

Two kinds of facts meet here. *Gates* (Validated, EncryptionConfigured) decide whether the target may
stream at all; a gate that fails leaves the domain conditions behind it Unknown. *Observations* (streams,
path acceptance, pushes) are reported by watchers and writers through the store; they never close the
gate (J21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reverser.controllers.conditions import (
    FALSE,
    SECRET_BLOCKED,
    SECRET_STEADY,
    SETTLE,
    STEADY,
    TRUE,
    UNKNOWN,
    Plan,
    blocked,
    condition,
    done,
    progressing,
)
from reverser.controllers.overlap import Rival
from reverser.controllers.retention import retention_field
from reverser.controllers.streams import NO_STREAMS, Streams
from reverser.kinds.branches import branch_allowed, branch_problem
from reverser.kinds.model import Condition, GitProvider, GitTarget
from reverser.kinds.paths import path_problem
from reverser.store.model import BranchHealth, Kept, PathVerdict, Skipped, SkippedObject
from watchers.clustersealer import OWN_KEY

SHOWN_UNSEALED = 10

HOLD_ANNOTATION = "configbutler.ai/release-held-deletions"
"""On a GitTarget: names the held outcome whose deletions may be made (J23)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one gate. ``status`` is True, False or Unknown."""

    status: str
    reason: str
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.status == TRUE


NOT_REQUIRED = Finding(TRUE, "NotRequired", "encryption is not enabled")
SWITCHED_OFF = Finding(
    TRUE,
    "NotRequired",
    "encryption is not enabled: what spec.encryption says has no effect until age.enabled is true",
)


SHOWN_SKIPS = 5
RENDER_CODE = "render-does-not-match-live"
NOTHING_SKIPPED = Skipped()


@dataclass(frozen=True, slots=True)
class NotSealed:
    """A sensitive object that is not written, and the reason of that."""

    name: str
    """Resource and ``namespace/name``, as people read it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Observed:
    """What watchers and writers reported of a target; ``known`` is False while Redis cannot be read."""

    known: bool = True
    streams: Streams = NO_STREAMS
    path: PathVerdict | None = None
    health: BranchHealth | None = None
    last_push: str = ""
    """RFC 3339, or empty."""
    held: tuple[str, ...] = ()
    """Ids of held outcomes, oldest first."""
    held_message: str = ""
    unsealed: tuple[NotSealed, ...] = ()
    """Sensitive objects that are not written."""
    skipped: Skipped = NOTHING_SKIPPED
    """Objects that the writer left out of Git, with its reasons."""
    kept: tuple[Kept, ...] | None = None
    """Counts of documents that the prune mode keeps, by scope; None while it is not known what is watched."""


UNOBSERVED = Observed()
UNKNOWN_NOW = "Redis, where watchers and writers report, cannot be read now"
UNREAD = Observed(known=False)


def validate(
    target: GitTarget, provider: GitProvider | None, *, rival: Rival | None = None, placement_error: str = ""
) -> Finding:
    """``Validated``: the path before anything else, then branch, provider, conflicts and placement."""
    where = f"'{target.meta.namespace}/{target.provider}'"
    if problem := path_problem(target.path):
        return Finding(FALSE, "InvalidConfig", f"spec.path '{target.path}' {problem}")
    if problem := branch_problem(target.branch):
        return Finding(FALSE, "InvalidConfig", f"spec.branch '{target.branch}' {problem}")
    if provider is None:
        return Finding(
            FALSE, "ProviderNotFound", f"GitProvider {where} not found; create it or correct spec.providerRef"
        )
    if not branch_allowed(provider.allowed_branches, target.branch):
        patterns = ", ".join(f"'{pattern}'" for pattern in provider.allowed_branches[:20]) or "none"
        return Finding(
            FALSE,
            "BranchNotAllowed",
            f"branch '{target.branch}' matches none of the allowedBranches [{patterns}] of GitProvider "
            f"{where}; add a pattern there",
        )
    if rival is not None:
        return Finding(FALSE, "TargetConflict", rival.describe(target))
    if placement_error:
        return Finding(FALSE, "InvalidConfig", placement_error)
    if target.problems:
        return Finding(FALSE, "InvalidConfig", "; ".join(target.problems))
    return Finding(TRUE, "OK", f"writes '{target.path}' on branch '{target.branch}' of GitProvider {where}")


def decide_target(
    target: GitTarget,
    *,
    validated: Finding,
    encryption: Finding | None,
    worker_error: str = "",
    observed: Observed = UNOBSERVED,
    now: str,
) -> Plan:
    """All conditions and status fields. ``encryption`` is None where validation failed; ``now`` RFC 3339.

    ``worker_error`` tells why the branch journal could not be opened (``WorkerUnavailable``).
    """
    fields: dict[str, Any] = {"lastReconcileTime": now}
    # A push once reported stays reported, also when Redis is down or was flushed.
    last_push = observed.last_push or target.last_push_time
    if last_push and validated.reason != "BranchNotAllowed":
        fields["lastPushTime"] = last_push
    if (kept := retention_field(target, observed.kept)) is not None:
        fields["retention"] = kept
    gate = _closed_gate(target, validated, encryption, worker_error)
    if gate is not None:
        trio, secret = gate
        conditions = (
            *trio,
            condition("Validated", validated.status, validated.reason, validated.message),
            _encryption_condition(encryption, observed.unsealed),
            condition("StreamsRunning", UNKNOWN, "NotReady", "no stream runs while a gate is closed"),
            condition("GitPathAccepted", UNKNOWN, "NotChecked", "not checked while a gate is closed"),
            _push_condition(observed, last_push),
            _held_condition(observed),
            *_skip_conditions(observed),
        )
        requeue = SETTLE if validated.ok and worker_error else STEADY
        return Plan(conditions, fields, requeue=SECRET_BLOCKED if secret else requeue)

    streams, path = observed.streams, _path_condition(observed.path)
    fields["streams"] = streams.as_field(now)
    settle = not streams.running or path.status == FALSE
    conditions = (
        *_trio(streams, path),
        condition("Validated", validated.status, validated.reason, validated.message),
        _encryption_condition(encryption, observed.unsealed),
        streams.as_condition(),
        path,
        _push_condition(observed, last_push),
        _held_condition(observed),
        *_skip_conditions(observed),
    )
    uses_secret = target.encryption.enabled and bool(target.encryption.secret_name)
    return Plan(conditions, fields, SETTLE if settle else SECRET_STEADY if uses_secret else STEADY)


def _closed_gate(
    target: GitTarget, validated: Finding, encryption: Finding | None, worker_error: str
) -> tuple[tuple[Condition, ...], bool] | None:
    """The trio of a target that may not stream, and whether a Secret would open it; None = open."""
    if not validated.ok:
        return blocked("ValidationFailed", f"Validated gate failed: {validated.reason}"), False
    if encryption is None or not encryption.ok:
        reason = encryption.reason if encryption else "NotEvaluated"
        message = f"EncryptionConfigured gate failed: {reason}"
        return blocked("EncryptionNotConfigured", message), True
    if worker_error:
        message = f"branch journal of GitTarget '{target.meta.key}' is not available: {worker_error}"
        return blocked("WorkerUnavailable", message), False
    return None


def _trio(streams: Streams, path: Condition) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled of a target whose gates are open."""
    if path.status == FALSE:
        return blocked(path.reason, path.message)
    if streams.blocked:
        return blocked(streams.reason, streams.message)
    if not streams.running:
        return progressing(streams.reason, streams.message, ready_reason="Progressing")
    return done("OK", streams.message)


def _encryption_condition(encryption: Finding | None, unsealed: tuple[NotSealed, ...]) -> Condition:
    """``EncryptionConfigured``; its message also names what cannot be sealed and is therefore not written."""
    if encryption is None:
        return condition("EncryptionConfigured", UNKNOWN, "Blocked", "not evaluated: Validated is not True")
    message = encryption.message
    if unsealed:
        more = f" and {len(unsealed) - SHOWN_UNSEALED} more" if len(unsealed) > SHOWN_UNSEALED else ""
        message += f"; not written: {', '.join(map(str, unsealed[:SHOWN_UNSEALED]))}{more}"
    return condition("EncryptionConfigured", encryption.status, encryption.reason, message)


def _path_condition(verdict: PathVerdict | None) -> Condition:
    if verdict is None or verdict.accepted:
        remarks = verdict.remarks if verdict is not None else ()
        message = "; note: ".join(("the folder can be written", *remarks))
        return condition("GitPathAccepted", TRUE, "GitPathAccepted", message)
    message = verdict.issues[0] if verdict.issues else "Git path refused: unsupported content"
    reason = verdict.reason if verdict.reason == "IgnoreShadowsManagedPath" else "UnsupportedContent"
    return condition("GitPathAccepted", FALSE, reason, message)


def _push_condition(observed: Observed, last_push: str) -> Condition:
    """``PushSucceeding``: how the last push of the branch went; it does not affect the trio."""
    if not observed.known:
        return condition("PushSucceeding", UNKNOWN, "NotChecked", UNKNOWN_NOW)
    health = observed.health
    if health is not None and not health.ok:
        return condition("PushSucceeding", FALSE, health.reason or "PushFailing", health.message)
    if not last_push:
        return condition("PushSucceeding", UNKNOWN, "NotPushed", "nothing has been pushed yet")
    return condition("PushSucceeding", TRUE, "OK", f"work of this target was pushed at {last_push}")


def _held_condition(observed: Observed) -> Condition:
    """``DeletionsApplied``: False while the brake holds the deletions of a sweep (J23)."""
    if not observed.known:
        return condition("DeletionsApplied", UNKNOWN, "NotChecked", UNKNOWN_NOW)
    if not observed.held:
        return condition("DeletionsApplied", TRUE, "OK", "no deletion is held")
    message = (
        f"{observed.held_message or 'the deletions of a sweep are held'}; to make them, annotate the "
        f"GitTarget with {HOLD_ANNOTATION}={observed.held[0]}"
    )
    return condition("DeletionsApplied", FALSE, "SweepHeld", message)


def _skip_conditions(observed: Observed) -> tuple[Condition, Condition]:
    """``ObjectsWritten`` and ``RenderMatchesLive``: what is deliberately not in Git; neither touches the
    trio. The target's own age key is never written, and is no reason to say that something is missing."""
    found = observed.skipped.objects
    missing = [item for item in observed.unsealed if item.reason != OWN_KEY]
    unrendered = [item for item in found if item.code == RENDER_CODE]
    others = [item for item in found if item.code != RENDER_CODE]
    more = observed.skipped.more
    if not found and not missing and (observed.path is None or not observed.path.accepted):
        text = UNKNOWN_NOW if not observed.known else "nothing has been written yet"
        if observed.path is not None:
            text = "nothing is written while GitPathAccepted is False"
        unknown = (UNKNOWN, "NotChecked", text)
        return condition("ObjectsWritten", *unknown), condition("RenderMatchesLive", *unknown)
    written = condition("ObjectsWritten", TRUE, "OK", "no object is left out")
    if others or missing:
        parts = [_skip_text(others, more)] if others else []
        parts += [_missing_text(missing)] if missing else []
        written = condition("ObjectsWritten", FALSE, "ObjectsSkipped", "; ".join(parts))
    matches = condition("RenderMatchesLive", TRUE, "OK", "no placeholder of the folder differs from live")
    if unrendered:
        text = _skip_text(unrendered, 0 if others else more)
        matches = condition("RenderMatchesLive", FALSE, "RenderDoesNotMatchLive", text)
    return written, matches


def _missing_text(missing: Sequence[NotSealed]) -> str:
    more = f" and {len(missing) - SHOWN_SKIPS} more" if len(missing) > SHOWN_SKIPS else ""
    names = ", ".join(map(str, missing[:SHOWN_SKIPS]))
    return f"not written, because not sealed: {names}{more}; see EncryptionConfigured and spec.encryption"


def _skip_text(found: Sequence[SkippedObject], more: int) -> str:
    shown = (f"{item.title} ({item.code}: {item.message})" for item in found[:SHOWN_SKIPS])
    left = len(found) + more - SHOWN_SKIPS
    tail = f"; and {left} more" if left > 0 else ""
    return f"not written: {'; '.join(shown)}{tail}"
