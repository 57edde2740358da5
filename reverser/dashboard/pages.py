"""Views of the overview and of one target, with its actions. Thin: they gather, the templates show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import patch_vary_headers

from reverser.dashboard import actions, details
from reverser.dashboard.chart import draw
from reverser.dashboard.forge import commit_url, shown_url
from reverser.dashboard.fragments import REFRESH_SECONDS, is_fragment
from reverser.dashboard.overview import Overview, build
from reverser.dashboard.readings import READING, current
from reverser.dashboard.verdicts import State
from reverser.errors import ReverserError, SettingsInvalid
from reverser.history.models import TargetState
from reverser.kube.sync import Kube
from reverser.rest.saves import message_problem
from reverser.wiring import kube, store

if TYPE_CHECKING:
    from reverser.dashboard.details import Details


def overview(request: HttpRequest, site: AdminSite, extra: dict[str, Any]) -> TemplateResponse:
    """The overview or, for its own refresh, only the part that changes."""
    if not request.user.has_perm("history.view_targetstate"):
        raise PermissionDenied
    text, state = request.GET.get("q", "").strip()[:200], request.GET.get("state", "")
    namespace = request.GET.get("namespace", "")
    found = build(
        current(), text=text, state=state, namespace=namespace, page=_number(request.GET.get("page"))
    )
    context: dict[str, Any] = {
        "overview": found,
        "chart": draw(found.hours),
        "headline": _headline(found),
        "text": text,
        "state": state,
        "namespace": namespace,
        "refresh": REFRESH_SECONDS,
        "states": list(State),
        "query": _query(request),
    }
    context["fragment"] = is_fragment(request)
    if context["fragment"]:
        response = TemplateResponse(request, "dashboard/overview_live.html", context)
    else:
        context = {**site.each_context(request), "title": site.index_title, **context, **extra}
        response = TemplateResponse(request, "dashboard/overview.html", context)
    patch_vary_headers(response, ["HX-Request"])
    return response


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() and len(text) < 6 else 1


def _query(request: HttpRequest) -> str:
    """The filters as a query string without the page."""
    kept = request.GET.copy()
    kept.pop("page", None)
    return kept.urlencode()


def _headline(found: Overview) -> str:
    if not found.total:
        return "No GitTarget exists yet."
    if found.problems and not found.behind:
        return "Whether Git is up to date cannot be told."
    if not found.behind:
        return f"Git is up to date for {_targets(found.total)}."
    return f"Git may be behind for {found.behind} of {_targets(found.total)}."


def _targets(count: int) -> str:
    return "the one target" if count == 1 else f"{count} targets"


def cluster() -> Kube | None:
    """The client of this process; None where no cluster is configured."""
    try:
        return kube()
    except SettingsInvalid:
        return None


def target(request: HttpRequest, site: AdminSite, object_id: str) -> TemplateResponse:
    """One target or, for its own refresh, only the part that changes."""
    if not request.user.has_perm("history.view_targetstate"):
        raise PermissionDenied
    found = _target(object_id)
    seen: Details = details.build(found, store(), cluster())
    context: dict[str, Any] = {
        "details": seen,
        "target": found,
        "forge": shown_url(found.url),
        "commits": [(commit, commit_url(found.url, commit.sha)) for commit in seen.commits],
        "refresh": REFRESH_SECONDS,
        "actions": list(actions.TARGET_ACTIONS.values())
        if may_operate(request) and not found.removed_at
        else [],
    }
    if is_fragment(request):
        response = TemplateResponse(request, "dashboard/target_live.html", context)
    else:
        page = {**site.each_context(request), "title": str(found), "opts": TargetState._meta}
        response = TemplateResponse(request, "dashboard/target.html", {**page, **context})
    patch_vary_headers(response, ["HX-Request"])
    return response


def _target(object_id: str) -> TargetState:
    if not object_id.isdigit() or len(object_id) > 18:
        raise Http404
    return get_object_or_404(TargetState, pk=int(object_id))


def may_operate(request: HttpRequest) -> bool:
    """Whether the person may act, not only read."""
    return request.user.has_perm(actions.PERMISSION)


def act(request: HttpRequest, site: AdminSite, object_id: str, slug: str) -> HttpResponse:
    """Ask for confirmation, then do it."""
    if not may_operate(request):
        raise PermissionDenied
    action = actions.TARGET_ACTIONS.get(slug)
    found = _target(object_id)
    if action is None or found.removed_at is not None:
        raise Http404
    back = reverse("admin:history_targetstate_change", args=[found.pk])
    problem = ""
    if request.method == "POST":
        problem = message_problem(_message(request)) if action is actions.SAVE else ""
        if not problem:
            try:
                told = _do(request, action, found)
            except ReverserError as error:
                problem = str(error)
            else:
                actions.record(request.user, found, shown=str(found), what=f"{action.title}: {told}")
                READING.clear()
                messages.success(request, told)
                return HttpResponseRedirect(back)
    context = {
        **site.each_context(request),
        "title": f"{action.title}: {found}",
        "action": action,
        "subject": str(found),
        "back": back,
        "problem": problem,
        "asks_message": action is actions.SAVE,
        "message": request.POST.get("message", ""),
        "types": _types(found) if action is actions.REPLAY else [],
        "chosen": request.GET.get("type", ""),
        "opts": TargetState._meta,
    }
    return TemplateResponse(request, "dashboard/confirm.html", context, status=409 if problem else 200)


def _message(request: HttpRequest) -> str:
    """Browsers end lines with CR LF; a commit message has LF."""
    return request.POST.get("message", "").replace("\r\n", "\n").strip()


def _do(request: HttpRequest, action: actions.Action, found: TargetState) -> str:
    if action is actions.SAVE:
        return actions.save_now(kube(), request.user, found, _message(request))
    if action is actions.RECHECK:
        return actions.recheck(store(), found)
    return actions.replay(store(), found, request.POST.get("type", ""))


def _types(found: TargetState) -> list[str]:
    try:
        return sorted({scope.group_resource for scope in store().read_streams(found.uid)})
    except ReverserError:
        return []
