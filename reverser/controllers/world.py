"""What the controllers see of the cluster: the five kinds from caches, and an uncached read where it matters.

A cache can lag. Being absent in it is enough to report that something is missing, but not to close a
gate or to retire a target: such decisions ask the API server first (``fetch``), and an answer
that cannot be read is an error to retry, never an absence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from reverser.errors import KubeNotFound
from reverser.kinds.model import CommitRequest, GitProvider, GitTarget, WatchRule
from reverser.kinds.parse import (
    parse_commit_request,
    parse_git_provider,
    parse_git_target,
    parse_watch_rule,
)
from reverser.kube.client import AsyncKube
from reverser.kube.paths import own_path
from reverser.store.model import BranchKey

PROVIDERS, TARGETS = "gitproviders", "gittargets"
RULES, CLUSTER_RULES = "watchrules", "clusterwatchrules"
REQUESTS = "commitrequests"
RESOURCES = (PROVIDERS, TARGETS, RULES, CLUSTER_RULES, REQUESTS)

Object = Mapping[str, Any]


T = TypeVar("T")


class Cache(Protocol):
    """A list-and-watch cache of one resource."""

    def items(self) -> Iterable[Object]:
        """The objects that it holds."""
        ...

    def get(self, namespace: str, name: str) -> Object | None:
        """One object; ``namespace`` is empty for a cluster-scoped one."""
        ...


def object_key(obj: Object) -> str:
    """``namespace/name``, or the name alone."""
    meta = obj.get("metadata") or {}
    namespace, name = meta.get("namespace") or "", meta.get("name") or ""
    return f"{namespace}/{name}" if namespace else str(name)


class World:
    """Parsed views on the caches."""

    def __init__(self, kube: AsyncKube, caches: Mapping[str, Cache]) -> None:
        self._kube = kube
        self._caches = caches
        self._memos: dict[str, dict[int, tuple[Object, Any]]] = {}

    def raw(self, resource: str, key: str) -> Object | None:
        """One object as JSON."""
        namespace, _, name = key.rpartition("/")
        return self._caches[resource].get(namespace, name)

    def keys(self, resource: str) -> list[str]:
        """The keys of all objects of a resource."""
        return [object_key(obj) for obj in self._caches[resource].items()]

    def _parsed(self, resource: str, parse: Callable[[Object], T]) -> list[T]:
        """All objects of a resource as values; each version of an object is parsed once."""
        before = self._memos.get(resource, {})
        memo: dict[int, tuple[Object, Any]] = {}
        for obj in self._caches[resource].items():
            known = before.get(id(obj))
            memo[id(obj)] = known if known is not None and known[0] is obj else (obj, parse(obj))
        self._memos[resource] = memo
        return [value for _, value in memo.values()]

    def providers(self) -> list[GitProvider]:
        """All GitProviders."""
        return self._parsed(PROVIDERS, parse_git_provider)

    def targets(self) -> list[GitTarget]:
        """All GitTargets."""
        return self._parsed(TARGETS, parse_git_target)

    def rules(self) -> list[WatchRule]:
        """All WatchRules and ClusterWatchRules."""
        return [
            *self._parsed(RULES, lambda obj: parse_watch_rule({"kind": "WatchRule", **obj})),
            *self._parsed(CLUSTER_RULES, lambda obj: parse_watch_rule({"kind": "ClusterWatchRule", **obj})),
        ]

    def requests(self) -> list[CommitRequest]:
        """All CommitRequests."""
        return self._parsed(REQUESTS, parse_commit_request)

    @staticmethod
    def branch_of(target: GitTarget) -> BranchKey:
        """The branch that a target writes."""
        return BranchKey(target.meta.namespace, target.provider, target.branch)

    def rules_of(self, target: GitTarget) -> list[WatchRule]:
        """The rules that name a target."""
        where = (target.meta.namespace, target.meta.name)
        return [rule for rule in self.rules() if (rule.target_namespace, rule.target_name) == where]

    async def fetch(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object from its cache, else from the API server; None only when the server says 404."""
        if not name:
            return None
        cached = self.raw(resource, f"{namespace}/{name}" if namespace else name)
        if cached is not None:
            return cached
        try:
            path = own_path(resource, namespace=namespace, name=name)
        except ValueError:  # no object can have such a name
            return None
        try:
            return await self._kube.get(path)
        except KubeNotFound:
            return None

    async def provider(self, namespace: str, name: str) -> GitProvider | None:
        """A GitProvider; None when it certainly does not exist."""
        found = await self.fetch(PROVIDERS, namespace, name)
        return None if found is None else parse_git_provider(found)

    async def target(self, namespace: str, name: str) -> GitTarget | None:
        """A GitTarget; None when it certainly does not exist."""
        found = await self.fetch(TARGETS, namespace, name)
        return None if found is None else parse_git_target(found)

    async def living_targets(self) -> set[str]:
        """UIDs of all GitTargets as the API server has them now."""
        listed = await self._kube.list(own_path(TARGETS))
        return {str(item["metadata"]["uid"]) for item in listed.items}
