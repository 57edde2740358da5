"""Outcomes of the journal become history rows.

The store keeps outcomes in a bounded stream; this module reads it from the stored position and writes
rows, each once (by outcome id). Losing the database loses history only; losing Redis loses what was not
projected yet. The data plane never waits for either.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from django.db import transaction

from reverser.history import search
from reverser.history.models import Commit, CommitObject, Incident, ProjectorPosition, SaveRequest
from reverser.store.model import Outcome, OutcomeKind

STREAM = "outcomes"
_INCIDENTS = frozenset(
    {OutcomeKind.REFUSED, OutcomeKind.VOID, OutcomeKind.HELD, OutcomeKind.UNSEALED, OutcomeKind.RETIRED}
)


class OutcomeSource(Protocol):
    """The part of the store that the projector reads."""

    def read_outcomes(
        self, after_id: str, count: int, block_ms: int = 0
    ) -> Sequence[tuple[str, Outcome]]: ...


def project_outcomes(source: OutcomeSource, *, count: int = 200, block_ms: int = 0) -> int:
    """Project the next outcomes; returns how many were written. Safe to repeat and to run concurrently."""
    position, _created = ProjectorPosition.objects.get_or_create(stream=STREAM)
    batch = source.read_outcomes(position.position, count, block_ms)
    if not batch:
        return 0
    with transaction.atomic():
        locked = ProjectorPosition.objects.select_for_update().get(pk=position.pk)
        if locked.position != position.position:
            return 0  # another process was faster and has written these rows
        for _stream_id, outcome in batch:
            _project(outcome)
        locked.position = batch[-1][0]
        locked.save(update_fields=("position", "updated_at"))
    return len(batch)


def reset_position() -> None:
    """Start from the beginning of the stream again; rows are written once whatever is read twice."""
    ProjectorPosition.objects.filter(stream=STREAM).delete()


def forget_before(moment: datetime, *, batch: int = 2000) -> int:
    """Delete history rows older than ``moment`` in bounded batches; returns how many were deleted."""
    deleted = 0
    for model, field in ((Commit, "pushed_at"), (Incident, "happened_at"), (SaveRequest, "finished_at")):
        while True:
            keys = list(model.objects.filter(**{f"{field}__lt": moment}).values_list("pk", flat=True)[:batch])
            if not keys:
                break
            deleted += model.objects.filter(pk__in=keys).delete()[0]
    return deleted


def retention_limit(now: datetime, seconds: float) -> datetime:
    """The moment before which history is forgotten."""
    return now - timedelta(seconds=seconds)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def _project(outcome: Outcome) -> None:
    if outcome.kind is OutcomeKind.PUSHED:
        _project_commit(outcome)
    elif outcome.kind in _INCIDENTS:
        Incident.objects.get_or_create(
            outcome=outcome.id,
            defaults={
                **_where(outcome),
                "kind": outcome.kind.value,
                "reason": outcome.reason,
                "detail": outcome.detail,
                "changes_total": outcome.changes_total,
                "happened_at": _moment(outcome.settled_ms),
            },
        )
    if outcome.request_uid:
        _project_request(outcome)


def _where(outcome: Outcome) -> dict[str, str]:
    return {
        "provider_namespace": outcome.branch.namespace,
        "provider_name": outcome.branch.provider,
        "branch": outcome.branch.branch,
        "target_uid": outcome.target.uid,
        "target_namespace": outcome.target.namespace,
        "target_name": outcome.target.name,
    }


def _project_commit(outcome: Outcome) -> None:
    commit, created = Commit.objects.get_or_create(
        outcome=outcome.id,
        defaults={
            **_where(outcome),
            "sha": outcome.commit,
            "author_name": outcome.author_name,
            "author_email": outcome.author_email,
            "username": outcome.author.username if outcome.author else "",
            "message": outcome.message,
            "close_reason": outcome.close_reason,
            "request_uid": outcome.request_uid,
            "resource_version": outcome.resource_version,
            "changes_total": outcome.changes_total,
            "swept": outcome.swept,
            "first_seen_at": _moment(outcome.first_entry_ms) if outcome.first_entry_ms else None,
            "pushed_at": _moment(outcome.settled_ms),
        },
    )
    if created:
        objects = [
            CommitObject(
                commit=commit,
                operation=change.operation,
                group=change.group,
                version=change.version,
                resource=change.resource,
                namespace=change.namespace,
                name=change.name,
                path=change.path,
                outcome=change.outcome,
            )
            for change in outcome.changes
            if change.outcome != "unchanged"
        ]
        CommitObject.objects.bulk_create(objects)
        search.index([(commit, objects)])


def _project_request(outcome: Outcome) -> None:
    SaveRequest.objects.update_or_create(
        uid=outcome.request_uid,
        defaults={
            "namespace": outcome.request_namespace or outcome.target.namespace,
            "name": outcome.request_name,
            "target_uid": outcome.target.uid,
            "target_name": outcome.target.name,
            "outcome": outcome.kind.value,
            "detail": outcome.detail,
            "branch": outcome.branch.branch,
            "sha": outcome.commit if outcome.kind is OutcomeKind.PUSHED else "",
            "finished_at": _moment(outcome.settled_ms),
        },
    )
