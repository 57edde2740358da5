"""``manage.py demo``: see the real pipeline work without a cluster."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags
from reverser.sandbox import seeds
from reverser.supervision.demo import farewell, prepare_demo
from reverser.supervision.preflight import owned_state_dir
from reverser.supervision.story import tell
from reverser.supervision.up import Up


class Command(BaseCommand):
    """Run the product on a cluster of its own."""

    help = (
        "Run the whole product on a small Kubernetes API server of its own (or on the etcd and "
        "kube-apiserver in KUBEBUILDER_ASSETS) and a bare Git repository, both kept in the state directory. "
        "With --once a scripted story is run, each step checked in Git, and the command ends with 0 or 1."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The story switch, and settings as flags."""
        parser.add_argument("--once", action="store_true", help="run the scripted story, check it, and end")
        add_setting_flags(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until the story ends, SIGTERM or Ctrl-C."""

        def say(line: str) -> None:
            self.stdout.write(line)
            self.stdout.flush()

        config = settings.CONFIG
        with owned_state_dir(config.state_dir):
            demo = prepare_demo(config)
        seeds.create_repository(demo.repository)

        def on_ready(run: Up) -> int | None:
            if options["once"]:
                return tell(run, demo, say)
            for line in farewell(run, demo, _kubectl()):
                say(line)
            return None

        run = Up(
            config,
            install=True,
            say=say,
            extra=demo.programs,
            before_ready=lambda kube: seeds.plant(kube, demo.repository),
            on_ready=on_ready,
        )
        code = run.run()
        if code:
            raise SystemExit(code)


def _kubectl() -> str:
    """The kubectl to recommend: the one on PATH, else the one beside this interpreter."""
    if shutil.which("kubectl"):
        return "kubectl"
    beside = Path(sys.executable).parent / "kubectl"
    return str(beside) if beside.exists() else "kubectl"
