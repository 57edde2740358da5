"""Stream records reach the store, whatever one of them meets on its way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reverser.errors import StoreUnavailable
from reverser.store.model import Scope, StreamRecord
from watchers.board import StreamBoard
from watchers.tasks import end

from .conftest import eventually

SCOPES = [Scope("t", resource) for resource in ("configmaps", "services", "secrets")]


class Odd:
    """A store that does not take the first record, and is away for the second."""

    def __init__(self) -> None:
        self.dropped: set[Scope] = set()
        self.problems: list[Exception] = [StoreUnavailable("away"), RuntimeError("odd")]

    async def write_stream(self, record: StreamRecord) -> None:
        raise AssertionError(record)

    async def drop_stream(self, scope: Scope) -> None:
        if self.problems:
            raise self.problems.pop()
        self.dropped.add(scope)


async def test_a_record_that_cannot_be_written_holds_no_other_up(caplog: pytest.LogCaptureFixture) -> None:
    """What was away is tried again; a bug costs its own record alone, and the log tells."""
    store: Any = Odd()
    board = StreamBoard(store, retry=0.01)
    writing = asyncio.create_task(board.run())
    for scope in SCOPES:
        board.drop(scope)

    async def written() -> bool:
        return len(store.dropped) == len(SCOPES) - 1

    await eventually(written, "the others are written")
    assert [record.levelname for record in caplog.records if "a bug" in record.getMessage()] == ["ERROR"]
    await end([writing])
