"""Buffer and appender alone, against a store that fails on demand: nothing leaves before it is appended, and
no cursor passes what still waits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from reverser.errors import StoreUnavailable
from reverser.store.model import AppendId, AppendStatus, BranchKey, EventEntry, Fence, Limits, Scope
from watchers import appender as module
from watchers.appender import Appender, CursorLost, LeaseLost, Position, ReplayVoid
from watchers.buffer import Item, ShardBuffer

from .test_order import entry


class Journal:
    """Keeps what was appended as the real scripts do: fenced ids, expected cursor, and answers on demand."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.cursor = ""
        self.stored: AppendId | None = None
        self.tries: list[AppendId] = []
        self.answers: list[AppendStatus | str] = []
        """What the next tries get instead: a status, ``lost`` (no call arrives) or ``late`` (no answer)."""
        self.gate = asyncio.Event()
        self.gate.set()

    async def append_events(
        self,
        branch: BranchKey,
        scope: Scope,
        fence: Fence,
        *,
        expected: AppendId | None,
        append_id: AppendId,
        events: Sequence[EventEntry],
        resource_version: str,
        **rest: Any,
    ) -> AppendStatus:
        del branch, scope, fence, rest
        self.tries.append(append_id)
        await self.gate.wait()
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if self.answers else ""
        if isinstance(answer, AppendStatus):
            return answer
        if answer == "lost":
            raise StoreUnavailable("lost")
        status = AppendStatus.OK
        if self.stored == append_id:
            status = AppendStatus.DUPLICATE
        elif self.stored != expected:
            return AppendStatus.CURSOR_MISMATCH
        else:
            self.entries += [event.resource_version for event in events]
            self.cursor, self.stored = resource_version or self.cursor, append_id
        if answer == "late":
            raise StoreUnavailable("late")
        return status

    append_sweep = append_events

    async def touch_cursor(self, scope: Scope) -> None:
        del scope


class Fixture:
    """A buffer and an appender on a journal."""

    def __init__(self, **bounds: int) -> None:
        self.journal, self.buffer = Journal(), ShardBuffer(**bounds)
        self.full: list[bool] = []
        self.position = Position(
            BranchKey("n", "p", "b"),
            Scope("u", "configmaps", "n"),
            lambda: Fence("t", 1),
            "fp",
            Limits(1, 1),
        )
        store: Any = self.journal
        self.appender = Appender(store, self.position, self.buffer, on_full=self.full.append)
        self.task = asyncio.create_task(self.appender.run())

    async def settled(self) -> None:
        async with asyncio.timeout(60):
            await asyncio.wait((self.buffer.barrier(), self.task), return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def event(number: int, size: int = 0) -> Item:
    return Item(str(number), entry(number), size=size)


async def later(number: int, moment: asyncio.Event) -> EventEntry:
    await moment.wait()
    return entry(number)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_FIRST", 0.001)
    monkeypatch.setattr(module, "RETRY_MAX", 0.002)
    monkeypatch.setattr(module, "CURSOR_PAUSE", 0.001)


async def test_nothing_leaves_before_it_is_appended() -> None:
    """J3: a barrier holds while the append is on its way, so no replay is opened before it has arrived."""
    made = Fixture()
    made.journal.gate.clear()
    await made.buffer.put(event(1))
    async with asyncio.timeout(60):
        while not made.journal.tries:
            await asyncio.sleep(0)
    barrier = made.buffer.barrier()
    await asyncio.sleep(0)
    assert len(made.buffer) == 1
    assert not barrier.done()
    made.journal.gate.set()
    await made.settled()
    assert made.journal.entries == ["1"]
    await made.end()


@pytest.mark.parametrize("fate", ["lost", "late"])
async def test_a_try_that_failed_is_the_same_append_again(fate: str) -> None:
    """J2: retries share one id, so that an append whose answer was lost is no second one, and the shard goes
    on without starting anew.
    """
    made = Fixture()
    made.journal.answers = [fate, fate]
    await made.buffer.put(event(1))
    await made.settled()
    await made.buffer.put(event(2))
    await made.settled()
    first, second = dict.fromkeys(made.journal.tries)
    assert made.journal.tries == [first, first, first, second]
    assert (made.journal.entries, made.journal.cursor) == (["1", "2"], "2")
    assert made.position.expected == made.journal.stored == second
    await made.end()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (AppendStatus.FENCED, LeaseLost),
        (AppendStatus.CURSOR_MISMATCH, CursorLost),
        (AppendStatus.EPOCH_MISMATCH, CursorLost),
        (AppendStatus.TERMINAL, CursorLost),
        (AppendStatus.STAGING_MISMATCH, ReplayVoid),
    ],
)
async def test_an_answer_that_says_no_ends_it(status: AppendStatus, error: type[Exception]) -> None:
    """J2, J5: whatever was not appended stays in the buffer, and the cursor is not taken for moved."""
    made = Fixture()
    made.journal.answers = [status]
    await made.buffer.put(event(1))
    with pytest.raises(error):
        await made.task
    assert len(made.buffer) == 1
    assert made.position.expected is None


async def test_a_full_journal_is_waited_for() -> None:
    """J8: the same append again and again, nothing beside it, and both edges are told once."""
    made = Fixture()
    made.journal.answers = [AppendStatus.FULL] * 5
    for number in (1, 2, 3):
        await made.buffer.put(event(number))
    await made.settled()
    assert made.journal.entries == ["1", "2", "3"]
    assert len(set(made.journal.tries[:6])) == 1
    assert made.full == [True, False]
    await made.end()


async def test_a_batch_moves_the_cursor_to_its_own_end() -> None:
    """The cursor after a batch is that of its last step, whatever waits behind it: by number, by size, and
    where an author is still waited for.
    """
    buffer, moment = ShardBuffer(), asyncio.Event()
    for number in (1, 2, 3):
        await buffer.put(event(number, size=10))
    await buffer.put(Item("4", work=asyncio.create_task(later(4, moment)), size=10))
    await buffer.put(Item("5"))
    await buffer.put(event(6, size=10))
    seen: list[tuple[str, int, int]] = []
    for most, size in ((2, 1000), (9, 5), (9, 1000)):
        if len(seen) == 2:
            waiting = asyncio.create_task(buffer.next_batch(max_items=most, max_bytes=size))
            await asyncio.sleep(0.01)
            assert not waiting.done(), "nothing overtakes an event that waits"
            moment.set()
            batch = await waiting
        else:
            batch = await buffer.next_batch(max_items=most, max_bytes=size)
        buffer.remove(batch)
        seen.append((batch.resource_version, len(batch.entries), batch.count))
    assert seen == [("2", 2, 2), ("3", 1, 1), ("6", 2, 3)]


async def test_cursor_steps_become_one_but_never_pass_an_entry() -> None:
    """Bookmarks in a row cost one step; one that comes behind an entry, or behind a step that is being
    appended, stays behind it.
    """
    buffer = ShardBuffer()
    for item in (Item("1"), Item("2"), event(3), Item("4"), Item("")):
        await buffer.put(item)
    assert len(buffer) == 3
    batch = await buffer.next_batch(max_items=1, max_bytes=10)
    assert (batch.resource_version, batch.count) == ("2", 1)
    buffer.remove(batch)
    batch = await buffer.next_batch(max_items=9, max_bytes=10**6)
    assert (batch.resource_version, batch.count) == ("4", 2)
    await buffer.put(Item("5"))
    buffer.remove(batch)
    assert (await buffer.next_batch(max_items=9, max_bytes=10)).resource_version == "5"


@pytest.mark.parametrize("bounds", [{"max_items": 3}, {"max_bytes": 30}])
async def test_a_full_buffer_stops_its_reader(bounds: dict[str, int]) -> None:
    """Back-pressure: the watch is not read further than the buffer holds."""
    buffer = ShardBuffer(**bounds)
    for number in (1, 2, 3):
        await buffer.put(event(number, size=10))
    reader = asyncio.create_task(buffer.put(event(4, size=10)))
    await asyncio.sleep(0.01)
    assert not reader.done()
    buffer.remove(await buffer.next_batch(max_items=1, max_bytes=10))
    async with asyncio.timeout(60):
        await reader


async def test_what_is_thrown_away_is_gone() -> None:
    """A discarded buffer appends nothing, ends its running work and lets everybody pass who waited."""
    buffer = ShardBuffer()
    work = asyncio.create_task(later(1, asyncio.Event()))
    await buffer.put(Item("1", work=work, size=10))
    await buffer.put(event(2, size=10))
    barrier = buffer.barrier()
    buffer.discard()
    await asyncio.wait_for(barrier, 20)
    assert len(buffer) == 0
    with suppress(asyncio.CancelledError):
        await work
    assert work.cancelled()


FATES: list[AppendStatus | str] = ["", "", "", "lost", "late", AppendStatus.FULL]


@pytest.mark.parametrize("seed", range(25))
async def test_any_run_is_in_order_and_never_ahead(seed: int) -> None:
    """J2, J3: steps, authors that take their time, lost calls, lost answers, a full journal: the journal has
    all entries in order, and at every moment nothing that the cursor has passed is missing.
    """
    chance = random.Random(seed)
    made = Fixture(max_items=chance.randint(2, 20))
    made.journal.answers = [chance.choice(FATES) for _ in range(60)]
    expected: list[int] = []
    watch: Callable[[], bool] = lambda: all(  # noqa: E731
        str(number) in made.journal.entries for number in expected if number <= int(made.journal.cursor or 0)
    )
    for number in range(1, 80):
        kind = chance.choice(["plain", "entry", "work"])
        if kind != "plain":
            expected.append(number)
        if kind == "work":
            moment = asyncio.Event()
            asyncio.get_running_loop().call_later(chance.choice([0, 0, 0.002]), moment.set)
            await made.buffer.put(Item(str(number), work=asyncio.create_task(later(number, moment)), size=5))
        else:
            await made.buffer.put(Item(str(number)) if kind == "plain" else event(number, size=5))
        if chance.random() < 0.2:
            await asyncio.sleep(0)
        assert watch(), made.journal.cursor
    await made.settled()
    assert not made.task.done()
    assert made.journal.entries == [str(number) for number in expected]
    assert made.journal.cursor == "79"
    await made.end()
