"""The queue: once per key, never twice at a time, never forgotten."""

from __future__ import annotations

import asyncio

from reverser.controllers.workqueue import WorkQueue


async def test_a_key_added_twice_is_worked_on_once() -> None:
    """A key that is added again before its turn is handed out once."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.done("a", None)
    queue.done("b", None)
    assert len(queue) == 0


async def test_a_key_added_during_work_comes_back_afterwards() -> None:
    """No wake-up is lost, and no two workers look at one object."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    other = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0.02)
    assert not other.done()
    queue.done("a", 300.0)
    assert await asyncio.wait_for(other, 60) == "a"


async def test_failures_back_off_until_success() -> None:
    """1 s, 2 s, ... 60 s; the other side's wish is a lower bound; a success starts over."""
    queue: WorkQueue[str] = WorkQueue()
    delays = [queue.failed("a") for _ in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    queue.done("a", None)
    assert queue.failed("a", retry_after=7) == 7


async def test_an_earlier_look_wins() -> None:
    """Of two due times of a key the earlier one counts."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 3600.0)
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a", 0.01)
    assert await asyncio.wait_for(waiting, 60) == "a"
