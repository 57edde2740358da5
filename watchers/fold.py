"""A replay folded to the set of objects that exist: last version wins, what is deleted or terminating is out.

The fold holds canonical bytes, not objects, and knows of every object how it takes part in the sweep (J6):
to be written, or only seen, so that its document is protected. A fold that never met its end is thrown away
by its owner: there is no partial sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.store.model import Presence
from watchers.defaults import Node, optional_pointers
from watchers.facts import read_facts
from watchers.noop import NoopCache
from watchers.policy import noise
from watchers.sanitize import canonical, project
from watchers.table import ShardSpec


@dataclass(frozen=True, slots=True)
class Folded:
    """One object of a replay. ``body`` is its canonical projection, empty when it is only present."""

    namespace: str
    name: str
    uid: str
    presence: Presence
    body: bytes = b""
    optional: tuple[str, ...] = ()


class Fold:
    """Collects one replay. Terminating objects are noted, so that their removal is not reported again."""

    def __init__(self, spec: ShardSpec, *, filter_noise: bool, table: Node | None) -> None:
        self._spec = spec
        self._filter_noise = filter_noise
        self._table = table
        self._objects: dict[tuple[str, str], Folded] = {}
        self._terminating: dict[tuple[str, str], str] = {}
        self.malformed = 0

    def add(self, obj: Mapping[str, Any]) -> None:
        """An object as ADDED, MODIFIED or a list shows it."""
        facts = read_facts(obj)
        if facts.malformed:
            self.malformed += 1
            return
        key = (facts.namespace, facts.name)
        if facts.terminating:
            self._objects.pop(key, None)
            self._terminating[key] = facts.uid
            return
        self._terminating.pop(key, None)
        kind = self._spec.type
        if self._filter_noise and noise(kind.group, kind.kind, obj) is not None:
            self._objects[key] = Folded(*key, facts.uid, Presence.PRESENT)
            return
        try:
            projection = project(obj)
            body = canonical(projection)
        except (TypeError, AttributeError, orjson.JSONEncodeError):
            self.malformed += 1
            self._objects[key] = Folded(*key, facts.uid, Presence.PRESENT)
            return
        optional = optional_pointers(projection, self._table)
        self._objects[key] = Folded(*key, facts.uid, Presence.FULL, body, optional)

    def remove(self, obj: Mapping[str, Any]) -> None:
        """An object that was deleted while the replay ran."""
        facts = read_facts(obj)
        self._objects.pop((facts.namespace, facts.name), None)
        self._terminating.pop((facts.namespace, facts.name), None)

    @property
    def objects(self) -> list[Folded]:
        """What exists, in order of name."""
        return [self._objects[key] for key in sorted(self._objects)]

    def seed(self, cache: NoopCache) -> None:
        """Teaches the no-op cache what this replay wrote and what it left out as terminating."""
        for item in self._objects.values():
            if item.presence is Presence.FULL:
                cache.remember(item.uid, item.body)
        for uid in self._terminating.values():
            cache.remove(uid)
