"""Questions to the history that more than one page asks, each a bounded number of SQL queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, OuterRef, QuerySet, Subquery, Sum, Value

from reverser.history.models import Commit, CommitObject, Incident, SaveRequest, TargetState
from reverser.store.model import group_resource


@dataclass(frozen=True, slots=True)
class Hour:
    """What one hour brought; ``start`` is its beginning, UTC."""

    start: datetime
    commits: int
    changes: int


def living_targets() -> QuerySet[TargetState]:
    """Targets that exist."""
    return TargetState.objects.filter(removed_at=None)


def latest_commits(targets: Iterable[TargetState]) -> dict[tuple[str, str], Commit]:
    """The newest commit of each target by (namespace, name): two queries whatever their number."""
    pks = [target.pk for target in targets]
    newest = (
        Commit.objects.filter(target_namespace=OuterRef("namespace"), target_name=OuterRef("name"))
        .order_by("-pushed_at", "-id")
        .values("pk")[:1]
    )
    found = [
        pk
        for pk in TargetState.objects.filter(pk__in=pks).values_list(Subquery(newest), flat=True)
        if pk is not None
    ]
    return {(c.target_namespace, c.target_name): c for c in Commit.objects.filter(pk__in=found)}


def hours(now: datetime, count: int = 24) -> list[Hour]:
    """Commits and changes of the last ``count`` hours, oldest first, empty hours included."""
    first = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=count - 1)
    starts = [first + timedelta(hours=step) for step in range(count)]
    # One range of the index per hour: grouping by a computed value would sort all commits of the day.
    parts = [
        Commit.objects.filter(pushed_at__gte=start, pushed_at__lt=start + timedelta(hours=1))
        .order_by()
        .values(place=Value(place))
        .annotate(commits=Count("*"), changes=Sum("changes_total"))
        for place, start in enumerate(starts)
    ]
    found = parts[0].union(*parts[1:], all=True).values_list("place", "commits", "changes")
    return [Hour(starts[place], commits, changes or 0) for place, commits, changes in sorted(found)]


def recent_changes(target: TargetState, since: datetime) -> dict[str, int]:
    """Objects written for a target since then, by ``resource`` or ``group/resource``."""
    rows = (
        CommitObject.objects.filter(
            commit__target_namespace=target.namespace,
            commit__target_name=target.name,
            commit__pushed_at__gte=since,
        )
        .values_list("group", "resource")
        .annotate(total=Count("pk"))
        .order_by()
    )
    return {group_resource(group, resource): total for group, resource, total in rows}


def target_commits(target: TargetState) -> QuerySet[Commit]:
    """The commits of a target, newest first."""
    return Commit.objects.filter(target_namespace=target.namespace, target_name=target.name)


def target_incidents(target: TargetState) -> QuerySet[Incident]:
    """What went another way than to Git, newest first."""
    return Incident.objects.filter(target_namespace=target.namespace, target_name=target.name)


def target_requests(target: TargetState) -> QuerySet[SaveRequest]:
    """The CommitRequests of a target, newest first."""
    return SaveRequest.objects.filter(namespace=target.namespace, target_name=target.name)
