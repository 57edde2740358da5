"""Calls to remotes that may not answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from reverser.controllers.remotecalls import RemoteCalls
from reverser.errors import RemoteUnavailable

SILENT = """
import asyncio, threading
from reverser.controllers.remotecalls import RemoteCalls

async def main():
    task = asyncio.create_task(RemoteCalls(1).run(threading.Event().wait))
    await asyncio.sleep(0.05)
    task.cancel()

asyncio.run(main())
"""


async def test_results_and_errors_come_back() -> None:
    """What the function returns or raises reaches the caller."""
    calls = RemoteCalls(2)
    assert await calls.run(lambda: 7) == 7

    def fail() -> None:
        raise RemoteUnavailable("away")

    with pytest.raises(RemoteUnavailable, match="away"):
        await calls.run(fail)


async def test_a_silent_remote_keeps_only_its_slot() -> None:
    """F15: others go on, no more than the limit at a time."""
    calls, release = RemoteCalls(2), threading.Event()
    silent = asyncio.create_task(calls.run(lambda: release.wait(30)))
    assert await asyncio.wait_for(calls.run(lambda: "other"), 10) == "other"
    release.set()
    assert await silent


def test_the_process_ends_beside_a_silent_remote() -> None:
    """F15: a call that never returns does not hold up the end."""
    done = subprocess.run([sys.executable, "-c", SILENT], timeout=240, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
