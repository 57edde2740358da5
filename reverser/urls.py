"""The addresses of the web process. Health and metrics are answered before these (reverser/health.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

admin.site.site_header = "GitOps Reverser"
admin.site.site_title = "GitOps Reverser"
admin.site.index_title = "Is Git up to date?"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index", permanent=False)),
    path("admin/", admin.site.urls),
]
