"""Blocking calls to remotes from the controllers' event loop.

A remote that accepts a connection and never answers costs its deadline. Meanwhile other passes go on, and
so does the end of the process: a thread of an executor would be waited for at exit, one of these is not. The
git that it runs dies with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class RemoteCalls:
    """Runs functions on threads of their own, a bounded number at a time."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result; raises what it raises."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[T] = loop.create_future()

            def settle(result: T | None, error: BaseException | None) -> None:
                if answer.done():
                    return
                if error is not None:
                    answer.set_exception(error)
                else:
                    answer.set_result(result)  # type: ignore[arg-type]

            def work() -> None:
                result, failure = None, None
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                    failure = error
                with contextlib.suppress(RuntimeError):  # the loop has ended; nobody waits any more
                    loop.call_soon_threadsafe(settle, result, failure)

            threading.Thread(target=work, name="remote", daemon=True).start()
            return await answer
