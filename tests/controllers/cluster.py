"""A sandbox cluster, a real store and the reconcilers, driven step by step."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from gitwriter.messages import validate_templates
from reverser.controllers.checks import Checks
from reverser.controllers.events import Recorder
from reverser.controllers.projection import Projection
from reverser.controllers.reconcile_provider import ProviderReconciler
from reverser.controllers.reconcile_request import RequestReconciler
from reverser.controllers.reconcile_rule import RuleReconciler
from reverser.controllers.reconcile_target import TargetReconciler
from reverser.controllers.status import StatusWriter
from reverser.controllers.world import (
    CLUSTER_RULES,
    PROVIDERS,
    REQUESTS,
    RESOURCES,
    RULES,
    TARGETS,
    World,
    object_key,
)
from reverser.errors import KubeConflict, KubeNotFound
from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.store import AsyncStore
from reverser.store.model import Scope, StreamRecord, StreamState, TypeRef
from watchers.discovery import scan
from watchers.registry import Registry, judge

CRD_DIR = Path(__file__).resolve().parents[2] / "deploy" / "crds"
CRDS = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
PLURALS = {
    "GitProvider": PROVIDERS,
    "GitTarget": TARGETS,
    "WatchRule": RULES,
    "ClusterWatchRule": CLUSTER_RULES,
    "CommitRequest": REQUESTS,
}
SETTINGS = SimpleNamespace(
    command_namespace="default", default_known_hosts_configmap="", insecure_allow_missing_known_hosts=False
)


class ListedCache:
    """What one list found; nothing changes until the next ``refresh``."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def items(self) -> list[dict[str, Any]]:
        return self.found

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        key = f"{namespace}/{name}" if namespace else name
        return next((obj for obj in self.found if object_key(obj) == key), None)


class Cluster:
    """One controller process without its loops: every pass is called by the test."""

    def __init__(self, kube: AsyncKube, store: AsyncStore) -> None:
        self.kube = kube
        self.store = store
        self.leads = True
        self.clock = 0.0
        self.secret_clock = 0.0
        self.registry = Registry()
        self.caches = {resource: ListedCache() for resource in RESOURCES}
        self.restart()

    def restart(self) -> None:
        """A new process: everything held in memory is gone."""
        self.world = World(self.kube, self.caches)
        self.projection = Projection()
        recorder = Recorder(self.kube, instance="test")
        self.writer = StatusWriter(self.kube, recorder, lambda: self.leads)
        self.checks = Checks(
            self.kube,
            SETTINGS,
            validate_templates=validate_templates,
            clock=lambda: self.secret_clock,
            require_lease=self.writer.require_lease,
        )
        self.providers = ProviderReconciler(
            self.world, self.store, writer=self.writer, recorder=recorder, checks=self.checks
        )
        self.targets = TargetReconciler(
            self.world,
            self.store,
            writer=self.writer,
            recorder=recorder,
            checks=self.checks,
            registry=lambda: self.registry,
            projection=self.projection,
        )
        self.rules = RuleReconciler(
            self.world,
            self.store,
            writer=self.writer,
            registry=lambda: self.registry,
            clock=lambda: self.clock,
        )
        self.requests = RequestReconciler(
            self.world,
            self.store,
            kube=self.kube,
            writer=self.writer,
            projection=self.projection,
            clock=lambda: self.clock,
        )

    async def install(self, *namespaces: str) -> None:
        """CRDs and namespaces, made or emptied, and one look at what is served."""
        if not (await self.kube.list(CRDS)).items:
            for path in sorted(CRD_DIR.glob("*.yaml")):
                await self.kube.create(CRDS, yaml.safe_load(path.read_text()))
            for name in namespaces:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await self.kube.create(core_path("namespaces"), body)
        await self.kube.raw("DELETE", own_path(CLUSTER_RULES))
        for name in namespaces:
            for resource in (PROVIDERS, TARGETS, RULES, REQUESTS):
                await self.kube.raw("DELETE", own_path(resource, namespace=name))
            for resource in ("secrets", "events", "configmaps"):
                await self.kube.raw("DELETE", core_path(resource, namespace=name))
        self.registry = judge(Registry(), await scan(self.kube), 0.0)

    async def apply(self, kind: str, name: str, spec: Mapping[str, Any], *, namespace: str = "shop") -> Any:
        """Create, or replace the spec."""
        scope = "" if kind == "ClusterWatchRule" else namespace
        metadata = {"name": name, **({"namespace": scope} if scope else {})}
        body = {"apiVersion": "configbutler.ai/v1alpha3", "kind": kind, "metadata": metadata, "spec": spec}
        try:
            return await self.kube.create(own_path(PLURALS[kind], namespace=scope), body)
        except KubeConflict:
            return await self.kube.patch(
                own_path(PLURALS[kind], namespace=scope, name=name), {"spec": dict(spec)}
            )

    async def delete(self, kind: str, name: str, namespace: str = "shop") -> None:
        await self.kube.delete(own_path(PLURALS[kind], namespace=namespace, name=name))

    async def get(self, kind: str, name: str, namespace: str = "shop") -> dict[str, Any]:
        scope = "" if kind == "ClusterWatchRule" else namespace
        return await self.kube.get(own_path(PLURALS[kind], namespace=scope, name=name))

    async def uid(self, kind: str, name: str, namespace: str = "shop") -> str:
        return str((await self.get(kind, name, namespace))["metadata"]["uid"])

    async def refresh(self) -> None:
        """Let the caches see the present."""
        for resource, cache in self.caches.items():
            cache.found = (await self.kube.list(own_path(resource))).items

    async def settle(self, rounds: int = 2) -> None:
        """Look at everything, twice, as informers and wake-ups would, Secrets included."""
        self.secret_clock += 31.0
        for _ in range(rounds):
            await self.refresh()
            await self.targets.retire_missing()
            for resource in RESOURCES:
                for key in self.world.keys(resource):
                    await self.look(resource, key)
        await self.refresh()

    async def look(self, resource: str, key: str) -> float | None:
        """One pass over one object."""
        if resource == PROVIDERS:
            return await self.providers.reconcile(key)
        if resource == TARGETS:
            return await self.targets.reconcile(key)
        if resource == REQUESTS:
            return await self.requests.reconcile(key)
        return await self.rules.reconcile(resource, key)

    async def conditions(self, kind: str, name: str, namespace: str = "shop") -> dict[str, str]:
        """``status/reason`` by condition type."""
        status = (await self.get(kind, name, namespace)).get("status") or {}
        return {c["type"]: f"{c['status']}/{c['reason']}" for c in status.get("conditions", [])}

    async def message(self, kind: str, name: str, condition: str, namespace: str = "shop") -> str:
        status = (await self.get(kind, name, namespace)).get("status") or {}
        return next(str(c["message"]) for c in status["conditions"] if c["type"] == condition)

    async def stream(self, target: str, resource: str, state: StreamState, namespace: str = "shop") -> None:
        """Say, as a watcher would, how a shard of a target does."""
        uid = await self.uid("GitTarget", target, namespace)
        type_ref = TypeRef("", "v1", resource, resource, True)
        await self.store.write_stream(StreamRecord(Scope(uid, resource, namespace), type_ref, state, "x"))

    async def secret(self, name: str, namespace: str = "shop") -> dict[str, Any] | None:
        try:
            return await self.kube.get(core_path("secrets", namespace=namespace, name=name))
        except KubeNotFound:
            return None

    async def put_secret(self, name: str, data: Mapping[str, str], namespace: str = "shop") -> Any:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "stringData": dict(data),
        }
        return await self.kube.create(core_path("secrets", namespace=namespace), body)

    async def events(self, name: str, namespace: str = "shop") -> list[tuple[str, str]]:
        """(type, reason) of the Events about an object."""
        listed = await self.kube.list(core_path("events", namespace=namespace))
        return [(e["type"], e["reason"]) for e in listed.items if e["involvedObject"]["name"] == name]


def bare_repository(path: Path) -> str:
    """An empty bare repository; answers its URL."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    return f"file://{path}"
