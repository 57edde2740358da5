"""The history in the admin, read-only. Targets and commits have pages of their own."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django_celery_beat import models as beat
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.views import ChangeList

from reverser.dashboard import commitpages, pages
from reverser.history.filters import (
    AskedFilter,
    NamespaceFilter,
    OutcomeFilter,
    OwnNamespaceFilter,
    TimeFilter,
)
from reverser.history.models import Commit, Incident, SaveRequest, TargetState
from reverser.history.paging import BoundedPaginator
from reverser.history.search import search_commits

for _model in (
    beat.ClockedSchedule,
    beat.CrontabSchedule,
    beat.IntervalSchedule,
    beat.PeriodicTask,
    beat.SolarSchedule,
    User,
    Group,
):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


class Listing(ChangeList):
    """A list whose heading counts results only under a search or a filter; *Show all* clears those."""

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page."""
        super().get_results(request)
        if not self.query and not self.has_active_filters:
            self.full_result_count = self.result_count


class ReadOnly(ModelAdmin):
    """Rows that only the pipeline writes."""

    actions = None
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # each count would read the whole history
    paginator = BoundedPaginator

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """A list that offers *Show all* only where something is left out."""
        return Listing

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never by hand."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """History is deleted only by its retention."""
        return False


@admin.register(TargetState)
class TargetAdmin(ReadOnly):
    """GitTargets, those that are gone included."""

    list_display = ("name_shown", "provider", "branch", "path", "state", "reason", "streams", "last_push_at")
    list_filter = ("ready", "stalled", ("removed_at", admin.EmptyFieldListFilter), OwnNamespaceFilter)
    search_fields = ("name", "namespace", "provider", "branch", "path", "reason", "message")

    @display(description="target", ordering="name")
    def name_shown(self, row: TargetState) -> str:
        """``namespace/name``."""
        return str(row)

    @display(description="ready", label={"True": "success", "False": "danger", "Unknown": "warning"})
    def state(self, row: TargetState) -> str:
        """The Ready condition; a target that is gone has none."""
        return "gone" if row.removed_at else row.ready

    @display(description="streams")
    def streams(self, row: TargetState) -> str:
        """Ready of all."""
        return f"{row.streams_ready}/{row.streams_total}"

    def get_urls(self) -> list[URLPattern]:
        """The actions, below the target."""
        view = self.admin_site.admin_view(self._act)
        own = path("<str:object_id>/do/<slug:action>/", view, name="history_targetstate_do")
        return [own, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The target's own page."""
        return pages.target(request, self.admin_site, object_id)

    def _act(self, request: HttpRequest, object_id: str, action: str) -> HttpResponse:
        return pages.act(request, self.admin_site, object_id, action)


@admin.register(Commit)
class CommitAdmin(ReadOnly):
    """Commits that reached the remote."""

    list_display = ("short", "subject", "author", "target", "changes", "pushed_at")
    list_filter = (("pushed_at", TimeFilter), NamespaceFilter, AskedFilter)
    list_filter_submit = True
    search_fields = ("message",)
    search_help_text = (
        "beginnings of words in the message, author, commit id, target, or an object's kind (plural), "
        "namespace or name"
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Commit], search_term: str
    ) -> tuple[QuerySet[Commit], bool]:
        """Objects are searched too."""
        return search_commits(queryset, search_term), False

    @display(description="commit")
    def short(self, row: Commit) -> str:
        """The abbreviated id."""
        return row.sha[:10]

    @display(description="changes", ordering="changes_total")
    def changes(self, row: Commit) -> int:
        """How many objects."""
        return row.changes_total

    @display(description="author", ordering="author_name")
    def author(self, row: Commit) -> str:
        """The author as Git has it."""
        return row.author_name or "committer"

    @display(description="target", ordering="target_name")
    def target(self, row: Commit) -> str:
        """``namespace/name``."""
        return f"{row.target_namespace}/{row.target_name}"

    def get_urls(self) -> list[URLPattern]:
        """The diff, below the commit."""
        view = self.admin_site.admin_view(commitpages.diff)
        return [path("<str:object_id>/diff/", view, name="history_commit_diff"), *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The commit's own page."""
        return commitpages.commit(request, object_id)


@admin.register(SaveRequest)
class RequestAdmin(ReadOnly):
    """CommitRequests, kept after the object is gone."""

    list_display = ("shown", "target_shown", "asker", "state", "message_shown", "requested_at", "took")
    list_filter = (OutcomeFilter, ("requested_at", TimeFilter), OwnNamespaceFilter)
    list_filter_submit = True
    search_fields = ("name", "namespace", "target_name", "submitter", "message", "sha")

    @display(description="commit request", ordering="name")
    def shown(self, row: SaveRequest) -> str:
        """``namespace/name``."""
        return f"{row.namespace}/{row.name}"

    @display(description="target", ordering="target_name")
    def target_shown(self, row: SaveRequest) -> str:
        """In the request's own namespace."""
        return row.target_name

    @display(description="message")
    def message_shown(self, row: SaveRequest) -> str:
        """Its first line."""
        return row.message.split("\n", 1)[0][:120]

    @display(description="asked by", ordering="submitter")
    def asker(self, row: SaveRequest) -> str:
        """As admission saw it."""
        return row.submitter or "not known"

    @display(
        description="outcome",
        ordering="outcome",
        label={
            "pushed": "success",
            "no-change": "success",
            "failed": "danger",
            "refused": "danger",
            "waiting": "info",
        },
    )
    def state(self, row: SaveRequest) -> str:
        """How it ended."""
        return row.outcome or "waiting"

    @display(description="took")
    def took(self, row: SaveRequest) -> str:
        """From the request to its end."""
        if row.requested_at is None or row.finished_at is None:
            return "-"
        return f"{max(0.0, (row.finished_at - row.requested_at).total_seconds()):.0f} s"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """The request's own page."""
        return commitpages.request_page(request, object_id)


@admin.register(Incident)
class IncidentAdmin(ReadOnly):
    """Outcomes that are not commits."""

    list_display = ("happened_at", "label", "target", "reason", "detail", "changes_total")
    list_filter = ("kind", ("happened_at", TimeFilter), NamespaceFilter)
    list_filter_submit = True
    search_fields = ("target_name", "reason", "detail")

    @display(description="kind", ordering="kind", label=True)
    def label(self, row: Incident) -> str:
        """Refused, void, held, retired or unsealed."""
        return row.kind

    @display(description="target", ordering="target_name")
    def target(self, row: Incident) -> str:
        """``namespace/name``."""
        return f"{row.target_namespace}/{row.target_name}"


@admin.register(LogEntry)
class TrailAdmin(ReadOnly):
    """The actions of people in the admin."""

    list_display = ("action_time", "user", "object_repr", "told")
    list_filter = (("action_time", TimeFilter),)
    list_filter_submit = True
    list_select_related = ("user",)
    search_fields = ("object_repr", "change_message", "user__username")

    @display(description="what")
    def told(self, row: LogEntry) -> str:
        """The text of the action, or Django's description of a change."""
        return str(row.get_change_message() or row)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    """Local people."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):
    """Groups of people."""
