"""Ending tasks for certain.

A cancellation can be lost: a client library that receives it together with its own time-out may report the
time-out, and the task goes on. So cancelling is repeated until the task has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

ASK_AGAIN = 0.5


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks and returns once all of them have ended, whatever their result."""
    asked = set(tasks)
    pending = {task for task in asked if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=ASK_AGAIN)
    for task in asked:
        if not task.cancelled():
            task.exception()
