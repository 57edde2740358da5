"""Django's admin with the product's own site."""

from __future__ import annotations

from django.contrib.admin import apps


class AdminConfig(apps.AdminConfig):
    """The admin app; every ``admin.site`` is the product's."""

    default = False
    default_site = "reverser.dashboard.site.Site"
