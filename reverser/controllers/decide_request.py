"""The status of a CommitRequest, from its outcome in the store and who asked. Pure.

A finished request (Ready or Stalled) is never judged again. ``sha`` is only ever the commit of an
outcome that says *pushed*, which writers record after the remote has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reverser.controllers.conditions import (
    FALSE,
    READY,
    STALLED,
    TRUE,
    UNKNOWN,
    Plan,
    blocked,
    condition,
    done,
    find,
    progressing,
)
from reverser.kinds.model import CommitRequest, Condition, Submitter
from reverser.store.model import Outcome, OutcomeKind

SAFETY_BOUND = 420.0
"""Seconds from the first attach to giving up: the longest delay (300) and time to push."""
OUTCOME_POLL = 10.0
"""Seconds between looks for an outcome, in case its wake-up was lost."""

_BENIGN = {
    OutcomeKind.NO_WINDOW: ("NoWindowInGrace", "no change of this author was waiting to be committed"),
    OutcomeKind.WINDOW_MISMATCH: ("WindowMismatch", "the open window holds the changes of another author"),
    OutcomeKind.NO_CHANGE: ("AlreadyPresent", "Git already had everything that the window held"),
}
_FAILED = {
    OutcomeKind.REFUSED: "the window was refused",
    OutcomeKind.RETIRED: "the GitTarget was deleted or changed its destination",
    OutcomeKind.VOID: "the window became void; its objects are read again",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is known of a request that has no outcome."""

    waited: float = 0.0
    """Seconds since its first attach, or since it was first seen where no attach is known."""
    hint: str = ""
    """What it waits for, where that is not just its delay: a missing target, a failing push."""


_JUST_SEEN = Waiting()


def is_terminal(request: CommitRequest) -> bool:
    """True when the request is finished."""
    return any(c.type in (READY, STALLED) and c.status == TRUE for c in request.conditions)


def author_condition(request: CommitRequest, submitter: Submitter | None) -> Condition:
    """``AuthorAttributed``; what was stated first stays."""
    stated = find(request.conditions, "AuthorAttributed")
    if stated is not None and stated.status in (TRUE, FALSE):
        return condition(stated.type, stated.status, stated.reason, stated.message)
    if submitter is not None:
        message = f"the admission webhook saw {submitter.username} ask for it"
        return condition("AuthorAttributed", TRUE, "AttributedFromAdmission", message)
    message = "who asked is not known; the committer stands in"
    return condition("AuthorAttributed", FALSE, "CommitterFallback", message)


def decide_request(
    request: CommitRequest,
    outcome: Outcome | None,
    *,
    submitter: Submitter | None,
    branch: str = "",
    waiting: Waiting = _JUST_SEEN,
) -> Plan | None:
    """The whole status, or None for a finished request. ``branch`` is the target's, where known."""
    if is_terminal(request):
        return None
    fields: dict[str, Any] = {}
    if outcome is not None and outcome.branch.branch:
        branch = outcome.branch.branch
    who = request.submitter or submitter
    if who is not None:
        named = {"username": who.username, "displayName": who.display_name, "email": who.email}
        fields["submitter"] = {key: value for key, value in named.items() if value}
    requeue: float | None = None
    if outcome is None and waiting.waited <= SAFETY_BOUND:
        reason = "WaitingForCloseDelay"
        message = waiting.hint or (
            f"waiting for the close delay of {request.close_delay_seconds} s and for the push"
        )
        trio, pushed = progressing(reason, message), condition("Pushed", UNKNOWN, reason, message)
        requeue = OUTCOME_POLL
    elif outcome is None:
        message = (
            f"not finished within {SAFETY_BOUND:.0f} s; the changes are kept and are pushed when possible"
            + (f" ({waiting.hint})" if waiting.hint else "")
        )
        trio, pushed = (
            blocked("FinalizeFailed", message),
            condition("Pushed", FALSE, "FinalizeFailed", message),
        )
    else:
        trio, pushed = _finished(outcome)
        if pushed.status == TRUE:
            fields["sha"] = outcome.commit
    if branch and (outcome is not None or pushed.status != UNKNOWN):
        fields["branch"] = branch
    return Plan((*trio, pushed, author_condition(request, submitter)), fields, requeue)


def _finished(outcome: Outcome) -> tuple[tuple[Condition, ...], Condition]:
    if outcome.kind is OutcomeKind.PUSHED and outcome.commit:
        message = f"commit {outcome.commit} is on branch '{outcome.branch.branch}'"
        message += f"; {outcome.detail}" if outcome.detail else ""
        return done("Committed", message), condition("Pushed", TRUE, "Pushed", message)
    if outcome.kind in _BENIGN:
        reason, message = _BENIGN[outcome.kind]
        if outcome.kind is OutcomeKind.NO_CHANGE and outcome.detail:
            message = f"nothing was committed; {outcome.detail}"
        return done(reason, message), condition("Pushed", FALSE, reason, message)
    if outcome.kind in _FAILED:
        message = outcome.detail or _FAILED[outcome.kind]
        return blocked("FinalizeFailed", message), condition("Pushed", FALSE, "FinalizeFailed", message)
    message = f"unexpected outcome {outcome.kind}; please report it with outcome id {outcome.id}"
    return blocked("UnexpectedOutcome", message), condition("Pushed", FALSE, "UnexpectedOutcome", message)
