"""Words for codes of outcomes and windows, which the pages share with metrics, logs and statuses."""

from __future__ import annotations

from django import template

from reverser.store.model import CloseReason, OutcomeKind

register = template.Library()

CLOSED_BECAUSE = {
    CloseReason.TIMER: "nothing more came within the commit window",
    CloseReason.AUTHOR_OR_TARGET_CHANGE: "a change by another author or of another target came next",
    CloseReason.BUFFER_LIMIT: "it had grown as large as a commit may be",
    CloseReason.COMMIT_WINDOW_ZERO: "the commit window is 0, so each change is a commit",
    CloseReason.FINALIZE: "a CommitRequest asked for it",
    CloseReason.SWEEP: "a first replay came next",
    CloseReason.HEAL: "a repairing replay came next",
    CloseReason.RETIRE: "the target was removed",
    CloseReason.SHUTDOWN: "the product was stopped",
}
ENDED = {
    "": "waiting for its commit",
    OutcomeKind.PUSHED: "committed and pushed",
    OutcomeKind.NO_CHANGE: "nothing to commit: Git already had everything",
    OutcomeKind.NO_WINDOW: "nothing to commit: no change of this author was waiting",
    OutcomeKind.WINDOW_MISMATCH: "nothing was committed: the open window holds the changes of another author",
    OutcomeKind.REFUSED: "refused",
    OutcomeKind.RETIRED: "not committed: the target was removed",
    "failed": "failed",
}
TONES = {
    "": "writing",
    OutcomeKind.PUSHED: "current",
    OutcomeKind.NO_CHANGE: "current",
    OutcomeKind.NO_WINDOW: "late",
    OutcomeKind.WINDOW_MISMATCH: "late",
}


@register.filter
def closing(reason: str) -> str:
    """Why a window closed; a code that is not known stands for itself."""
    return CLOSED_BECAUSE[CloseReason(reason)] if reason in set(CloseReason) else reason


@register.filter
def ending(outcome: str) -> str:
    """How a CommitRequest ended; a code that is not known stands for itself."""
    return ENDED.get(outcome, outcome)


@register.filter
def tone(outcome: str) -> str:
    """The colour of such an end."""
    return TONES.get(outcome, "failing")
