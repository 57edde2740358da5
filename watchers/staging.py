"""The objects of one replay on their way into Redis, a page at a time (J5).

Nothing counts until the sweep names it: an abandoned replay is dropped, and what a dying process leaves
behind expires. While Redis does not answer, the page waits, and with it the reading of the replay: what was
folded is worth waiting for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from reverser.errors import StoreUnavailable
from reverser.store.model import ObjectRef, Presence, StagedObject, UnsealedEntry, digest_field
from watchers.fold import Fold, Folded, Name
from watchers.shardstate import ShardState

log = logging.getLogger(__name__)
T = TypeVar("T")

CALL_BYTES = 1024 * 1024
"""Bodies in one call to Redis."""


class Staging:
    """What one replay has staged so far."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._refusals: dict[Name, UnsealedEntry] = {}
        self._used = False
        self.replay_id = uuid.uuid4().hex

    async def flush(self, fold: Fold) -> None:
        """Stages what the fold collected since the last time."""
        page = fold.take()
        branch = self._state.position.branch
        self._used = self._used or bool(page.objects)
        if page.gone:
            await self._insist(partial(self._state.store.unstage, branch, self.replay_id, page.gone))
        if page.objects:
            sealed = await self._sealed(page.objects)
            for chunk in _chunks(sealed):
                await self._insist(partial(self._state.store.stage, branch, self.replay_id, chunk))

    async def finish(self, fold: Fold) -> list[UnsealedEntry]:
        """Stages the rest of a complete fold; returns an entry for each object that could not be sealed."""
        await self.flush(fold)
        state = self._state
        if state.spec.sensitive:
            present = (digest_field(ObjectRef(state.spec.type, *name)) for name in fold.present)
            await state.seals.forget(state.spec.scope, present=frozenset(present))
        return [self._refusals[name] for name in sorted(self._refusals) if name in fold.present]

    async def drop(self) -> None:
        """Drops the staging of an abandoned replay."""
        if self._used:
            with contextlib.suppress(StoreUnavailable):
                await self._state.store.drop_staging(self._state.position.branch, self.replay_id)

    async def _sealed(self, objects: Sequence[Folded]) -> list[StagedObject]:
        if not self._state.spec.sensitive:
            return [_plain(item) for item in objects]
        seals, spec = self._state.seals, self._state.spec
        staged, refusals = await self._insist(partial(seals.stage, spec, objects))
        for item in objects:
            self._refusals.pop((item.namespace, item.name), None)
        for refusal in refusals:
            self._refusals[(refusal.object.namespace, refusal.object.name)] = refusal
        return staged

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call until Redis answers."""
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                log.debug("%s waits: %s", self._state.name, error)
                await asyncio.sleep(self._state.timing.retry_first)


def _plain(item: Folded) -> StagedObject:
    if item.presence is not Presence.FULL:
        return StagedObject(item.namespace, item.name, item.presence)
    return StagedObject(item.namespace, item.name, item.presence, body=item.body, optional=item.optional)


def _chunks(objects: list[StagedObject]) -> list[list[StagedObject]]:
    """One call to Redis each: sealed text is longer than what was folded, and one object may be large."""
    chunks: list[list[StagedObject]] = []
    size = CALL_BYTES
    for item in objects:
        if size >= CALL_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += len(item.body)
    return chunks
