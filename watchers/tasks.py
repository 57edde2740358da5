"""Ending tasks for certain.

A cancellation can be lost: a client library that meets it at the same moment as its own time-out may
answer the time-out, and the task goes on. Whoever waits for a task to end therefore asks again until it
has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

ASK_AGAIN = 0.5


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks and returns once all of them have ended, however they ended; nobody else needs to ask."""
    asked = set(tasks)
    pending = {task for task in asked if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=ASK_AGAIN)
    for task in asked:
        if not task.cancelled():
            task.exception()
