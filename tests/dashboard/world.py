"""A cluster with two namespaces, an empty store, history rows, and people of every kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.contrib.auth.hashers import get_hashers
from django.contrib.auth.models import Group, User

from reverser import wiring
from reverser.dashboard.readings import READING
from reverser.errors import KubeConflict
from reverser.history import search
from reverser.history.models import Commit, CommitObject, Incident, SaveRequest, TargetState
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.sync import Kube
from reverser.rest import access, peopleroles
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from reverser.store.model import (
    AppendId,
    AppendStatus,
    BranchKey,
    EventEntry,
    Gate,
    LeaseKind,
    Limits,
    ObjectRef,
    Operation,
    Scope,
    StreamRecord,
    StreamState,
    TargetRef,
    TypeRef,
)

CRD_DIR = Path(__file__).resolve().parents[2] / "deploy" / "crds"
API = "configbutler.ai/v1alpha3"
RBAC = "rbac.authorization.k8s.io"
NOW = datetime.now(tz=UTC).replace(microsecond=0)
KEPT = {"mode": "OnEvent", "retainedDocuments": 3, "observedTime": "2031-01-01T00:00:00.000Z"}
CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
READ = ["get", "list"]
KINDS = ["gittargets", "gitproviders", "watchrules", "clusterwatchrules", "commitrequests"]


def install(kube: Kube) -> None:
    """The CRDs, namespaces, objects and roles that all tests of a process share."""
    for file in sorted(CRD_DIR.glob("*.yaml")):
        _create(
            kube,
            resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            yaml.safe_load(file.read_text()),
        )
    for namespace in ("shop", "depot"):
        _create(kube, core_path("namespaces"), {"metadata": {"name": namespace}})
        for kind, plural, name, spec in _objects():
            _create(
                kube,
                own_path(plural, namespace=namespace),
                {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec},
            )
    peopleroles.plant(kube, "gitops-reverser:")
    _grant(kube, "all-readers", "", "reader", [(KINDS, READ)])
    _grant(kube, "shop-readers", "shop", "shopper", [(KINDS, READ), (["commitrequests"], ["create"])])


def _objects() -> list[tuple[str, str, str, dict[str, Any]]]:
    provider = {"url": "https://github.com/acme/shop.git", "allowedBranches": ["main"]}
    target = {"providerRef": {"name": "repo"}, "branch": "main", "path": "live"}
    rule = {"targetRef": {"name": "live"}, "rules": [{"resources": ["configmaps"]}]}
    return [
        ("GitProvider", "gitproviders", "repo", provider),
        ("GitTarget", "gittargets", "live", target),
        ("WatchRule", "watchrules", "config", rule),
    ]


def _grant(
    kube: Kube, name: str, namespace: str, user: str, rules: list[tuple[list[str], list[str]]]
) -> None:
    kind = "Role" if namespace else "ClusterRole"
    made = [{"apiGroups": ["configbutler.ai"], "resources": what, "verbs": verbs} for what, verbs in rules]
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    binding = {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    plural = kind.lower() + "s"
    _create(
        kube, resource_path(RBAC, "v1", plural, namespace=namespace), {**head, "kind": kind, "rules": made}
    )
    _create(
        kube,
        resource_path(RBAC, "v1", f"{kind.lower()}bindings", namespace=namespace),
        {**head, "kind": f"{kind}Binding", **binding},
    )


def _create(kube: Kube, path: str, manifest: dict[str, Any]) -> None:
    try:
        kube.create(path, manifest)
    except KubeConflict as error:
        if not error.exists:
            raise


TOKENS = {"reader-token": "reader", "shopper-token": "shopper", "nobody-token": "nobody"}


def add_tokens(sandbox: SandboxServer) -> None:
    """Callers whose names are their rights."""
    for token, name in TOKENS.items():
        sandbox.add_user(token, name)


@contextmanager
def wired(kubeconfig: Path, redis_url: str, state_dir: Path, monkeypatch: Any, **more: Any) -> Iterator[None]:
    """The process's own edges lead to the test's cluster and store."""
    config = dataclasses.replace(settings.CONFIG, redis_url=redis_url, state_dir=state_dir, **more)
    monkeypatch.setattr(settings, "CONFIG", config)
    monkeypatch.setattr(settings, "PASSWORD_HASHERS", ["django.contrib.auth.hashers.MD5PasswordHasher"])
    get_hashers.cache_clear()
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    _forget()
    yield
    _forget()
    get_hashers.cache_clear()


def _forget() -> None:
    for edge in (wiring.store, wiring.kube):
        if edge.cache_info().currsize:
            edge().close()
        edge.cache_clear()
    READING.clear()
    access.TOKENS.clear()
    access.ACCESS.clear()


def person(name: str, *groups: str, superuser: bool = False) -> User:
    """A local account of staff."""
    made = User.objects.create(username=name, is_staff=True, is_superuser=superuser)
    made.groups.set(Group.objects.filter(name__in=groups))
    return made


def conditions(ready: str = "True", **more: str) -> list[dict[str, str]]:
    """Conditions as a controller writes them; names map to statuses."""
    return [
        {
            "type": name,
            "status": status,
            "reason": "OK",
            "message": f"{name} is {status}",
            "lastTransitionTime": (NOW - timedelta(hours=1)).isoformat().replace("+00:00", "Z"),
        }
        for name, status in {"Ready": ready, **more}.items()
    ]


def target(name: str = "live", namespace: str = "shop", **more: Any) -> TargetState:
    """A target's row."""
    values: dict[str, Any] = {
        "uid": f"uid-{namespace}-{name}",
        "provider": "repo",
        "url": "https://github.com/acme/shop.git",
        "branch": "main",
        "path": name,
        "ready": "True",
        "reconciling": "False",
        "stalled": "False",
        "reason": "OK",
        "conditions": conditions(),
        "streams_ready": 4,
        "streams_total": 4,
        "last_push_at": NOW,
    }
    return TargetState.objects.create(name=name, namespace=namespace, **{**values, **more})


def commit(number: int, row: TargetState, **more: Any) -> Commit:
    """A commit of a target with one object."""
    values: dict[str, Any] = {
        "sha": f"{number:040x}",
        "author_name": "Alice",
        "author_email": "alice@example.com",
        "username": "alice",
        "message": f"change number {number}\n\nwith a body",
        "changes_total": 1,
        "pushed_at": NOW - timedelta(minutes=number),
    }
    made = Commit.objects.create(
        outcome=f"{row.uid}-outcome-{number}",
        provider_namespace=row.namespace,
        provider_name=row.provider,
        branch=row.branch,
        target_uid=row.uid,
        target_namespace=row.namespace,
        target_name=row.name,
        **{**values, **more},
    )
    changed = CommitObject.objects.create(
        commit=made, operation="UPDATE", resource="configmaps", namespace=row.namespace, name=f"menu-{number}"
    )
    search.index([(made, [changed])])
    return made


def incident(row: TargetState) -> Incident:
    """A refusal."""
    return Incident.objects.create(
        outcome=f"incident-{row.uid}",
        kind="refused",
        provider_namespace=row.namespace,
        provider_name=row.provider,
        branch=row.branch,
        target_uid=row.uid,
        target_namespace=row.namespace,
        target_name=row.name,
        reason="UnsupportedContent",
        happened_at=NOW,
    )


def request(row: TargetState, name: str = "save-1", **more: Any) -> SaveRequest:
    """A finished CommitRequest."""
    values: dict[str, Any] = {
        "outcome": "pushed",
        "requested_at": NOW,
        "finished_at": NOW,
        "submitter": "bob",
    }
    return SaveRequest.objects.create(
        uid=f"uid-{row.namespace}-{name}",
        namespace=row.namespace,
        name=name,
        target_name=row.name,
        target_uid=row.uid,
        **{**values, **more},
    )


def key(row: TargetState) -> BranchKey:
    """The branch of a target."""
    return BranchKey(row.namespace, row.provider, row.branch)


def stream(store: Store, row: TargetState, state: StreamState = StreamState.STREAMING) -> Scope:
    """A shard of the target."""
    scope = Scope(row.uid, "configmaps", row.namespace)
    store.write_stream(StreamRecord(scope, CONFIGMAPS, state, "Streaming", since_ms=store.time_ms()))
    return scope


def pending(store: Store, row: TargetState, body: bytes, name: str = "menu") -> None:
    """One change in the journal of the target's branch."""
    branch, scope = key(row), Scope(row.uid, "configmaps", row.namespace)
    epoch = store.open_journal(branch)
    store.write_gate(row.uid, Gate(True, 1, branch, row.path))
    fence = store.acquire_lease(LeaseKind.TARGET, row.uid, "token", 60_000, "watcher-1")
    assert fence is not None
    entry = EventEntry(
        target=TargetRef(row.uid, row.namespace, row.name),
        scope=scope,
        object=ObjectRef(CONFIGMAPS, row.namespace, name),
        operation=Operation.UPDATE,
        object_uid="object-uid",
        resource_version="7",
        body=body,
    )
    answer = store.append_events(
        branch,
        scope,
        fence,
        expected=None,
        append_id=AppendId("session", 1),
        epoch=epoch,
        fingerprint="print",
        events=[entry],
        resource_version="7",
        limits=Limits(1 << 20, 1 << 20),
    )
    assert answer is AppendStatus.OK
