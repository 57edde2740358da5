"""The filters of the history's lists. None of these reads the history to offer its choices."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.utils import parse_datetime_str

from reverser.history.models import TargetState
from reverser.history.templatetags.words import ENDED


class TimeFilter(RangeDateTimeFilter):
    """From and to, in UTC. The theme's own filter ignores a date without a time, and malformed input, and
    shows everything; here a date means the whole day, and malformed input finds nothing.
    """

    ENDS = (("gte", "from", "00:00:00"), ("lte", "to", "23:59:59.999999"))

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Rows of that time."""
        for lookup, end, usual in self.ENDS:
            day, time = (self.used_parameters.get(f"{self.field_path}_{end}_{part}") for part in (0, 1))
            if not day:
                continue
            moment = parse_datetime_str(f"{day} {time or usual}")
            if moment is None:
                return queryset.none()
            queryset = queryset.filter(**{f"{self.field_path}__{lookup}": timezone.make_aware(moment)})
        return queryset


class NamespaceFilter(admin.SimpleListFilter):
    """Namespaces of targets, known without reading the history."""

    title = "namespace"
    parameter_name = "namespace"
    column = "target_namespace"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Each namespace that has or had a target."""
        names = TargetState.objects.order_by("namespace").values_list("namespace", flat=True).distinct()
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Rows of that namespace."""
        return queryset.filter(**{self.column: self.value()}) if self.value() else queryset


class OwnNamespaceFilter(NamespaceFilter):
    """The same for rows that have a namespace themselves."""

    column = "namespace"


class OutcomeFilter(admin.SimpleListFilter):
    """How a CommitRequest ended, those that wait included."""

    title = "outcome"
    parameter_name = "outcome"
    WAITING = "waiting"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Every end that a request can have."""
        return [(code or self.WAITING, code or self.WAITING) for code in ENDED]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Rows of that outcome."""
        chosen = self.value()
        return queryset.filter(outcome="" if chosen == self.WAITING else chosen) if chosen else queryset


class AskedFilter(admin.SimpleListFilter):
    """Commits that somebody asked for, and all others."""

    title = "commit request"
    parameter_name = "asked"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """With one, without one."""
        return [("yes", "asked for by a CommitRequest"), ("no", "not asked for")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """By whether the commit has a request's UID."""
        if self.value() == "yes":
            return queryset.exclude(request_uid="")
        return queryset.filter(request_uid="") if self.value() == "no" else queryset
