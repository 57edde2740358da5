"""One scenario's own corner: a fresh namespace, a fresh repository, and shorthand for what scenarios do."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reverser.errors import KubeNotFound, KubeThrottled
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.sync import Kube
from reverser.supervision.gitview import GitView

API = "configbutler.ai/v1alpha3"
LIVE_SECONDS = 90.0
QUIET_SECONDS = 6.0
CONFIGMAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def until(check: Callable[[], Any], what: str, seconds: float = LIVE_SECONDS) -> Any:
    """Wait until ``check`` is true and return its value. Raises AssertionError after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still not so: {what}")
        time.sleep(0.1)


class Workspace:
    """A namespace with a GitProvider ``gp`` for a bare repository of its own."""

    def __init__(self, kube: Kube, namespace: str, folder: Path) -> None:
        self.kube = kube
        self.namespace = namespace
        self.repository = folder / "repo.git"
        self.folder = folder
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.repository)], check=True)
        self.git = GitView(self.repository, "main")
        self.extra: list[str] = []
        """API paths of cluster-scoped objects that go with the namespace."""
        kube.create(
            core_path("namespaces"),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )

    def remove(self) -> None:
        """Delete what was made in the cluster; what is gone already is fine."""
        paths = list(reversed(self.extra))
        for plural in ("commitrequests", "watchrules", "gittargets", "gitproviders"):
            path = own_path(plural, namespace=self.namespace)
            paths += [f"{path}/{found['metadata']['name']}" for found in self.kube.list(path).items]
        for path in (*paths, core_path("namespaces", name=self.namespace)):
            with contextlib.suppress(KubeNotFound):
                self.kube.delete(path)

    # -- the custom resources

    def base(
        self, *, window: str = "1s", rules: Sequence[dict[str, Any]] = (CONFIGMAPS,), **target: Any
    ) -> None:
        """Provider, target ``gt`` at ``live`` and rule ``wr``; waits until the streams run."""
        self.provider(window=window)
        self.target(**target)
        self.rule(rules)
        self.wait_streams()

    def provider(self, name: str = "gp", *, window: str = "1s", **spec: Any) -> None:
        """A GitProvider for the repository."""
        self.apply(
            "gitproviders",
            "GitProvider",
            name,
            {
                "url": f"file://{self.repository}",
                "allowedBranches": ["main", "env/*"],
                "push": {"commitWindow": window},
                **spec,
            },
        )

    def target(self, name: str = "gt", *, path: str = "live", branch: str = "main", **spec: Any) -> None:
        """A GitTarget."""
        self.apply(
            "gittargets",
            "GitTarget",
            name,
            {"providerRef": {"name": "gp"}, "branch": branch, "path": path, **spec},
        )

    def rule(
        self, rules: Sequence[dict[str, Any]] = (CONFIGMAPS,), name: str = "wr", target: str = "gt"
    ) -> None:
        """A WatchRule."""
        self.apply("watchrules", "WatchRule", name, {"targetRef": {"name": target}, "rules": list(rules)})

    def cluster_rule(self, rules: Sequence[dict[str, Any]], name: str = "cwr", target: str = "gt") -> str:
        """A ClusterWatchRule; returns its name, which no other test uses. Removed with the namespace."""
        full = f"{name}-{self.namespace}"
        body = {
            "apiVersion": API,
            "kind": "ClusterWatchRule",
            "metadata": {"name": full},
            "spec": {
                "targetRef": {"name": target, "namespace": self.namespace},
                "rules": list(rules),
            },
        }
        self.extra.append(own_path("clusterwatchrules", name=full))
        self.kube.create(own_path("clusterwatchrules"), body)
        return full

    def broken_api_service(self, group: str) -> bool:
        """An APIService for ``group`` that nobody stands behind; False where the API server is no aggregator.
        Removed with the namespace.
        """
        path = resource_path("apiregistration.k8s.io", "v1", "apiservices")
        body = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1alpha1.{group}"},
            "spec": {
                "group": group,
                "version": "v1alpha1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": "nobody", "namespace": self.namespace},
            },
        }
        self.extra.append(f"{path}/v1alpha1.{group}")
        try:
            self.kube.create(path, body)
        except KubeNotFound:
            return False
        return True

    def definition(
        self,
        group: str,
        plural: str = "gizmos",
        versions: Sequence[str] = ("v1",),
        storage: str = "",
        **version: Any,
    ) -> str:
        """A CRD of a namespaced kind with a free schema; returns its path. Removed with the namespace."""
        kind = plural.capitalize().removesuffix("s")
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == (storage or versions[0]),
                    "schema": schema,
                    **version,
                }
                for name in versions
            ],
        }
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": spec,
        }
        path = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        self.kube.create(path, body)
        named = f"{path}/{plural}.{group}"
        self.extra.append(named)
        until(lambda: self._established(named), f"{plural}.{group} is established")
        for each in versions if version.get("served", True) else ():
            until(partial(self._served, group, each, plural), f"{plural}.{group} {each} is served")
        return named

    def _established(self, path: str) -> bool:
        conditions = (self.kube.get(path).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def _served(self, group: str, version: str, plural: str) -> bool:
        """A definition is established before its objects can be reached: 404, then 429, for a moment."""
        try:
            self.kube.list(self.path(plural, group=group, version=version))
        except (KubeNotFound, KubeThrottled):
            return False
        return True

    def custom(self, group: str, name: str, plural: str = "gizmos", version: str = "v1", **spec: Any) -> None:
        """Create an object of a kind made by ``definition``; waits while the API server does not serve it."""
        body = {
            "apiVersion": f"{group}/{version}",
            "kind": plural.capitalize().removesuffix("s"),
            "metadata": {"name": name},
            "spec": spec,
        }

        def create() -> bool:
            try:
                self.kube.create(self.path(plural, group=group, version=version), body)
            except (KubeNotFound, KubeThrottled):
                return False
            return True

        until(create, f"{plural}.{group} can be created")

    def patch_own(self, plural: str, name: str, spec: dict[str, Any]) -> None:
        """Change the spec of one of the project's objects."""
        self.kube.patch(own_path(plural, namespace=self.namespace, name=name), {"spec": spec})

    def apply(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Create one of the project's objects."""
        return self.kube.create(
            own_path(plural, namespace=self.namespace),
            {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec},
        )

    def get(self, plural: str, name: str) -> dict[str, Any]:
        """One of the project's objects."""
        return self.kube.get(own_path(plural, namespace=self.namespace, name=name))

    def condition(self, plural: str, name: str, kind: str) -> dict[str, Any]:
        """One condition, empty while it is absent."""
        for found in self.get(plural, name).get("status", {}).get("conditions", []):
            if found["type"] == kind:
                return dict(found)
        return {}

    def is_condition(self, plural: str, name: str, kind: str, status: str, reason: str = "") -> bool:
        """Whether a condition has a status (and reason)."""
        found = self.condition(plural, name, kind)
        return found.get("status") == status and (not reason or found.get("reason") == reason)

    def wait_streams(self, target: str = "gt", seconds: float = 120.0) -> None:
        """Wait for StreamsRunning=True: what is written after it is delivered live."""
        until(
            lambda: self.is_condition("gittargets", target, "StreamsRunning", "True"),
            f"StreamsRunning of {target} is True",
            seconds,
        )

    def wait_ready(self, target: str = "gt", seconds: float = 120.0) -> None:
        """Wait for Ready=True."""
        until(lambda: self.is_condition("gittargets", target, "Ready", "True"), f"{target} is Ready", seconds)

    # -- objects

    def path(self, resource: str = "configmaps", name: str = "", group: str = "", version: str = "v1") -> str:
        """The API path of a collection or object in the namespace."""
        return resource_path(group, version, resource, namespace=self.namespace, name=name)

    def configmap(self, name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
        """Create a ConfigMap."""
        return self.kube.create(
            self.path(),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, **metadata},
                "data": data if data is not None else {"v": "1"},
            },
        )

    def set(self, name: str, value: str, key: str = "v") -> dict[str, Any]:
        """Change one entry of a ConfigMap."""
        return self.kube.patch(self.path(name=name), {"data": {key: value}})

    def count_up(self, name: str, values: Iterable[int], pause: float = 0.05) -> None:
        """Write a row of values to one ConfigMap, each by one request."""
        for value in values:
            self.set(name, str(value))
            time.sleep(pause)

    def delete(self, name: str, resource: str = "configmaps") -> None:
        """Delete an object; one that is gone is fine."""
        try:
            self.kube.delete(self.path(resource, name))
        except KubeNotFound:
            return

    # -- Git

    def file(self, name: str, resource: str = "configmaps", root: str = "live", suffix: str = ".yaml") -> str:
        """The canonical path of an object of the namespace."""
        return f"{root}/{self.namespace}/{resource}/{name}{suffix}"

    def in_git(self, name: str, holds: bytes = b"", seconds: float = LIVE_SECONDS, **where: str) -> bytes:
        """Wait until an object's file is there (and holds some bytes); returns its content."""
        path = self.file(name, **where)

        def check() -> bytes | None:
            content = self.git.read(path)
            return content if content is not None and holds in content else None

        found: bytes = until(check, f"{path} is in Git with {holds!r}", seconds)
        return found

    def gone_from_git(self, name: str, seconds: float = LIVE_SECONDS, **where: str) -> None:
        """Wait until an object's file is gone."""
        path = self.file(name, **where)
        until(lambda: self.git.read(path) is None, f"{path} is gone from Git", seconds)

    def quiet(self, seconds: float = QUIET_SECONDS) -> None:
        """The branch does not move for a while."""
        tip = self.git.tip()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.git.tip() == tip, f"an unexpected commit: {self.git.log()[0].subject}"
            time.sleep(0.25)

    def subjects(self) -> list[str]:
        """Commit subjects, newest first."""
        return [commit.subject for commit in self.git.log()]

    def history(self, name: str, branch: str = "main", **where: str) -> list[bytes | None]:
        """The contents that an object's file has had, oldest first; None where a commit deleted it."""
        path = self.file(name, **where)
        git = ["git", f"--git-dir={self.repository}"]
        log = subprocess.run(
            [*git, "log", "--reverse", "--format=%H", branch, "--", path], capture_output=True, check=False
        )
        found: list[bytes | None] = []
        for commit in log.stdout.decode().split():
            shown = subprocess.run(
                [*git, "cat-file", "blob", f"{commit}:{path}"], capture_output=True, check=False
            )
            found.append(shown.stdout if shown.returncode == 0 else None)
        return found

    def values(self, name: str, key: str = "v") -> list[str]:
        """What one data entry of a ConfigMap has been in Git, oldest first; empty text where it was gone."""
        pattern = re.compile(rf'^  {re.escape(key)}: "?([^"\n]*)"?$'.encode(), re.MULTILINE)
        found = (pattern.search(content or b"") for content in self.history(name))
        return [match[1].decode() if match else "" for match in found]

    def counted_to(self, name: str, last: int, *, complete: bool, seconds: float = 120.0) -> None:
        """The object's history in Git ends with ``last`` and never turns back or repeats itself; ``complete``
        where each value was delivered live with a window of 0 s and must be a commit of its own.
        """
        self.in_git(name, f'v: "{last}"'.encode(), seconds=seconds)
        found = [int(value) for value in self.values(name)]
        assert found == sorted(set(found)), found
        if complete:
            assert found == list(range(1, last + 1))

    def hook(self, name: str, script: str) -> Path:
        """A server-side hook of the repository."""
        path = self.repository / "hooks" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def seed(self, files: dict[str, str | None], message: str = "human", branch: str = "main") -> str:
        """Commit files as a human through a private clone; returns the commit."""
        clone = self.folder / "human"
        git = ["git", "-C", str(clone), "-c", "user.name=Human", "-c", "user.email=human@lab.test"]
        if not clone.exists():
            subprocess.run(
                ["git", "clone", "-q", str(self.repository), str(clone)], check=True, capture_output=True
            )
            subprocess.run([*git, "symbolic-ref", "HEAD", f"refs/heads/{branch}"], check=True)
        subprocess.run([*git, "fetch", "-q", "origin"], check=True, capture_output=True)
        subprocess.run([*git, "reset", "-q", "--hard", f"origin/{branch}"], check=False, capture_output=True)
        for path, content in files.items():
            file = clone / path
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", message], check=True)
        subprocess.run([*git, "push", "-q", "origin", f"HEAD:{branch}"], check=True, capture_output=True)
        done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        return done.stdout.strip()
