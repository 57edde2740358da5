"""``manage.py rbac``: print the roles that the installation needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reverser.config import Config
from reverser.errors import ReverserError
from reverser.management import roles


class Command(BaseCommand):
    """Print RBAC manifests, generated or as shipped."""

    help = (
        "Print the RBAC manifests of the installation, for kubectl apply. Without --for-rules: the shipped "
        "roles, of which gitops-reverser-watch-any lets any rule name any type. With --for-rules: roles for "
        "exactly what the GitProviders, GitTargets and rules of the cluster (KUBECONFIG) need now, Secrets "
        "by name. Changes nothing. Print again after a rule changed."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """What to print, and for whom."""
        parser.add_argument(
            "--for-rules", action="store_true", help="generate for the configuration in the cluster"
        )
        parser.add_argument(
            "--impersonate",
            action="store_true",
            help="print the role that lets save in the admin and in REST act in a caller's name, too; it is "
            "strong: think about it",
        )
        parser.add_argument(
            "--people",
            action="store_true",
            help="print only the roles of people who log in to the admin: its groups viewer and operator",
        )
        parser.add_argument(
            "--service-account",
            default=roles.NAME,
            metavar="NAME",
            help=f"the ServiceAccount, in the command namespace (default {roles.NAME})",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print, exit. Raises CommandError where the cluster cannot be read."""
        from reverser.rest.peopleroles import people_roles
        from reverser.wiring import config

        settings = config()
        subject = roles.Subject(settings.command_namespace, options["service_account"])
        if options["people"]:
            self._print(people_roles(settings.session_user_prefix))
            return
        try:
            found = _generated(settings, subject) if options["for_rules"] else roles.standard_roles(subject)
        except ReverserError as error:
            raise CommandError(f"the cluster cannot be read: {error}") from error
        if options["impersonate"]:
            found = [*found, *roles.impersonation_roles(subject)]
        self._print(found)

    def _print(self, manifests: Sequence[roles.Manifest]) -> None:
        from gitwriter.manifests.emitter import render_document

        documents = (render_document(manifest).decode() for manifest in manifests)
        self.stdout.write("---\n".join(documents), ending="")


def _generated(settings: Config, subject: roles.Subject) -> list[roles.Manifest]:
    from reverser.controllers.world import CLUSTER_RULES, PROVIDERS, RULES, TARGETS
    from reverser.kinds.parse import parse_git_provider, parse_git_target, parse_watch_rule
    from reverser.kube.aio import AsyncKube
    from reverser.kube.paths import own_path
    from reverser.wiring import kube
    from watchers.discovery import scan
    from watchers.registry import Registry, judge

    async def registry() -> Registry:
        opened = await AsyncKube.connect(os.environ.get("KUBECONFIG") or None)
        try:
            return judge(Registry(), await scan(opened), 0.0)
        finally:
            await opened.close()

    client = kube()
    rules = [
        parse_watch_rule({"kind": kind, **obj})
        for resource, kind in ((RULES, "WatchRule"), (CLUSTER_RULES, "ClusterWatchRule"))
        for obj in client.list(own_path(resource)).items
    ]
    named = roles.named_grants(
        [parse_git_provider(obj) for obj in client.list(own_path(PROVIDERS)).items],
        [parse_git_target(obj) for obj in client.list(own_path(TARGETS)).items],
        command_namespace=settings.command_namespace,
        default_known_hosts=settings.default_known_hosts_configmap,
    )
    return roles.exact_roles(named | roles.rule_grants(rules, asyncio.run(registry())), subject)
