"""The admin site: its index is the overview, and pages without a model are below it."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, cast

from csp.constants import UNSAFE_EVAL
from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.sites import UnfoldAdminSite

from reverser.dashboard.fragments import is_fragment

# The theme's Alpine compiles the expressions in its attributes; nothing else here does.
_theme_scripts = csp_update({"script-src": [UNSAFE_EVAL]})


class Site(UnfoldAdminSite):
    """The product's admin."""

    site_header = "GitOps Reverser"
    site_title = "GitOps Reverser"
    index_title = "Is Git up to date?"
    index_template = "dashboard/overview.html"

    def extra_urls(self) -> list[URLPattern]:
        """Pages of no model."""
        from reverser.dashboard import branchpages

        return [
            path("branches/", self.admin_view(branchpages.branches), name="branches"),
            path("branches/<str:branch_id>/", self.admin_view(branchpages.branch), name="branch"),
            path("branches/<str:branch_id>/wake/", self.admin_view(branchpages.wake), name="branch_wake"),
        ]

    def admin_view(
        self, view: Callable[..., HttpResponse], cacheable: bool = False
    ) -> Callable[..., HttpResponse]:
        """Every page of the site allows what the theme's scripts need."""
        guarded = super().admin_view(view, cacheable)

        def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if is_fragment(request) and not self.has_permission(request):
                # The session has ended: the whole page goes to the login, not only the part that refreshes.
                return HttpResponse(status=204, headers={"HX-Refresh": "true"})
            return cast("HttpResponse", guarded(request, *args, **kwargs))

        return cast("Callable[..., HttpResponse]", _theme_scripts(update_wrapper(shown, guarded)))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The login page has the theme's scripts too."""
        from reverser.dashboard import oidc

        shown: Any = _theme_scripts(super().login)
        return cast("HttpResponse", shown(request, {**(extra_context or {}), "oidc": oidc.enabled()}))

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """The overview."""
        from reverser.dashboard.pages import overview

        return overview(request, self, extra_context or {})
