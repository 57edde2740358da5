"""``manage.py analyze DIR``: what a mirror would make of a folder, before anything is set up."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gitwriter.git.ignored import ignored_paths
from gitwriter.manifests.analyzer import analyze, plan_mirror
from gitwriter.manifests.changes import Change, Policy, Sweep, Upsert
from gitwriter.manifests.emitter import render_document
from gitwriter.manifests.identity import join_api_version
from gitwriter.manifests.inventory import Inventory
from gitwriter.manifests.report import as_text, as_values
from gitwriter.manifests.tree import DirectoryTree
from reverser.errors import ReverserError
from reverser.kinds.sensitive import is_sensitive
from reverser.kube.aio import AsyncKube
from reverser.kube.paths import resource_path
from reverser.wiring import config
from watchers.defaults import builtin_table, optional_pointers
from watchers.discovery import scan
from watchers.policy import is_denied, noise
from watchers.registry import Registry, TypeRecord, judge
from watchers.sanitize import sanitize

_ONLY_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_REFUSED, _FAILED = 1, 2


class Command(BaseCommand):
    """Read a folder of manifests and say what would be managed, what refuses, and how to fix it."""

    help = (
        "Read a folder of manifests and say what would be managed, what refuses it and how to fix that, and "
        "which folders below could be targets. With --kubeconfig or --context also what a mirror of that "
        "cluster would create, change and delete. Writes nothing; needs neither Redis nor a database. Exit "
        "status: 0, 1 when the folder is refused and --policy refuse is given, 2 when it cannot be read "
        "(with --policy refuse also when a part of it cannot)."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The folder, the form of the report, and the cluster to compare with."""
        parser.add_argument(
            "directory", metavar="DIR", type=Path, help="the folder that a GitTarget would name"
        )
        parser.add_argument(
            "--format", choices=("text", "json", "yaml"), default="text", help="form of the report"
        )
        parser.add_argument(
            "--policy",
            choices=("report", "refuse"),
            default="report",
            help="refuse: end with status 1 when the folder is refused (for use in a pipeline)",
        )
        parser.add_argument("--kubeconfig", help="compare with the cluster of this file")
        parser.add_argument(
            "--context",
            help="compare with the cluster of this context (of --kubeconfig, KUBECONFIG or ~/.kube/config)",
        )
        parser.add_argument(
            "--namespace",
            action="append",
            default=[],
            help="compare objects of this namespace only; may be repeated",
        )
        parser.add_argument(
            "--type",
            action="append",
            default=[],
            metavar="[GROUP/]RESOURCE",
            help="compare this type only, such as configmaps or apps/deployments; may be repeated",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Analyze and print."""
        folder: Path = options["directory"]
        if not folder.is_dir():
            raise CommandError(f"{folder} is not a folder; name the folder to analyze", returncode=_FAILED)
        repository = _repository_of(folder)
        left_out = ignored_paths(folder) if repository is not None else frozenset()
        tree = DirectoryTree(folder, repository=repository, left_out=left_out)
        mirror = None
        notes: list[str] = []
        sealed = config().additional_sensitive_resources
        policy = Policy(sensitive_types=sealed)
        if options["kubeconfig"] or options["context"]:
            try:
                place = (options["kubeconfig"], options["context"])
                changes, notes = asyncio.run(
                    _read_cluster(place, tree, options["namespace"], options["type"], sealed=sealed)
                )
            except (ReverserError, OSError) as error:
                raise CommandError(f"the cluster cannot be read: {error}", returncode=_FAILED) from error
            mirror = plan_mirror(tree, changes, policy)
        report = analyze(tree, root=str(folder), mirror=mirror, warnings=notes, policy=policy)
        unread = tuple(dict.fromkeys(tree.warnings))
        report = replace(report, warnings=(*unread, *report.warnings), left_out=len(left_out))
        if options["format"] == "json":
            self.stdout.write(json.dumps(as_values(report), indent=2))
        elif options["format"] == "yaml":
            self.stdout.write(yaml.safe_dump(as_values(report), sort_keys=False), ending="")
        else:
            self.stdout.write(as_text(report), ending="")
        if options["policy"] == "refuse" and not report.accepted:
            sys.exit(_REFUSED)
        if options["policy"] == "refuse" and unread:
            sys.exit(_FAILED)


def _repository_of(folder: Path) -> Path | None:
    """The repository that a folder belongs to: the nearest folder above it, or itself, with a `.git`."""
    resolved = folder.resolve()
    return next((place for place in (resolved, *resolved.parents) if (place / ".git").exists()), None)


async def _read_cluster(
    place: tuple[str | None, str | None],
    tree: DirectoryTree,
    namespaces: list[str],
    types: list[str],
    *,
    sealed: frozenset[str],
) -> tuple[list[Change], list[str]]:
    """Every object of the cluster that a mirror would follow, as changes; and what could not be read.

    ``sealed`` are the types beside Secrets whose values are not read.
    """
    inventory = Inventory.scan(tree)
    kube = await AsyncKube.connect(*place)
    changes: list[Change] = []
    notes: list[str] = []
    try:
        registry = judge(Registry(), await scan(kube), 0.0)
        notes.extend(_unserved(registry, inventory))
        followed = _followed(registry, types)
        known = {record.group_resource for record in followed}
        notes.extend(
            f"--type {name}: no type that a mirror of this cluster follows; write [GROUP/]RESOURCES"
            for name in types
            if name not in known
        )
        for record in followed:
            try:
                changes.extend(await _read_type(kube, record, inventory, namespaces, sealed=sealed))
            except ReverserError as error:
                notes.append(f"{record.group_resource} was left out: {error}")
    finally:
        await kube.close()
    return changes, notes


def _unserved(registry: Registry, inventory: Inventory) -> list[str]:
    """Kinds that the folder holds and the cluster does not serve; their documents are never touched."""
    served = {(record.resource.group, record.resource.kind) for record in registry.live}
    found: dict[tuple[str, str], str] = {}
    for ref in inventory.documents():
        kind = (ref.fact.group, ref.fact.kind)
        if kind not in served:
            found.setdefault(kind, ref.path)
    return [
        f"{path}: {group or 'core'}/{kind} is not served by this cluster, so its documents stay as they are"
        for (group, kind), path in sorted(found.items())
    ]


def _followed(registry: Registry, types: list[str]) -> list[TypeRecord]:
    """One record per group and resource, at its preferred version."""
    found: dict[str, TypeRecord] = {}
    for record in registry.live:
        name = record.group_resource
        if is_denied(record.resource.group, record.resource.resource) or (types and name not in types):
            continue
        if name not in found or record.resource.preferred:
            found[name] = record
    return [found[name] for name in sorted(found)]


async def _read_type(
    kube: AsyncKube,
    record: TypeRecord,
    inventory: Inventory,
    namespaces: list[str],
    *,
    sealed: frozenset[str],
) -> list[Change]:
    resource = record.resource
    namespaced = bool(resource.namespaced)
    if namespaces and not namespaced:
        return []
    changes: list[Change] = []
    sensitive = is_sensitive(resource.group, resource.names, sealed)
    for namespace in namespaces or [""]:
        path = resource_path(resource.group, resource.version, resource.resource, namespace=namespace)
        if sensitive:
            answer = await kube.raw("GET", path, headers={"Accept": _ONLY_METADATA})
            items = json.loads(answer).get("items") or []
        else:
            items = (await kube.list(path)).items
        present: set[tuple[str, str]] = set()
        for item in items:
            place = item["metadata"].get("namespace", "") if namespaced else ""
            present.add((place, item["metadata"]["name"]))
            if noise(resource.group, resource.kind, item) is None:
                changes.append(_upsert(record, item, inventory, sensitive=sensitive))
        changes.append(
            Sweep(
                resource.group,
                resource.resource,
                resource.kind,
                namespaced,
                namespace or None,
                frozenset(present),
            )
        )
    return changes


def _upsert(record: TypeRecord, item: dict[str, Any], inventory: Inventory, *, sensitive: bool) -> Upsert:
    """One object. Of a sensitive one only the name is known here; a sealed document in Git counts as up
    to date.
    """
    resource = record.resource
    api_version = join_api_version(resource.group, resource.version)
    body = sanitize({**item, "apiVersion": api_version, "kind": resource.kind})
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
    base = Upsert(
        resource.group,
        resource.version,
        resource.resource,
        resource.kind,
        bool(resource.namespaced),
        namespace,
        name,
        sensitive=sensitive,
    )
    if not sensitive:
        table = builtin_table(resource.group, resource.kind)
        return replace(base, body=body, optional=optional_pointers(body, table))
    sealed_blob = next(
        (
            inventory.files[ref.path].entry.blob
            for ref in inventory.lookup(resource.group, resource.kind, name)
            if ref.fact.has_sops and inventory.effective_namespace(ref) == namespace
        ),
        None,
    )
    if sealed_blob is not None:
        return replace(base, unchanged_blob=sealed_blob)
    metadata = {"name": name, "namespace": namespace}
    stand_in = {
        "apiVersion": api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "sops": {"mac": "unknown"},
    }
    return replace(base, sealed=render_document(stand_in))
