"""Views of the branches: their journals as identities and sizes, never bodies, and who writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from reverser.dashboard import actions
from reverser.dashboard.fragments import is_fragment
from reverser.dashboard.pages import may_operate
from reverser.dashboard.readings import READING, BranchReading, current
from reverser.dashboard.verdicts import moment
from reverser.errors import ReverserError, StoreUnavailable
from reverser.history.models import TargetState
from reverser.store.model import (
    AttachEntry,
    BranchKey,
    EventEntry,
    Stored,
    SweepEntry,
    UnsealedEntry,
)
from reverser.wiring import store

SHOWN_ENTRIES = 200
ENTRY_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry without its content."""

    id: str
    at: datetime | None
    kind: str
    target: str
    what: str
    size: int
    sealed: bool = False


def branches(request: HttpRequest) -> HttpResponse:
    """All branches, the failing and the fuller ones first."""
    _must_view(request)
    reading = current()
    rows = sorted(
        reading.branches.values(), key=lambda row: (not row.failing, -row.record.entries, str(row.key))
    )
    context = {
        "rows": [
            (row, _since(row), pushed, moment(row.due_ms))
            for row, pushed in zip(rows, _last_pushes(rows), strict=True)
        ],
        "problem": reading.problem,
    }
    return _page(request, "branches", "Branches", context)


def branch(request: HttpRequest, branch_id: str) -> HttpResponse:
    """One branch with its journal."""
    _must_view(request)
    context: dict[str, Any] = {"may_operate": may_operate(request)}
    title = "Branch"
    try:
        row = _branch(branch_id)
        title = f"Branch {row.key}"
        entries = store().read_entries(row.key, max_bytes=ENTRY_BYTES)
        context |= {
            "row": row,
            "since": _since(row),
            "last_push": _last_pushes([row])[0],
            "due": moment(row.due_ms),
            "entries": [_entry(stored) for stored in entries[:SHOWN_ENTRIES]],
            "more": max(0, row.record.entries - min(len(entries), SHOWN_ENTRIES)),
            "boundaries": [
                (found, moment(found.closed_ms)) for found in store().read_boundaries(row.key)[:SHOWN_ENTRIES]
            ],
        }
    except StoreUnavailable as error:
        context["problem"] = str(error)
    return _page(request, "branch", title, context)


def wake(request: HttpRequest, branch_id: str) -> HttpResponse:
    """Ask for confirmation, then make the branch due."""
    if not may_operate(request):
        raise PermissionDenied
    problem, title = "", "branch"
    back = reverse("admin:branch", args=[branch_id])
    try:
        key = _branch(branch_id).key
        title = str(key)
        if request.method == "POST":
            told = actions.wake(store(), key)
            actions.record(request.user, None, shown=title, what=f"{actions.WAKE.title}: {told}")
            READING.clear()
            messages.success(request, told)
            return HttpResponseRedirect(back)
    except ReverserError as error:
        problem = str(error)
    context = {
        **admin.site.each_context(request),
        "title": f"{actions.WAKE.title}: {title}",
        "action": actions.WAKE,
        "subject": title,
        "back": back,
        "problem": problem,
    }
    return TemplateResponse(request, "dashboard/confirm.html", context, status=409 if problem else 200)


def _must_view(request: HttpRequest) -> None:
    if not request.user.has_perm("history.view_targetstate"):
        raise PermissionDenied


def _branch(branch_id: str) -> BranchReading:
    reading = current()
    if reading.problem:
        raise StoreUnavailable(reading.problem)
    if branch_id not in reading.branches:
        raise Http404
    return reading.branches[branch_id]


def _page(request: HttpRequest, name: str, title: str, context: dict[str, Any]) -> HttpResponse:
    if is_fragment(request):
        return TemplateResponse(request, f"dashboard/{name}_live.html", context)
    page = {**admin.site.each_context(request), "title": title, **context}
    return TemplateResponse(request, f"dashboard/{name}.html", page)


def _last_pushes(rows: Sequence[BranchReading]) -> list[datetime | None]:
    """When each branch was last pushed. A journal that Redis lost knows of none; what the statuses of the
    branch's targets say stays true."""
    found = [moment(row.record.last_push_ms) for row in rows]
    if all(found):
        return found
    told: dict[BranchKey, datetime] = {}
    for target in TargetState.objects.only("namespace", "provider", "branch", "last_push_at"):
        if target.last_push_at is not None:
            branch = BranchKey(target.namespace, target.provider, target.branch)
            told[branch] = max(target.last_push_at, told.get(branch, target.last_push_at))
    return [at or told.get(row.key) for row, at in zip(rows, found, strict=True)]


def _since(row: BranchReading) -> datetime | None:
    return moment(row.health.since_ms) if row.health is not None else None


def _entry(stored: Stored) -> Entry:
    entry = stored.entry
    target = f"{entry.target.namespace}/{entry.target.name}"
    at = moment(stored.time_ms)
    if isinstance(entry, EventEntry | UnsealedEntry):
        ref = entry.object
        name = (
            f"{ref.type.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.type.kind} {ref.name}"
        )
        if isinstance(entry, UnsealedEntry):
            return Entry(stored.id, at, "unsealed", target, f"{name}: {entry.reason}", stored.size)
        return Entry(
            stored.id, at, entry.operation.value.lower(), target, name, stored.size, sealed=entry.sealed
        )
    if isinstance(entry, SweepEntry):
        where = entry.scope.namespace or "all namespaces"
        return Entry(stored.id, at, "sweep", target, f"{entry.scope.group_resource} in {where}", stored.size)
    if isinstance(entry, AttachEntry):
        name = f"{entry.namespace}/{entry.name}"
        return Entry(stored.id, at, "commit request", target, name, stored.size)
    return Entry(stored.id, at, "retire", target, "the target is gone", stored.size)
