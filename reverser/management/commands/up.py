"""``manage.py up``: run the whole product on this machine."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags
from reverser.supervision.product import describe_login
from reverser.supervision.up import Up


class Command(BaseCommand):
    """Run web, watcher, worker and beat under one supervisor."""

    help = (
        "Run the whole product on this machine against the cluster named by KUBECONFIG: web, watcher, worker "
        "and beat under one supervisor, with an embedded Valkey and SQLite unless REVERSER_REDIS_URL and "
        "REVERSER_DATABASE_URL say otherwise. Prints 'ready' when every process is. SIGTERM closes open "
        "windows and pushes once more; Ctrl-C does the same in less time."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Settings are flags too."""
        parser.add_argument(
            "--install-crds",
            action="store_true",
            help="apply deploy/crds and create the command namespace first",
        )
        add_setting_flags(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until SIGTERM or Ctrl-C."""

        def say(line: str) -> None:
            self.stdout.write(line)
            self.stdout.flush()

        def greet(run: Up) -> None:
            say(f"admin: http://{run.web_address}/admin/ ({describe_login(run.login)})")

        run = Up(settings.CONFIG, install=options["install_crds"], say=say, on_ready=greet)
        code = run.run()
        if code:
            raise SystemExit(code)
