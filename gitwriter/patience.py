"""Waiting for the API server, but no longer than a shutdown allows.

A call has its own deadline, but that may be far off when the process is asked to stop, and it bounds neither
a DNS lookup nor an answer that trickles in. So the call runs in a thread of its own, and its caller checks
twice a second whether to give up. An abandoned call ends with the process: it only reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from reverser.errors import KubeUnavailable

T = TypeVar("T")

LOOK_UP_SECONDS = 0.5


def patiently(ask: Callable[[], T], given_up: Callable[[], bool]) -> T:
    """The result of ``ask``. Raises what it raises, and KubeUnavailable once ``given_up()`` is true."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            answer.set_exception(error)

    if given_up():
        raise _given_up()
    threading.Thread(target=run, name="API server", daemon=True).start()
    while not wait([answer], LOOK_UP_SECONDS).done:
        if given_up():
            raise _given_up()
    return answer.result()


def _given_up() -> KubeUnavailable:
    return KubeUnavailable(
        "the API server did not answer before the shutdown; the journal keeps the work for the next process"
    )
