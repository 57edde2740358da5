"""The history app: what the admin and REST read."""

from __future__ import annotations

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    """Rows projected from the journal's outcomes; never a source of decisions."""

    name = "reverser.history"
    label = "history"
    verbose_name = "GitOps Reverser"
    default_auto_field = "django.db.models.BigAutoField"
