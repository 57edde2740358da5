"""``manage.py watch``: the watcher process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags


class Command(BaseCommand):
    """Watch the cluster and keep the custom resources' status."""

    help = (
        "Watch the cluster for the GitTargets leased to this replica and append what changes to the journal; "
        "one replica, elected by a Lease, also runs the controllers. Any number may run."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Settings are flags too."""
        add_setting_flags(parser)

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Watch until SIGTERM or Ctrl-C."""
        from reverser.watchprocess import run

        run()
