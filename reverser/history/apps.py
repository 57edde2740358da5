"""The history app: what the admin and REST read."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HistoryConfig(AppConfig):
    """Rows projected from the journal's outcomes; never a source of decisions."""

    name = "reverser.history"
    label = "history"
    verbose_name = "GitOps Reverser"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Groups follow the permissions, which Django makes after a migration too, but earlier."""
        from reverser.history.groups import ensure_groups

        post_migrate.connect(ensure_groups, sender=self, dispatch_uid="reverser.history.groups")
