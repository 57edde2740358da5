"""A replay folded to the set of objects that exist: last version wins, what is deleted or terminating is out.

The fold knows of every object how it takes part in the sweep (J6): to be written, or only seen, so that its
document is protected. It keeps names and hashes for the whole replay, but bodies only for a page at a time:
whoever reads the replay takes full pages out and stages them. A name that was taken out and is gone again is
named by a later page. A fold that never reached its end is discarded by its owner: there is no partial sweep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.store.model import Presence
from watchers.defaults import Node, optional_pointers
from watchers.facts import RawFacts, read_facts
from watchers.noop import NoopCache, fingerprint
from watchers.policy import noise
from watchers.sanitize import canonical, project
from watchers.table import ShardSpec

PAGE_ITEMS = 200
PAGE_BYTES = 512 * 1024
Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Folded:
    """One object of a replay. ``body`` is its canonical projection, empty when it is only present."""

    namespace: str
    name: str
    presence: Presence
    body: bytes = b""
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Objects to stage, in order of name, and names that an earlier page had and that are gone."""

    objects: tuple[Folded, ...]
    gone: tuple[Name, ...]


class Fold:
    """Collects one replay. Terminating objects are noted, so that their removal is not reported again."""

    def __init__(self, spec: ShardSpec, *, filter_noise: bool, table: Node | None) -> None:
        self._spec = spec
        self._filter_noise = filter_noise
        self._table = table
        self._seen: dict[Name, tuple[str, bytes]] = {}
        """UID and hash of what exists; no hash for an object that is only present."""
        self._terminating: dict[Name, str] = {}
        self._page: dict[Name, Folded] = {}
        self._bytes = 0
        self._taken: set[Name] = set()
        self._gone: set[Name] = set()
        self.malformed = 0
        """Objects without a name: they can neither be written nor protected."""

    def add(self, obj: Mapping[str, Any]) -> None:
        """An object as ADDED, MODIFIED or a list shows it."""
        facts = read_facts(obj)
        if facts.malformed:
            self.malformed += 1
            return
        name = (facts.namespace, facts.name)
        if facts.terminating:
            self._leave(name)
            self._terminating[name] = facts.uid
            return
        self._terminating.pop(name, None)
        self._gone.discard(name)
        self._forget(name)
        folded = self._fold(facts, obj)
        self._seen[name] = (facts.uid, fingerprint(folded.body) if folded.body else b"")
        self._page[name] = folded
        self._bytes += len(folded.body)

    def _fold(self, facts: RawFacts, obj: Mapping[str, Any]) -> Folded:
        kind = self._spec.type
        if self._filter_noise and noise(kind.group, kind.kind, obj) is not None:
            return Folded(facts.namespace, facts.name, Presence.PRESENT)
        try:
            projection = project(obj)
            body = canonical(projection)
        except (TypeError, AttributeError, orjson.JSONEncodeError):
            return Folded(facts.namespace, facts.name, Presence.PRESENT)
        optional = optional_pointers(projection, self._table)
        return Folded(facts.namespace, facts.name, Presence.FULL, body, optional)

    def remove(self, obj: Mapping[str, Any]) -> None:
        """An object that was deleted while the replay ran."""
        facts = read_facts(obj)
        self._leave((facts.namespace, facts.name))
        self._terminating.pop((facts.namespace, facts.name), None)

    def _leave(self, name: Name) -> None:
        self._seen.pop(name, None)
        self._forget(name)
        if name in self._taken:
            self._gone.add(name)

    def _forget(self, name: Name) -> None:
        waiting = self._page.pop(name, None)
        if waiting is not None:
            self._bytes -= len(waiting.body)

    @property
    def full(self) -> bool:
        """Whether it holds a full page, which should be taken out."""
        return max(len(self._page), len(self._gone)) >= PAGE_ITEMS or self._bytes >= PAGE_BYTES

    def take(self) -> Page:
        """What was collected since the last page."""
        page = Page(tuple(self._page[name] for name in sorted(self._page)), tuple(sorted(self._gone)))
        self._taken.update(self._page)
        self._taken -= self._gone
        self._page.clear()
        self._gone.clear()
        self._bytes = 0
        return page

    @property
    def present(self) -> Collection[Name]:
        """The names of everything that exists."""
        return self._seen.keys()

    @property
    def terminating(self) -> Collection[str]:
        """UIDs of objects that are being deleted."""
        return self._terminating.values()

    def seed(self, cache: NoopCache) -> None:
        """Records in the no-op cache what this replay wrote and what it left out as terminating."""
        for uid, known in self._seen.values():
            if known:
                cache.seed(uid, known)
        for uid in self._terminating.values():
            cache.remove(uid)
