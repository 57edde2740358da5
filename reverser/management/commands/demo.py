"""``manage.py demo``: see the real pipeline work without a cluster."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from reverser.flags import add_setting_flags
from reverser.kube.sync import Kube
from reverser.rest import peopleroles
from reverser.sandbox import seeds
from reverser.supervision.demo import Demo, farewell, plan_demo, prepare_demo
from reverser.supervision.processes import LogFile
from reverser.supervision.story import tell, wait_in_step
from reverser.supervision.up import Up

FIRST_COMMIT_SECONDS = 30.0
INTERRUPTED = 130


class Command(BaseCommand):
    """Run the product on a cluster of its own."""

    help = (
        "Run the whole product on a small Kubernetes API server of its own (or on the etcd and "
        "kube-apiserver in KUBEBUILDER_ASSETS) and a bare Git repository, both kept in the state directory. "
        "With --once a scripted story is run, each step checked in Git, and the command ends with 0 or 1; "
        "what the processes print then goes to demo/story.log in the state directory."
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
        demo = plan_demo(config)

        def on_ready(run: Up) -> int | None:
            if options["once"]:
                return tell(run, demo, say)
            in_step = wait_in_step(run, str(demo.kubeconfig), FIRST_COMMIT_SECONDS)
            for line in farewell(run, demo, _kubectl(), in_step=in_step):
                say(line)
            return None

        log = LogFile(demo.folder / "story.log") if options["once"] else None
        run = Up(
            config,
            install=True,
            say=say,
            extra=lambda: prepare_demo(demo),
            before_ready=lambda kube: _plant(kube, demo, config.session_user_prefix),
            on_ready=on_ready,
            output=log,
        )
        code = run.run()
        if log is not None and run.stopping:
            say("The story was interrupted.")
            raise SystemExit(INTERRUPTED)
        if code:
            if log is not None:
                say(f"What the processes said: {log.path}")
            raise SystemExit(code)


def _plant(kube: Kube, demo: Demo, prefix: str) -> None:
    seeds.plant(kube, demo.repository)
    peopleroles.plant(kube, prefix)


def _kubectl() -> str:
    """The kubectl to recommend: the one on PATH, else the one beside this interpreter."""
    if shutil.which("kubectl"):
        return "kubectl"
    beside = Path(sys.executable).parent / "kubectl"
    return str(beside) if beside.exists() else "kubectl"
