"""Sensitive objects of one target: sealed before they enter the buffer or a staging, or only shown as
unsealed.

A live event always carries sealed text. An object of a replay whose keyed digest equals the one of the last
settled write, under the same recipients, is carried as its digest alone (J20): a quiet restart encrypts
nothing. Why an object cannot be sealed is reported once per object and reason. Where a later try may succeed
(sops failed, was killed, is missing), the type is replayed with a growing pause (J14): the object itself may
never change again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from reverser.errors import RefusedError, StalledError, StoreUnavailable, TransientError
from reverser.sparing import Sparing
from reverser.store import AsyncStore
from reverser.store.model import (
    DigestRecord,
    EventEntry,
    ObjectRef,
    Presence,
    Scope,
    StagedObject,
    TargetRef,
    UnsealedEntry,
    digest_field,
)
from reverser.trust.child import ChildFailed, ChildTimeout
from reverser.trust.metrics import MARKER_SKIPS
from watchers.fold import Folded
from watchers.hooks import Sealer, Unsealed
from watchers.table import ShardSpec

log = logging.getLogger(__name__)

_LINES = Sparing(lines=10, seconds=60)

PARALLEL = 8
RETRY = 1.0
TRIES = 2
"""Tries for a sops that hangs or is killed, before the objects behind continue without this one."""
DIGEST_PAGE = 500
HEALING = frozenset({"EncryptionFailed", "SopsMissing"})
"""Reasons that say nothing about the next try."""


@dataclass(slots=True)
class Seals:
    """The sealing state of one target, shared by its shards."""

    store: AsyncStore
    sealer: Sealer
    target: TargetRef
    recipients: tuple[str, ...] | Unsealed
    generation: int = 0
    reported: dict[str, str] = field(default_factory=dict)
    """Reason last reported by object field."""
    _again: dict[Scope, tuple[float, float]] = field(default_factory=dict)
    """When a scope is to be replayed for objects that could not be sealed, and the pause before that."""
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PARALLEL))

    async def seal_event(
        self, entry: EventEntry, plain: Mapping[str, Any]
    ) -> EventEntry | UnsealedEntry | None:
        """The sealed event, or what is to be shown in its place; None when that was shown already."""
        sealed = await self._seal(entry.object, plain)
        if isinstance(sealed, Unsealed):
            refusal = self._refusal(entry.scope, entry.object, sealed)
            if refusal is not None:
                self.note(refusal)
            return refusal
        text, digest, generation = sealed
        await self._sealed_again(entry.object)
        return replace(
            entry, body=text, sealed=True, digest=digest, recipients_generation=generation, optional=()
        )

    async def _seal(self, ref: ObjectRef, plain: Mapping[str, Any]) -> tuple[bytes, str, int] | Unsealed:
        """The sealed text, its digest, and the generation of the recipients it was sealed for."""
        recipients, generation = self.recipients, self.generation
        if isinstance(recipients, Unsealed):
            return recipients
        tries = 0
        while True:
            try:
                async with self._gate:
                    digest = await self.sealer.digest(self.target.uid, ref, plain)
                    text = await self.sealer.seal(self.target.uid, ref, plain, recipients)
                return text if isinstance(text, Unsealed) else (text, digest, generation)
            except TransientError as error:
                tries += isinstance(error, ChildTimeout | ChildFailed)
                if tries >= TRIES:
                    return Unsealed("EncryptionFailed", f"secret encryption failed: {error}; tried again")
                log.info("sealing %s %s/%s waits: %s", ref.type.kind, ref.namespace, ref.name, error)
                await asyncio.sleep(error.retry_after or RETRY)
            except (RefusedError, StalledError) as error:
                return Unsealed(error.reason, str(error))

    def _refusal(self, scope: Scope, ref: ObjectRef, why: Unsealed) -> UnsealedEntry | None:
        """The entry that reports the refusal, unless it was reported before."""
        if self.reported.get(digest_field(ref)) == why.reason:
            return None
        return UnsealedEntry(self.target, scope, ref, why.reason, why.message)

    def note(self, refusal: UnsealedEntry) -> None:
        """A refusal is on its way into the journal: it is not shown again."""
        self.reported[digest_field(refusal.object)] = refusal.reason
        left = _LINES.left((self.target.uid, refusal.reason))
        if left:
            log.warning(
                "%s %s/%s is not written for GitTarget %s/%s (%s): %s%s",
                refusal.object.type.group_resource,
                refusal.object.namespace,
                refusal.object.name,
                self.target.namespace,
                self.target.name,
                refusal.reason,
                refusal.message,
                "; the target's status counts the others" if left == 1 else "",
            )

    async def recall(self, scope: Scope) -> None:
        """What was on its way may be lost: trust only what the store shows. Raises StoreUnavailable."""
        shown = await self.store.read_unsealed(self.target.uid)
        for name in self._reported_in(scope):
            if name not in shown:
                del self.reported[name]

    async def _sealed_again(self, ref: ObjectRef) -> None:
        name = digest_field(ref)
        if self.reported.pop(name, None) is None:
            return
        try:
            await self.store.clear_unsealed(self.target.uid, [name])
        except StoreUnavailable:
            self.reported[name] = ""

    async def forget(self, scope: Scope, *, present: frozenset[str] = frozenset()) -> None:
        """Stop showing refusals in ``scope`` whose objects are gone: all but the fields ``present``."""
        gone = [name for name in self._reported_in(scope) if name not in present]
        if not gone:
            return
        with contextlib.suppress(StoreUnavailable):
            await self.store.clear_unsealed(self.target.uid, gone)
            for name in gone:
                self.reported.pop(name, None)

    def _reported_in(self, scope: Scope) -> list[str]:
        prefix = f"{scope.group_resource}|"
        if scope.namespace is not None:
            prefix += f"{scope.namespace}|"
        return [name for name in self.reported if name.startswith(prefix)]

    def due(self, scopes: Iterable[Scope], *, now: float, first: float, most: float) -> list[Scope]:
        """Which of ``scopes`` to replay for what could not be sealed: after ``first`` seconds, then after
        pauses that double up to ``most``.

        Derived from what is reported, so that a successor goes on where its predecessor ended.
        """
        due = []
        for scope in scopes:
            if not any(self.reported[name] in HEALING for name in self._reported_in(scope)):
                self._again.pop(scope, None)
                continue
            at, pause = self._again.setdefault(scope, (now + first, first))
            if now >= at:
                due.append(scope)
                pause = min(pause * 2, most)
                self._again[scope] = (now + pause, pause)
        return due

    async def stage(
        self, spec: ShardSpec, objects: Sequence[Folded]
    ) -> tuple[list[StagedObject], list[UnsealedEntry]]:
        """Objects of a replay as they may be staged, and the refusals to show once it is complete."""
        known = await self._known(spec, objects)
        shown: list[UnsealedEntry] = []

        async def one(item: Folded) -> StagedObject:
            base = StagedObject(item.namespace, item.name, item.presence, sensitive=True)
            if item.presence is not Presence.FULL:
                return base
            ref = ObjectRef(spec.type, item.namespace, item.name)
            plain: dict[str, Any] = orjson.loads(item.body)
            record = known.get(digest_field(ref))
            if record is not None and record.recipients_generation == self.generation:
                digest = await self.sealer.digest(self.target.uid, ref, plain)
                if digest and digest == record.digest:
                    MARKER_SKIPS.inc()
                    await self._sealed_again(ref)
                    return replace(
                        base,
                        presence=Presence.DIGEST,
                        digest=digest,
                        recipients_generation=self.generation,
                    )
            sealed = await self._seal(ref, plain)
            if isinstance(sealed, Unsealed):
                refusal = self._refusal(spec.scope, ref, sealed)
                if refusal is not None:
                    shown.append(refusal)
                return replace(base, presence=Presence.PRESENT)
            await self._sealed_again(ref)
            text, digest, generation = sealed
            return replace(base, body=text, sealed=True, digest=digest, recipients_generation=generation)

        return list(await asyncio.gather(*(one(item) for item in objects))), shown

    async def _known(self, spec: ShardSpec, objects: Sequence[Folded]) -> dict[str, DigestRecord]:
        if isinstance(self.recipients, Unsealed):
            return {}
        names = [
            digest_field(ObjectRef(spec.type, item.namespace, item.name))
            for item in objects
            if item.presence is Presence.FULL
        ]
        known: dict[str, DigestRecord] = {}
        for start in range(0, len(names), DIGEST_PAGE):
            known |= await self.store.read_digests(self.target.uid, names[start : start + DIGEST_PAGE])
        return known
