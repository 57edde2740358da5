"""The five kinds as this process knows them: raw caches that others may share, and parsed views on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from reverser.kinds.model import CommitRequest, GitProvider, GitTarget, WatchRule
from reverser.kinds.parse import (
    parse_commit_request,
    parse_git_provider,
    parse_git_target,
    parse_watch_rule,
)
from reverser.kube.aio import AsyncKube
from reverser.kube.paths import own_path
from watchers.informers import Informer, wait_all
from watchers.timing import Timing

Raw = dict[str, Any]
K = TypeVar("K", GitProvider, GitTarget, WatchRule)


class OwnKinds:
    """Caches of the five kinds; ``changed`` is called after any change, ``requested`` for each request."""

    def __init__(
        self,
        kube: AsyncKube,
        *,
        timing: Timing,
        changed: Callable[[], None],
        requested: Callable[[CommitRequest], None],
    ) -> None:
        self._changed = changed
        self._requested = requested
        self._targets: dict[str, GitTarget] = {}
        self._providers: dict[str, GitProvider] = {}
        self._rules: dict[str, WatchRule] = {}
        self._requests: dict[str, CommitRequest] = {}
        listeners: dict[str, Callable[[str, Raw | None], None]] = {
            "gitproviders": self._provider,
            "gittargets": self._target,
            "watchrules": self._rule,
            "clusterwatchrules": self._cluster_rule,
            "commitrequests": self._request,
        }
        self.informers: Mapping[str, Informer[Raw]] = {
            resource: Informer(kube, own_path(resource), _raw, on_change=listener, timing=timing)
            for resource, listener in listeners.items()
        }
        """By plural name; they hold raw objects."""

    def start(self) -> None:
        """Begins to follow all five."""
        for informer in self.informers.values():
            informer.start()

    async def stop(self) -> None:
        """Ends all five."""
        for informer in self.informers.values():
            await informer.stop()

    async def wait_synced(self) -> None:
        """Waits for the first complete list of what decides which watches run."""
        needed = ("gitproviders", "gittargets", "watchrules", "clusterwatchrules")
        await wait_all(self.informers[name] for name in needed)

    @property
    def targets(self) -> Mapping[str, GitTarget]:
        """Targets by UID, those that are being deleted left out."""
        found = (t for t in self._targets.values() if t.meta.uid and not t.meta.deletion_timestamp)
        return {target.meta.uid: target for target in found}

    def provider(self, namespace: str, name: str) -> GitProvider | None:
        """One provider, or None."""
        return self._providers.get(f"{namespace}/{name}")

    def rules_of(self, target: GitTarget) -> Iterable[WatchRule]:
        """The rules that name a target; a rule that is being deleted still counts until it is gone."""
        pair = (target.meta.namespace, target.meta.name)
        return [
            self._rules[key]
            for key in sorted(self._rules)
            if (self._rules[key].target_namespace, self._rules[key].target_name) == pair
        ]

    @property
    def requests(self) -> Iterable[CommitRequest]:
        """All known CommitRequests."""
        return list(self._requests.values())

    def _provider(self, key: str, obj: Raw | None) -> None:
        self._put(self._providers, key, parse_git_provider(obj) if obj is not None else None)

    def _target(self, key: str, obj: Raw | None) -> None:
        self._put(self._targets, key, parse_git_target(obj) if obj is not None else None)

    def _rule(self, key: str, obj: Raw | None) -> None:
        rule = parse_watch_rule(obj) if obj is not None else None
        self._put(self._rules, f"namespaced:{key}", rule)

    def _cluster_rule(self, key: str, obj: Raw | None) -> None:
        self._put(self._rules, f"cluster:{key}", parse_watch_rule(obj) if obj is not None else None)

    def _put(self, where: dict[str, K], key: str, value: K | None) -> None:
        """Keeps or forgets one object; a change of its status alone concerns nobody here."""
        old = where.pop(key, None)
        if value is not None:
            where[key] = value
        if old is None or value is None or _identity(old) != _identity(value):
            self._changed()

    def _request(self, key: str, obj: Raw | None) -> None:
        if obj is None:
            self._requests.pop(key, None)
            return
        request = parse_commit_request(obj)
        self._requests[key] = request
        self._requested(request)


def _identity(value: GitProvider | GitTarget | WatchRule) -> tuple[str, int, str]:
    return (value.meta.uid, value.meta.generation, value.meta.deletion_timestamp)


def _raw(obj: Raw) -> Raw:
    return obj
