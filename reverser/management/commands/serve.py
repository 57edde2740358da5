"""``manage.py serve``: the web process."""

from __future__ import annotations

import warnings
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags


class Command(BaseCommand):
    """Serve the admin, REST, health and metrics, and the audit and admission listeners."""

    help = (
        "Serve the admin, REST, health and metrics on REVERSER_HTTP_ADDR, and, where configured, the "
        "audit and admission listeners on their own ports with their own TLS."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Settings are flags too."""
        add_setting_flags(parser)

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Serve until SIGTERM or Ctrl-C."""
        from reverser.webprocess import run

        # Static files are found in the packages; a collected folder is optional.
        warnings.filterwarnings("ignore", message="No directory at", category=UserWarning)
        run()
