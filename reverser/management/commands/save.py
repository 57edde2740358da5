"""``manage.py save``: ask for a commit now, from a terminal."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reverser.errors import KubeNotFound, ReverserError, TransientError
from reverser.kube.paths import own_path
from reverser.rest.saves import Wish, create, delay_problem, follow, message_problem, result_of
from reverser.wiring import kube

LONGEST_WAIT = 600
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


class Command(BaseCommand):
    """Create a CommitRequest with the identity of the kubeconfig."""

    help = (
        "Ask a GitTarget to commit what it has seen, now: the same as creating a CommitRequest with kubectl, "
        "under the same identity. Exit code 0 when asked for or, with --wait, saved; 1 when it failed or did "
        "not finish in time; Ctrl-C ends the waiting (130), not the request."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """TARGET and how."""
        parser.add_argument("target", metavar="TARGET", help="GitTarget, as namespace/name or name with -n")
        parser.add_argument("-n", "--namespace", default="", help="namespace of the GitTarget")
        parser.add_argument("-m", "--message", default="", help="the commit message; generated if empty")
        parser.add_argument(
            "--delay", type=int, default=None, metavar="SECONDS", help="how long the window stays open yet"
        )
        parser.add_argument(
            "--wait",
            nargs="?",
            type=_seconds,
            const=120,
            default=0,
            metavar="SECONDS",
            help="wait for the end and tell it (120 seconds unless given)",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Create, follow, tell."""
        namespace, _, name = options["target"].rpartition("/")
        namespace = namespace or options["namespace"]
        if not namespace or not name or (options["namespace"] and options["namespace"] != namespace):
            raise CommandError("name the GitTarget as namespace/name, or as name with -n NAMESPACE")
        wish = Wish(namespace, name, options["message"], options["delay"])
        problem = message_problem(wish.message)
        if problem:
            raise CommandError(f"the message may have {problem}")
        if wish.close_delay_seconds is not None and (problem := delay_problem(wish.close_delay_seconds)):
            raise CommandError(f"--delay takes {problem}")
        try:
            self._save(wish, options["wait"])
        except KubeNotFound as error:
            raise CommandError(
                f"GitTarget {wish.namespace}/{wish.target} is not found; is the name right, and are the "
                "definitions installed (`manage.py doctor`)?"
            ) from error
        except ReverserError as error:
            raise CommandError(str(error)) from error

    def _save(self, wish: Wish, wait: int) -> None:
        client = kube()
        client.get(own_path("gittargets", namespace=wish.namespace, name=wish.target))
        made = create(client, wish, acting_as=None)
        name = str(made["metadata"]["name"])
        self.stdout.write(f"commitrequest {wish.namespace}/{name} created")
        if not wait:
            return
        further = f"it goes on. See: kubectl -n {wish.namespace} get commitrequest {name}"
        try:
            result = result_of(follow(client, wish.namespace, name, seconds=wait))
        except KeyboardInterrupt:
            raise CommandError(f"not waited for any longer; {further}", returncode=INTERRUPTED) from None
        except TransientError as error:
            raise CommandError(f"{error}; the request was made and {further}") from error
        if not result.finished:
            raise CommandError(f"not finished after {wait} s; {further}")
        if not result.succeeded:
            raise CommandError(f"{result.reason}: {result.message}")
        self.stdout.write(f"{result.reason}: {result.message}")


def _seconds(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= LONGEST_WAIT:
        raise argparse.ArgumentTypeError(f"a whole number of seconds from 1 to {LONGEST_WAIT}")
    return int(text)
