"""What an operator may do: save now, look at a folder again, replay, wake a branch.

None of these changes configuration (its source is the custom resources) and none can do harm: each asks the
pipeline to do again, or now, what it does anyway. All but *save* only write to the store; *save* makes a
CommitRequest in the operator's own name, so RBAC and admission apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model

from gitwriter.outcomes import PATH_REFUSED
from reverser.dashboard.overview import branch_of
from reverser.history.models import TargetState
from reverser.kube.sync import Kube
from reverser.rest.identity import session_caller
from reverser.rest.saves import Wish, create
from reverser.store import Store
from reverser.store.model import BranchKey, Scope

PERMISSION = "history.operate_targetstate"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a target: its address, its button, and what the confirmation says."""

    slug: str
    title: str
    icon: str
    explanation: str


SAVE = Action(
    "save",
    "Save now",
    "save",
    "Creates a CommitRequest in your name: what the target has seen is committed now instead of when its "
    "window closes by itself. Where authors are attributed that is only what you changed yourself, under the "
    "name by which the cluster knows you.",
)
RECHECK = Action(
    "recheck",
    "Check folder again",
    "rule_folder",
    "Lifts the pause after a refusal and has the writer look at the folder in Git again. If it is still "
    "refused, nothing changes.",
)
REPLAY = Action(
    "replay",
    "Replay",
    "replay",
    "Reads the present state of the cluster again and makes Git equal to it. Documents of objects that are "
    "gone are deleted, as the target's prune mode and the sweep brake allow.",
)
TARGET_ACTIONS = {action.slug: action for action in (SAVE, RECHECK, REPLAY)}
WAKE = Action(
    "wake",
    "Wake branch",
    "bolt",
    "Makes the branch due now, without waiting for the next retry. Harmless when there is nothing to do.",
)


def save_now(kube: Kube, user: Any, target: TargetState, message: str) -> str:
    """Create a CommitRequest; returns the message to show. Raises the error tree's class if refused."""
    wish = Wish(target.namespace, target.name, message)
    made = create(kube, wish, acting_as=session_caller(user).impersonation)
    return (
        f"CommitRequest {target.namespace}/{made['metadata']['name']} was created; its outcome appears below."
    )


def recheck(store: Store, target: TargetState) -> str:
    """Have the folder checked again. Raises StoreUnavailable."""
    parked = [
        scope for scope, marks in store.read_marks(target.uid).items() if marks.parked_reason == PATH_REFUSED
    ]
    for scope in parked:
        store.unpark(scope)
    if not parked:
        store.raise_wanted(sorted(store.read_streams(target.uid), key=_order)[:1])
    store.wake_branch(branch_of(target))
    return "The folder is looked at again with the next replay, in a few seconds."


def replay(store: Store, target: TargetState, group_resource: str) -> str:
    """Ask for a replay of one type, or of all with an empty name. Raises StoreUnavailable."""
    scopes = [
        scope
        for scope in store.read_streams(target.uid)
        if not group_resource or scope.group_resource == group_resource
    ]
    if not scopes:
        return "No stream of that type runs, so there is nothing to replay."
    store.raise_wanted(scopes)
    for scope in scopes:
        store.unpark(scope)
    return f"{len(scopes)} stream(s) read the cluster again: {_names(scopes)}."


def wake(store: Store, branch: BranchKey) -> str:
    """Make a branch due now. Raises StoreUnavailable."""
    store.wake_branch(branch)
    return f"{branch} is due now."


def record(user: Any, subject: Model | None, *, shown: str, what: str) -> None:
    """One line in the trail of actions."""
    LogEntry.objects.create(
        user_id=user.pk,
        content_type_id=ContentType.objects.get_for_model(subject).pk if subject is not None else None,
        object_id=str(subject.pk) if subject is not None else "",
        object_repr=shown[:200],
        action_flag=CHANGE,
        change_message=what,
    )


def _order(scope: Scope) -> tuple[str, str]:
    return scope.group_resource, scope.namespace or ""


def _names(scopes: Iterable[Scope]) -> str:
    names = sorted({scope.group_resource for scope in scopes})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
