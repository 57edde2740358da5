"""Views of one commit with its diff, and of one CommitRequest."""

from __future__ import annotations

from typing import TypeVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import F, Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.cache import patch_vary_headers

from reverser.dashboard.diffs import DiffUnavailable, find_clone, read_diff
from reverser.dashboard.forge import commit_url
from reverser.dashboard.fragments import REFRESH_SECONDS, STOP_POLLING, is_fragment
from reverser.history.models import Commit, SaveRequest, TargetState
from reverser.wiring import config

OBJECTS = 500

M = TypeVar("M", bound=Model)


def _found(request: HttpRequest, model: type[M], object_id: str, permission: str) -> M:
    if not request.user.has_perm(permission):
        raise PermissionDenied
    if not object_id.isdigit() or len(object_id) > 18:
        raise Http404
    return get_object_or_404(model, pk=int(object_id))


def _target_of(namespace: str, name: str) -> TargetState | None:
    rows = TargetState.objects.filter(namespace=namespace, name=name)
    return rows.order_by(F("removed_at").desc(nulls_first=True), "-id").first()


def commit(request: HttpRequest, object_id: str) -> HttpResponse:
    """One commit: message, author, objects; its diff is read on demand."""
    found = _found(request, Commit, object_id, "history.view_commit")
    target = _target_of(found.target_namespace, found.target_name)
    objects = list(found.objects_changed.order_by("namespace", "resource", "name")[: OBJECTS + 1])
    asked = SaveRequest.objects.filter(uid=found.request_uid).first() if found.request_uid else None
    context = {
        **admin.site.each_context(request),
        "title": found.subject,
        "commit": found,
        "target": target,
        "objects": objects[:OBJECTS],
        "more": max(0, found.changes_total - OBJECTS) if len(objects) > OBJECTS else 0,
        "asked": asked,
        "link": commit_url(target.url, found.sha) if target is not None else "",
        "opts": Commit._meta,
    }
    return TemplateResponse(request, "dashboard/commit.html", context)


def diff(request: HttpRequest, object_id: str) -> HttpResponse:
    """The diff of a commit, from the clone on this machine."""
    found = _found(request, Commit, object_id, "history.view_commit")
    context: dict[str, object] = {"commit": found, "side": request.GET.get("view") == "side"}
    try:
        clone = find_clone(
            config().state_dir,
            found.provider_namespace,
            found.provider_name,
            branch=found.branch,
            sha=found.sha,
        )
        context["diff"] = read_diff(clone, found.sha)
    except DiffUnavailable as error:
        context["unavailable"] = str(error)
    if is_fragment(request):
        response = TemplateResponse(request, "dashboard/diff_live.html", context)
    else:
        page = {**admin.site.each_context(request), "title": found.subject, "opts": Commit._meta, **context}
        response = TemplateResponse(request, "dashboard/diff.html", page)
    patch_vary_headers(response, ["HX-Request"])
    return response


def request_page(request: HttpRequest, object_id: str) -> HttpResponse:
    """One CommitRequest and its outcome; while it waits the page refreshes itself."""
    found = _found(request, SaveRequest, object_id, "history.view_saverequest")
    commits = list(Commit.objects.filter(request_uid=found.uid)[:10])
    context = {
        "asked": found,
        "target": _target_of(found.namespace, found.target_name),
        "commits": commits,
    }
    if is_fragment(request):
        status = STOP_POLLING if found.outcome and (commits or not found.sha) else 200
        response = TemplateResponse(request, "dashboard/request_live.html", context, status=status)
    else:
        title = f"{found.namespace}/{found.name}"
        page = {**admin.site.each_context(request), "title": title, "opts": SaveRequest._meta}
        page["refresh"] = REFRESH_SECONDS
        response = TemplateResponse(request, "dashboard/request.html", {**page, **context})
    patch_vary_headers(response, ["HX-Request"])
    return response
