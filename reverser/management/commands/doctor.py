"""``manage.py doctor``: one screen about this installation."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags


class Command(BaseCommand):
    """Examine cluster, Redis, database, remotes, targets and rules."""

    help = (
        "Check cluster access and permissions, custom resource definitions, Redis, the database, every "
        "GitProvider (reach, credentials, permission to write) and GitTarget, the rules, and the lag of the "
        "audit stream; say what to do about each finding. Changes nothing. Exit code 1 if there is a problem."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """A namespace, and every setting."""
        parser.add_argument("--namespace", default="", help="look only at what is in this namespace")
        add_setting_flags(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Examine, print, exit."""
        from reverser.controllers.doctor.examine import examine
        from reverser.controllers.doctor.findings import exit_code, render
        from reverser.errors import ReverserError
        from reverser.kube.sync import Kube
        from reverser.store import Store
        from reverser.wiring import config, kube

        settings = config()
        client: Kube | ReverserError
        try:
            client = kube()
        except ReverserError as error:
            client = error
        socket = settings.state_dir / "valkey" / "valkey.sock"
        url = settings.redis_url or (f"unix://{socket}" if socket.exists() else "")
        findings = list(
            examine(
                settings,
                kube=client,
                store=Store.connect(url) if url else None,
                kubeconfig=os.environ.get("KUBECONFIG") or None,
                namespace=options["namespace"],
            )
        )
        self.stdout.write(render(findings))
        if code := exit_code(findings):
            raise SystemExit(code)
