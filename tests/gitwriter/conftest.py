"""A branch as its writer sees it: a real Valkey, a real bare repository, and the two objects it reads."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from gitwriter.memory import BranchMemory
from gitwriter.runtime import WriterRuntime
from reverser.config import load_config
from reverser.errors import KubeNotFound
from reverser.store import Store
from reverser.store.model import (
    AppendId,
    AppendStatus,
    Author,
    BranchKey,
    EventEntry,
    Fence,
    Gate,
    LeaseKind,
    Limits,
    ObjectRef,
    Operation,
    Presence,
    Scope,
    StagedObject,
    SweepEntry,
    TargetRef,
    TypeRef,
)
from reverser.supervision.gitview import GitView

PREFIX = "/apis/configbutler.ai/v1alpha3/namespaces/shop"
CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
LIMITS_BYTES = 1 << 30


class Cluster:
    """Answers GETs by path from a dictionary; the writer's only view of the cluster."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def get(self, path: str, *, timeout: float = 30) -> dict[str, Any]:
        """One object."""
        del timeout
        if path not in self.objects:
            raise KubeNotFound(f"{path} not found")
        return self.objects[path]


@dataclass
class World:
    """One branch with one target, driven by hand."""

    store: Store
    cluster: Cluster
    runtime: WriterRuntime
    git: GitView
    repository: Path
    branch: BranchKey
    target: TargetRef
    fence: Fence
    epoch: str
    redis: redis.Redis
    new_runtime: Callable[[], WriterRuntime]
    sequence: int = 0
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    last: AppendId | None = None

    @property
    def memory(self) -> BranchMemory:
        """What this process remembers of the branch, for tests of pauses and of what is kept in memory."""
        return self.runtime._memories[self.branch.id]

    def scope(self) -> Scope:
        return Scope(self.target.uid, CONFIGMAPS.group_resource, "shop")

    def succeed(self, uid: str) -> None:
        """Another target takes the name of this one; what is appended from now on is its."""
        ref = TargetRef(uid, "shop", "gt")
        self.cluster.objects[f"{PREFIX}/gittargets/gt"]["metadata"]["uid"] = ref.uid
        fence = self.store.acquire_lease(LeaseKind.TARGET, ref.uid, "token", 600_000, "test")
        assert fence is not None
        self.store.write_gate(ref.uid, Gate(open=True, generation=1, branch=self.branch, path="live"))
        self.target, self.fence, self.last, self.sequence = ref, fence, None, 0

    def event(
        self, name: str, value: str | None, *, author: str = "", operation: Operation | None = None
    ) -> None:
        """Append one event of a ConfigMap; ``value`` None deletes it."""
        self.events([self.entry(name, value, author=author, operation=operation)])

    def updates(self, name: str, count: int) -> None:
        """Append ``count`` values of one ConfigMap, from "1" on, at once."""
        self.events([self.entry(name, str(number + 1)) for number in range(count)])

    def entry(
        self, name: str, value: str | None, *, author: str = "", operation: Operation | None = None
    ) -> EventEntry:
        """One change of a ConfigMap, not appended yet."""
        chosen = operation or (Operation.DELETE if value is None else Operation.UPDATE)
        body = b"" if value is None else orjson.dumps(configmap(name, value))
        return EventEntry(
            target=self.target,
            scope=self.scope(),
            object=ObjectRef(CONFIGMAPS, "shop", name),
            operation=chosen,
            object_uid=f"uid-{name}",
            resource_version="7",
            body=body,
            author=Author(author) if author else None,
        )

    def events(self, entries: list[EventEntry]) -> None:
        """Append events."""
        status = self.store.append_events(
            self.branch,
            self.scope(),
            self.fence,
            expected=self.last,
            append_id=self._next(),
            epoch=self.epoch,
            fingerprint="f",
            events=entries,
            resource_version="7",
            limits=Limits(LIMITS_BYTES, LIMITS_BYTES),
        )
        assert status is AppendStatus.OK

    def sweep(self, objects: dict[str, str], *, wanted: int = 0) -> None:
        """Append a complete replay of the ConfigMaps of the namespace."""
        staged = [
            StagedObject("shop", name, Presence.FULL, orjson.dumps(configmap(name, value)))
            for name, value in sorted(objects.items())
        ]
        self.replay(CONFIGMAPS, self.scope(), staged, expected=self.last, wanted=wanted)

    def replay(
        self,
        kind: TypeRef,
        scope: Scope,
        staged: list[StagedObject],
        *,
        expected: AppendId | None = None,
        wanted: int = 0,
    ) -> None:
        """Append a complete replay of a scope."""
        replay_id = uuid.uuid4().hex
        self.store.stage(self.branch, replay_id, staged)
        status = self.store.append_sweep(
            self.branch,
            scope,
            self.fence,
            expected=expected,
            append_id=self._next(),
            epoch=self.epoch,
            fingerprint="f",
            sweep=SweepEntry(
                target=self.target,
                scope=scope,
                type=kind,
                resource_version="42",
                replay_id=replay_id,
                count=len(staged),
                wanted=wanted,
                fingerprint="f",
            ),
            limits=Limits(LIMITS_BYTES, LIMITS_BYTES),
        )
        assert status is AppendStatus.OK

    def _next(self) -> AppendId:
        self.sequence += 1
        self.last = AppendId(self.session, self.sequence)
        return self.last

    def write(self) -> None:
        """One run of the writer."""
        self.runtime.write(self.branch)

    def pending(self) -> int:
        """Entries that are not settled."""
        return self.store.read_branch(self.branch).entries

    def set_window(self, text: str) -> None:
        """Change the provider's commit window."""
        self.provider["spec"]["push"] = {"commitWindow": text}

    def subjects(self) -> list[str]:
        """Commit subjects, newest first."""
        return [commit.subject for commit in self.git.log()]

    def expire_lease(self) -> None:
        """The lease of a writer that died is over."""
        for key in self.redis.scan_iter("*lease*branch*"):
            self.redis.delete(key)

    def second_target(self, name: str, *, path: str = "") -> World:
        """Another target of the branch, at a folder of its own name unless told otherwise."""
        path = path or name
        ref = TargetRef(f"uid-{name}", "shop", name)
        self.cluster.objects[f"{PREFIX}/gittargets/{name}"] = {
            "metadata": {"name": name, "namespace": "shop", "uid": ref.uid, "generation": 1},
            "spec": {"providerRef": {"name": "gp"}, "branch": "main", "path": path},
        }
        fence = self.store.acquire_lease(LeaseKind.TARGET, ref.uid, "token", 600_000, "test")
        assert fence is not None
        self.store.write_gate(ref.uid, Gate(open=True, generation=1, branch=self.branch, path=path))
        return replace(self, target=ref, fence=fence, sequence=0, session=uuid.uuid4().hex, last=None)

    def on_branch(self, name: str) -> World:
        """A target ``gb`` on another branch of the same provider."""
        branch = BranchKey("shop", "gp", name)
        self.provider["spec"]["allowedBranches"] = [name]
        other = self.second_target("gb", path="live")
        self.cluster.objects[f"{PREFIX}/gittargets/gb"]["spec"]["branch"] = name
        gate = Gate(open=True, generation=1, branch=branch, path="live")
        self.store.write_gate(other.target.uid, gate)
        epoch = self.store.open_journal(branch)
        return replace(other, branch=branch, git=GitView(self.repository, name), epoch=epoch)

    @property
    def provider(self) -> dict[str, Any]:
        return self.cluster.objects[f"{PREFIX}/gitproviders/gp"]


def configmap(name: str, value: str) -> dict[str, Any]:
    """A sanitized ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop"},
        "data": {"v": value},
    }


@pytest.fixture
def world(store: Store, redis_url: str, tmp_path: Path) -> World:
    """A branch ``main`` of an empty repository, target path ``live``, commit window 0."""
    return make_world(store, redis_url, tmp_path)


def make_world(store: Store, redis_url: str, tmp_path: Path) -> World:
    """What the fixture gives, for those that are no tests."""
    repository = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
    cluster = Cluster()
    cluster.objects[f"{PREFIX}/gitproviders/gp"] = {
        "metadata": {"name": "gp", "namespace": "shop", "uid": "p1", "generation": 1},
        "spec": {
            "url": f"file://{repository}",
            "allowedBranches": ["main"],
            "push": {"commitWindow": "0s"},
        },
    }
    cluster.objects[f"{PREFIX}/gittargets/gt"] = {
        "metadata": {"name": "gt", "namespace": "shop", "uid": "t1", "generation": 1},
        "spec": {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"},
    }
    branch = BranchKey("shop", "gp", "main")
    target = TargetRef("t1", "shop", "gt")
    epoch = store.open_journal(branch)
    fence = store.acquire_lease(LeaseKind.TARGET, target.uid, "token", 600_000, "test")
    assert fence is not None
    store.write_gate(target.uid, Gate(open=True, generation=1, branch=branch, path="live"))
    config = load_config({"REVERSER_STATE_DIR": str(tmp_path / "state")})

    def new_runtime() -> WriterRuntime:
        return WriterRuntime(store=store, kube=cluster, config=config)  # type: ignore[arg-type]

    return World(
        store=store,
        cluster=cluster,
        runtime=new_runtime(),
        new_runtime=new_runtime,
        redis=redis.Redis.from_url(redis_url),
        git=GitView(repository, "main"),
        repository=repository,
        branch=branch,
        target=target,
        fence=fence,
        epoch=epoch,
    )
