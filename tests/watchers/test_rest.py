"""Steps that move only the cursor are few a second; what has to be written never waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reverser.store.model import (
    AppendStatus,
    BranchKey,
    EventEntry,
    Fence,
    Limits,
    ObjectRef,
    Operation,
    Scope,
    TargetRef,
    TypeRef,
)
from watchers import appender
from watchers.appender import Appender, Position
from watchers.buffer import Item, ShardBuffer

SECONDS = 20.0
SCOPE = Scope("u", "configmaps", "shop")
ENTRY = EventEntry(
    target=TargetRef("u", "shop", "gt"),
    scope=SCOPE,
    object=ObjectRef(TypeRef("", "v1", "configmaps", "ConfigMap", True), "shop", "a"),
    operation=Operation.UPDATE,
    object_uid="o",
    resource_version="3",
    body=b"{}",
)


class Journal:
    """Remembers what was appended: how many entries, and the cursor."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, str]] = []
        self.changed = asyncio.Event()

    async def append_events(self, *_: Any, events: Any, resource_version: str, **_more: Any) -> AppendStatus:
        """One append."""
        self.steps.append((len(events), resource_version))
        self.changed.set()
        return AppendStatus.OK

    async def reaches(self, count: int) -> None:
        """Until there were so many appends."""
        while len(self.steps) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), SECONDS)


async def _entry_later(gate: asyncio.Event) -> EventEntry:
    await gate.wait()
    return ENTRY


@pytest.mark.parametrize("pending", [False, True])
def test_an_entry_ends_the_pause_between_cursor_steps(pending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change after a status update is appended at once, with the cursor before it in the same step; so is
    one whose author is found only while the cursor waits.
    """
    monkeypatch.setattr(appender, "CURSOR_PAUSE", 3600.0)

    async def scenario() -> None:
        journal, buffer = Journal(), ShardBuffer()
        position = Position(
            branch=BranchKey("shop", "gp", "main"),
            scope=SCOPE,
            fence=lambda: Fence("t", 1),
            fingerprint="f",
            limits=Limits(1 << 20, 1 << 20),
        )
        running = asyncio.create_task(Appender(journal, position, buffer).run())  # type: ignore[arg-type]
        try:
            await buffer.put(Item("1"))
            await journal.reaches(1)
            await buffer.put(Item("2"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert journal.steps == [(0, "1")]  # the second cursor waits
            gate = asyncio.Event()
            work = asyncio.create_task(_entry_later(gate)) if pending else None
            await buffer.put(Item("3", None if pending else ENTRY, work))
            await asyncio.sleep(0)
            gate.set()
            await journal.reaches(2)
            assert journal.steps == [(0, "1"), (1, "3")]
        finally:
            running.cancel()

    asyncio.run(scenario())


def test_a_cursor_alone_is_written_in_time() -> None:
    """Where nothing else comes, the pause ends by itself."""

    async def scenario() -> None:
        buffer = ShardBuffer()
        await buffer.put(Item("1"))
        await asyncio.wait_for(buffer.rest(0.01), SECONDS)
        batch = await buffer.next_batch(max_items=9, max_bytes=9)
        assert (batch.entries, batch.resource_version) == ([], "1")

    asyncio.run(scenario())
