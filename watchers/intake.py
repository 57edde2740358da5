"""One live event to one step of the shard's buffer.

The order of the steps is the contract: what the event means (an object that is terminating is removed,
whatever the event is called), noise, the rule's operations, the projection, the comparison with what is
known, and only then the author, so that nothing which changes nothing waits for one. Every event yields a
step, because filtered and suppressed ones move the cursor too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from reverser.errors import ReverserError
from reverser.kube.lines import WatchEvent
from reverser.store.model import (
    EventEntry,
    ObjectRef,
    Operation,
    TargetRef,
    UnsealedEntry,
)
from watchers.buffer import Item
from watchers.defaults import Node, optional_pointers
from watchers.facts import RawFacts, read_facts, read_marks
from watchers.fold import Fold
from watchers.hooks import AuthorResolver, EventFacts, Named
from watchers.noop import NoopCache
from watchers.policy import noise
from watchers.sanitize import canonical, project
from watchers.sealing import Seals
from watchers.table import ShardSpec
from watchers.terminating import Terminating

log = logging.getLogger(__name__)

_OPERATIONS = {"ADDED": Operation.CREATE, "MODIFIED": Operation.UPDATE, "DELETED": Operation.DELETE}


class Disposition(StrEnum):
    """What became of an event; a metric label."""

    APPLIED = "applied"
    NOISE = "noise"
    OPERATION = "operation"
    UNCHANGED = "sanitized_noop"
    REMOVED_BEFORE = "duplicate"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Intake:
    """Everything one shard needs to read its events."""

    spec: ShardSpec
    target: TargetRef
    filter_noise: bool
    defaults: Callable[[], Node | None]
    """The known server defaults of the type, as they are now."""
    cache: NoopCache
    terminating: Terminating
    resolver: AuthorResolver | None
    """None: attribution is off, and no event waits for an author."""
    seals: Seals

    def read(self, event: WatchEvent, *, deadline: float, backlog: bool = False) -> tuple[Item, Disposition]:
        """The buffer step of an ADDED, MODIFIED or DELETED event, and what became of it."""
        facts = read_facts(event.object)
        step = Item(facts.resource_version, size=200)
        if facts.malformed or event.type not in _OPERATIONS:
            return step, Disposition.MALFORMED
        kind = self.spec.type
        removal = facts.terminating or event.type == "DELETED"
        operation = Operation.DELETE if removal else _OPERATIONS[event.type]
        self.terminating.saw(facts.uid, gone=event.type == "DELETED", terminating=facts.terminating)
        # What was written before it became noise still leaves Git with its object.
        told = removal and self.cache.wrote(facts.uid)
        if self.filter_noise and not told and noise(kind.group, kind.kind, event.object) is not None:
            return step, Disposition.NOISE
        if operation not in self.spec.operations_for(facts.namespace):
            return step, Disposition.OPERATION
        if removal:
            if self.cache.remove(facts.uid) and facts.uid:
                return step, Disposition.REMOVED_BEFORE
            item = self._step(event, facts, operation, None, deadline=deadline, backlog=backlog)
            return item, Disposition.APPLIED
        try:
            projection = project(event.object)
            body = canonical(projection)
        except (TypeError, AttributeError, orjson.JSONEncodeError):
            return step, Disposition.MALFORMED
        if self.cache.remember(facts.uid, body) and operation is Operation.UPDATE:
            return step, Disposition.UNCHANGED
        content = (projection, body)
        item = self._step(event, facts, operation, content, deadline=deadline, backlog=backlog)
        return item, Disposition.APPLIED

    def learn(self, fold: Fold) -> None:
        """A replay was appended: remember what it showed."""
        self.cache.clear()
        fold.seed(self.cache)
        self.terminating.replace(fold.terminating)

    def forget(self) -> None:
        """Forget everything: what was remembered may never have been appended."""
        self.cache.clear()

    def _step(
        self,
        event: WatchEvent,
        facts: RawFacts,
        operation: Operation,
        content: tuple[Mapping[str, Any], bytes] | None,
        *,
        deadline: float,
        backlog: bool,
    ) -> Item:
        ref = ObjectRef(self.spec.type, facts.namespace, facts.name)
        sealing = content is not None and self.spec.sensitive
        entry = EventEntry(
            target=self.target,
            scope=self.spec.scope,
            object=ref,
            operation=operation,
            object_uid=facts.uid,
            resource_version=facts.resource_version,
            body=content[1] if content is not None and not sealing else b"",
            sensitive=self.spec.sensitive,
            optional=optional_pointers(content[0], self.defaults())
            if content is not None and not sealing
            else (),
        )
        item = Item(facts.resource_version, entry, size=event.size + 500)
        if not sealing and self.resolver is None:
            return item
        question = EventFacts(
            type=self.spec.type,
            namespace=facts.namespace,
            name=facts.name,
            uid=facts.uid,
            resource_version=facts.resource_version,
            removal=operation is Operation.DELETE,
            deadline=deadline,
            marks=read_marks(event.object),
            backlog=backlog,
        )
        plain = content[0] if sealing and content is not None else None
        item.entry = None
        item.work = asyncio.create_task(self._complete(entry, question, plain))
        return item

    async def _complete(
        self, entry: EventEntry, question: EventFacts, plain: Mapping[str, Any] | None
    ) -> EventEntry | UnsealedEntry | None:
        """Adds the author and the seal, both at the same time."""
        if plain is None:
            return _signed(entry, await self._author(question))
        named, sealed = await asyncio.gather(self._author(question), self.seals.seal_event(entry, plain))
        return _signed(sealed, named) if isinstance(sealed, EventEntry) else sealed

    async def _author(self, question: EventFacts) -> Named | None:
        if self.resolver is None:
            return None
        try:
            return await self.resolver.resolve(question)
        except ReverserError as error:
            log.info(
                "no author for %s %s/%s: %s", question.type.kind, question.namespace, question.name, error
            )
            return None


def _signed(entry: EventEntry, named: Named | None) -> EventEntry:
    return replace(entry, author=named.author, claim=named.claim) if named is not None else entry
