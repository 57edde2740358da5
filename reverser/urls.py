"""The addresses of the web process. Health and metrics are answered before these (reverser/health.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from reverser.dashboard.oidc import Begin, Callback

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index", permanent=False)),
    path("admin/", admin.site.urls),
    path("oidc/login", Begin.as_view(), name="oidc_login"),
    path("oidc/callback", Callback.as_view(), name="oidc_callback"),
    path("api/", include("reverser.rest.urls")),
]
handler400 = "reverser.rest.problems.bad_request"
handler404 = "reverser.rest.problems.not_found"
handler500 = "reverser.rest.problems.server_error"
