"""The message of a unit: the bound request's text, else the frozen template of its kind (docs/commits.md)."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

from gitwriter.manifests import WritePlan
from gitwriter.messages import (
    EventValues,
    GroupValues,
    ReconcileValues,
    ResourceName,
    TemplateKind,
    render_message,
)
from gitwriter.outcomes import counted_changes
from gitwriter.windows import ClosedWindow, SweepUnit, Unit
from reverser.store.model import EventEntry, Frozen

logger = logging.getLogger(__name__)

MOST_LISTED = 50


def commit_message(unit: Unit, frozen: Frozen, plan: WritePlan, *, committer: str) -> str:
    """The message of the commit that a unit becomes. A template that fails is replaced by the default one."""
    if unit.boundary.message:
        return unit.boundary.message
    if isinstance(unit, SweepUnit):
        kind, text = TemplateKind.RECONCILE, frozen.reconcile_template
        rendered = render_message(kind, text, _reconcile_values(unit, plan))
    elif len(unit.events) == 1:
        kind, text = TemplateKind.EVENT, frozen.event_template
        rendered = render_message(kind, text, _event_values(unit))
    else:
        kind, text = TemplateKind.GROUP, frozen.group_template
        rendered = render_message(kind, text, _group_values(unit, committer))
        if rendered.problem or not text.strip():
            rendered = replace(rendered, message=f"{rendered.message}\n\n{_listing(unit)}")
    if rendered.problem:
        logger.warning(
            "a message template failed; the default template was used",
            extra={"template": kind.value, "problem": rendered.problem},
        )
    return rendered.message


def _listing(unit: ClosedWindow) -> str:
    """The body of a built-in message: what happened to which object, in the order of the window."""
    changes = [folded.event for folded in unit.events]
    lines = [f"{event.operation.value} {_name(event)}" for event in changes[:MOST_LISTED]]
    if len(changes) > MOST_LISTED:
        lines.append(f"and {len(changes) - MOST_LISTED} more")
    return "\n".join(lines)


def _name(event: EventEntry) -> ResourceName:
    kind = event.object.type
    return ResourceName(
        group=kind.group,
        version=kind.version,
        resource=kind.resource,
        namespace=event.object.namespace,
        name=event.object.name,
    )


def _event_values(unit: ClosedWindow) -> EventValues:
    event = unit.events[0].event
    author = unit.boundary.author
    return EventValues(
        operation=event.operation.value,
        resource=_name(event),
        username=author.username if author else "",
        git_target=unit.boundary.target.name,
    )


def _group_values(unit: ClosedWindow, committer: str) -> GroupValues:
    author = unit.boundary.author
    return GroupValues(
        author=author.username if author and author.username else committer,
        git_target=unit.boundary.target.name,
        operations=dict(Counter(folded.event.operation.value for folded in unit.events)),
        resources=tuple(_name(folded.event) for folded in unit.events),
    )


def _reconcile_values(unit: SweepUnit, plan: WritePlan) -> ReconcileValues:
    kind = unit.sweep.type
    return ReconcileValues(
        count=counted_changes(plan),
        git_target=unit.boundary.target.name,
        group=kind.group,
        version=kind.version,
        resource=kind.resource,
        revision=unit.sweep.resource_version,
    )
