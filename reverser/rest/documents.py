"""The documents of REST, made from rows and readings, and their shapes for the OpenAPI document.

Each shape is beside the function that makes it; a test keeps the two in step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from reverser.dashboard.forge import commit_url, shown_url
from reverser.dashboard.overview import branch_of
from reverser.dashboard.readings import BranchReading, Reading
from reverser.dashboard.verdicts import judge, moment
from reverser.history.models import Commit, CommitObject, SaveRequest, TargetState
from reverser.kinds.model import Condition, GitProvider, WatchRule
from reverser.rest.saves import Result
from reverser.store.model import Outcome, Scope, StreamRecord

Document = dict[str, Any]
Shape = serializers.Serializer[Any]

BENIGN = {
    "pushed": "Committed",
    "no-change": "AlreadyPresent",
    "no-window": "NoWindowInGrace",
    "window-mismatch": "WindowMismatch",
}


def rfc3339(value: datetime | None) -> str | None:
    """A time as all documents write it."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if value is not None else None


class ConditionShape(Shape):
    """A Kubernetes condition."""

    type = serializers.CharField()
    status = serializers.ChoiceField(choices=("True", "False", "Unknown"))
    reason = serializers.CharField()
    message = serializers.CharField()
    lastTransitionTime = serializers.CharField()


def condition(item: Condition) -> Document:
    """A parsed condition."""
    return {
        "type": item.type,
        "status": item.status if item.status in ("True", "False") else "Unknown",
        "reason": item.reason,
        "message": item.message,
        "lastTransitionTime": item.last_transition_time,
    }


def _stored_condition(item: Mapping[str, Any]) -> Document:
    text = {name: str(item.get(name) or "") for name in ("type", "reason", "message", "lastTransitionTime")}
    status = str(item.get("status") or "")
    return {**text, "status": status if status in ("True", "False") else "Unknown"}


class CountShape(Shape):
    """How many streams are ready."""

    ready = serializers.IntegerField()
    total = serializers.IntegerField()


class RetentionShape(Shape):
    """What the prune mode keeps in Git although its objects are gone."""

    mode = serializers.CharField()
    retainedDocuments = serializers.IntegerField()
    observedTime = serializers.DateTimeField()


class TargetShape(Shape):
    """A GitTarget and whether Git is up to date for it."""

    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    provider = serializers.CharField()
    repository = serializers.CharField()
    branch = serializers.CharField()
    path = serializers.CharField()
    state = serializers.ChoiceField(
        choices=("failing", "late", "held", "starting", "unknown", "writing", "current")
    )
    reason = serializers.CharField()
    message = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    oldestUnpushed = serializers.DateTimeField(allow_null=True)
    lastPushTime = serializers.DateTimeField(allow_null=True)
    streams = CountShape()
    retention = RetentionShape(allow_null=True, help_text="null where nothing is kept or was counted")
    journalEntries = serializers.IntegerField(
        allow_null=True, help_text="Of its branch; null where the store does not answer"
    )
    conditions = ConditionShape(many=True)


def target(row: TargetState, reading: Reading) -> Document:
    """One GitTarget."""
    branch = reading.branches.get(branch_of(row).id)
    now_ms = reading.now_ms or int(datetime.now(tz=UTC).timestamp() * 1000)
    verdict = judge(row, branch, now_ms=now_ms)
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "provider": row.provider,
        "repository": shown_url(row.url),
        "branch": row.branch,
        "path": row.path,
        "state": verdict.state.slug,
        "reason": verdict.reason,
        "message": verdict.message,
        "since": rfc3339(verdict.since),
        "oldestUnpushed": rfc3339(verdict.oldest),
        "lastPushTime": rfc3339(row.last_push_at),
        "streams": {"ready": row.streams_ready, "total": row.streams_total},
        "retention": row.retention,
        "journalEntries": branch.record.entries if branch is not None else None,
        "conditions": [_stored_condition(item) for item in row.conditions or () if isinstance(item, Mapping)],
    }


class StreamShape(Shape):
    """One watch of a target."""

    resource = serializers.CharField(help_text="`resource`, or `group/resource`")
    version = serializers.CharField()
    kind = serializers.CharField()
    watchedNamespace = serializers.CharField(allow_null=True, help_text="null = all, or cluster-scoped")
    state = serializers.ChoiceField(choices=("replaying", "streaming", "blocked"))
    reason = serializers.CharField()
    message = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    lastEvent = serializers.DateTimeField(allow_null=True)
    restarts = serializers.IntegerField()
    eventsLastHour = serializers.IntegerField(
        help_text="As the watch sent them, those that changed nothing included"
    )


class TargetStreamsShape(Shape):
    """The streams of one target."""

    namespace = serializers.CharField()
    target = serializers.CharField()
    streams = StreamShape(many=True)


def streams(row: TargetState, records: Mapping[Scope, StreamRecord]) -> Document:
    """The streams of a target in the order of their names."""
    found = [
        {
            "resource": scope.group_resource,
            "version": record.type.version,
            "kind": record.type.kind,
            "watchedNamespace": scope.namespace,
            "state": record.state.value,
            "reason": record.reason,
            "message": record.message,
            "since": rfc3339(moment(record.since_ms)),
            "lastEvent": rfc3339(moment(record.last_event_ms)),
            "restarts": record.restarts,
            "eventsLastHour": record.hourly_events,
        }
        for scope, record in sorted(
            records.items(), key=lambda item: (item[0].group_resource, item[0].namespace or "")
        )
    ]
    return {"namespace": row.namespace, "target": row.name, "streams": found}


class ProviderShape(Shape):
    """A GitProvider."""

    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    repository = serializers.CharField()
    allowedBranches = serializers.ListField(child=serializers.CharField())
    commitWindowSeconds = serializers.FloatField()
    conditions = ConditionShape(many=True)


def provider(found: GitProvider) -> Document:
    """One GitProvider; nothing of its credentials."""
    return {
        "namespace": found.meta.namespace,
        "name": found.meta.name,
        "uid": found.meta.uid,
        "repository": shown_url(found.url),
        "allowedBranches": list(found.allowed_branches),
        "commitWindowSeconds": found.commit_window,
        "conditions": [condition(item) for item in found.conditions],
    }


class SelectionShape(Shape):
    """What one entry of a rule selects."""

    resources = serializers.ListField(child=serializers.CharField())
    apiGroups = serializers.ListField(child=serializers.CharField())
    apiVersions = serializers.ListField(child=serializers.CharField())
    operations = serializers.ListField(child=serializers.CharField())
    scope = serializers.CharField()


class RuleShape(Shape):
    """A WatchRule or ClusterWatchRule."""

    kind = serializers.ChoiceField(choices=("WatchRule", "ClusterWatchRule"))
    namespace = serializers.CharField(help_text="Empty for a ClusterWatchRule")
    name = serializers.CharField()
    uid = serializers.CharField()
    targetNamespace = serializers.CharField()
    target = serializers.CharField()
    rules = SelectionShape(many=True)
    conditions = ConditionShape(many=True)


def rule(found: WatchRule) -> Document:
    """One rule of either kind."""
    return {
        "kind": "ClusterWatchRule" if found.cluster else "WatchRule",
        "namespace": found.meta.namespace,
        "name": found.meta.name,
        "uid": found.meta.uid,
        "targetNamespace": found.target_namespace,
        "target": found.target_name,
        "rules": [
            {
                "resources": list(item.resources),
                "apiGroups": list(item.api_groups),
                "apiVersions": list(item.api_versions),
                "operations": sorted(item.operations),
                "scope": item.scope,
            }
            for item in found.rules
        ],
        "conditions": [condition(item) for item in found.conditions],
    }


class ObjectShape(Shape):
    """One object that a commit changed."""

    operation = serializers.CharField()
    outcome = serializers.CharField()
    group = serializers.CharField()
    version = serializers.CharField()
    resource = serializers.CharField()
    namespace = serializers.CharField()
    name = serializers.CharField()
    path = serializers.CharField()


class CommitShape(Shape):
    """A commit that reached the remote."""

    id = serializers.IntegerField()
    sha = serializers.CharField()
    url = serializers.CharField(help_text="Its page at the forge, or empty")
    namespace = serializers.CharField()
    target = serializers.CharField()
    provider = serializers.CharField()
    branch = serializers.CharField()
    authorName = serializers.CharField()
    authorEmail = serializers.CharField()
    username = serializers.CharField(help_text="The Kubernetes user, where that is certain")
    message = serializers.CharField()
    closeReason = serializers.CharField()
    commitRequest = serializers.CharField(help_text="UID of the CommitRequest, or empty")
    changes = serializers.IntegerField()
    pushedAt = serializers.DateTimeField()


class CommitDetailShape(CommitShape):
    """A commit with its objects (at most 500)."""

    objects = ObjectShape(many=True)


def commit(row: Commit, url: str) -> Document:
    """One commit; ``url`` is its repository's, or empty."""
    return {
        "id": row.pk,
        "sha": row.sha,
        "url": commit_url(url, row.sha),
        "namespace": row.target_namespace,
        "target": row.target_name,
        "provider": row.provider_name,
        "branch": row.branch,
        "authorName": row.author_name,
        "authorEmail": row.author_email,
        "username": row.username,
        "message": row.message,
        "closeReason": row.close_reason,
        "commitRequest": row.request_uid,
        "changes": row.changes_total,
        "pushedAt": rfc3339(row.pushed_at),
    }


def changed(rows: Iterable[CommitObject]) -> list[Document]:
    """The objects of a commit."""
    names = ("operation", "outcome", "group", "version", "resource", "namespace", "name", "path")
    return [{name: getattr(row, name) for name in names} for row in rows]


class BranchShape(Shape):
    """A branch and its journal."""

    id = serializers.CharField()
    namespace = serializers.CharField()
    provider = serializers.CharField()
    branch = serializers.CharField()
    healthy = serializers.BooleanField(allow_null=True, help_text="null before the first attempt")
    reason = serializers.CharField()
    message = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    attempts = serializers.IntegerField()
    entries = serializers.IntegerField()
    bytes = serializers.IntegerField()
    holder = serializers.CharField(help_text="Who writes it at this moment, or empty")
    tip = serializers.CharField(help_text="The tip last known, or empty")
    lastPushTime = serializers.DateTimeField(allow_null=True)


def branch(row: BranchReading) -> Document:
    """One branch."""
    health = row.health
    return {
        "id": row.key.id,
        "namespace": row.key.namespace,
        "provider": row.key.provider,
        "branch": row.key.branch,
        "healthy": health.ok if health is not None else None,
        "reason": health.reason if health is not None else "",
        "message": health.message if health is not None else "",
        "since": rfc3339(moment(health.since_ms)) if health is not None else None,
        "attempts": health.attempts if health is not None else 0,
        "entries": row.record.entries,
        "bytes": row.record.unsettled_bytes,
        "holder": row.holder,
        "tip": row.record.base or "",
        "lastPushTime": rfc3339(moment(row.record.last_push_ms)),
    }


class RequestShape(Shape):
    """A CommitRequest and how it ended."""

    namespace = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField()
    target = serializers.CharField()
    message = serializers.CharField()
    submitter = serializers.CharField(help_text="Who asked, as admission saw it; empty = not known")
    state = serializers.ChoiceField(choices=("waiting", "succeeded", "failed"))
    reason = serializers.CharField()
    detail = serializers.CharField()
    branch = serializers.CharField()
    sha = serializers.CharField(help_text="The commit, where one was made")
    requestedAt = serializers.DateTimeField(allow_null=True)
    finishedAt = serializers.DateTimeField(allow_null=True)


def request_row(row: SaveRequest) -> Document:
    """A CommitRequest as the history has it."""
    state = "waiting" if not row.outcome else "succeeded" if row.outcome in BENIGN else "failed"
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "target": row.target_name,
        "message": row.message,
        "submitter": row.submitter,
        "state": state,
        "reason": BENIGN.get(row.outcome, "FinalizeFailed" if row.outcome else ""),
        "detail": row.detail,
        "branch": row.branch,
        "sha": row.sha,
        "requestedAt": rfc3339(row.requested_at),
        "finishedAt": rfc3339(row.finished_at),
    }


def request_object(result: Result) -> Document:
    """A CommitRequest as the cluster has it."""
    found = result.request
    state = "waiting" if not result.finished else "succeeded" if result.succeeded else "failed"
    ready = next((item for item in found.conditions if item.type == "Ready"), None)
    return {
        "namespace": found.meta.namespace,
        "name": found.meta.name,
        "uid": found.meta.uid,
        "target": found.target_name,
        "message": found.message,
        "submitter": found.submitter.username if found.submitter is not None else "",
        "state": state,
        "reason": result.reason,
        "detail": result.message,
        "branch": found.branch,
        "sha": found.sha,
        "requestedAt": found.meta.creation_timestamp or None,
        "finishedAt": (ready.last_transition_time or None) if ready is not None and result.finished else None,
    }


def outcome(found: Outcome) -> Document:
    """One event of the stream: how entries were settled."""
    return {
        "id": found.id,
        "kind": found.kind.value,
        "namespace": found.target.namespace,
        "target": found.target.name,
        "provider": found.branch.provider,
        "branch": found.branch.branch,
        "sha": found.commit,
        "subject": found.message.split("\n", 1)[0],
        "authorName": found.author_name,
        "reason": found.reason,
        "detail": found.detail,
        "commitRequest": found.request_name,
        "changes": found.changes_total,
        "settledAt": rfc3339(moment(found.settled_ms)),
    }
