"""Two web processes take one audit stream: what the one heard, a resolver that listens through Redis uses,
and what both heard of one version is a conflict, whoever heard it first."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from reverser.store import AsyncStore
from tests.auditevents import audit, deletion, event_list, seen
from watchers.authors import FactResolver
from watchers.hooks import EventFacts

GRACE = 60.0
"""Far longer than anything here takes: whoever waits it out was not woken."""
SERVE = """
import sys, threading
from reverser.config import load_config
from webhooks.setup import audit_listener
config = load_config({
    "REVERSER_REDIS_URL": sys.argv[1],
    "REVERSER_AUTHOR_ATTRIBUTION": "true",
    "REVERSER_AUDIT_INSECURE": "true",
    "REVERSER_AUDIT_ADDR": "127.0.0.1:0",
})
listener = audit_listener(config, sys.argv[1], lambda: None)
listener.start()
print(listener.port, flush=True)
threading.Event().wait()
"""


@dataclass(frozen=True, slots=True)
class Web:
    """A process with an audit listener."""

    process: subprocess.Popen[str]
    port: int

    def post(self, *events: dict[str, Any], packed: bool = False) -> int:
        body = orjson.dumps(event_list(*events))
        headers = {"Content-Encoding": "gzip"} if packed else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/audit-webhook", gzip.compress(body) if packed else body, headers)
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def webs(redis_url: str) -> Iterator[tuple[Web, Web]]:
    processes = [
        subprocess.Popen([sys.executable, "-c", SERVE, redis_url], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        ports = [int(process.stdout.readline()) for process in processes if process.stdout is not None]
        yield Web(processes[0], ports[0]), Web(processes[1], ports[1])
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.fixture
async def resolver(async_store: AsyncStore) -> AsyncIterator[FactResolver]:
    made = FactResolver(async_store)
    yield made
    await made.close()


async def waits(resolver: FactResolver, event: EventFacts) -> str:
    deadline = asyncio.get_running_loop().time() + GRACE
    found = await resolver.resolve(replace(event, deadline=deadline))
    return found.author.username if found is not None else ""


async def test_halves_of_one_stream(webs: tuple[Web, Web], resolver: FactResolver) -> None:
    """G: facts of a stream that two processes share wake those who wait, whichever process got them; a batch
    that is sent again to the other one, after the first was killed, changes nothing."""
    left, right = webs
    numbers = [str(100 + number) for number in range(40)]
    waiting = {rv: asyncio.create_task(waits(resolver, seen(rv=rv))) for rv in numbers}
    gone = asyncio.create_task(waits(resolver, seen(removal=True, uid="u7", rv="900")))
    events = [audit("update", f"user-{rv}", rv=rv, request_rv="1") for rv in numbers]
    assert await asyncio.to_thread(left.post, *events[:20:2]) == 200
    assert await asyncio.to_thread(right.post, *events[1:20:2], packed=True) == 200
    assert await asyncio.to_thread(left.post, deletion("bob", uid="u7")) == 200
    left.process.kill()
    left.process.wait()
    with pytest.raises(OSError):
        left.post(*events[20:])
    assert await asyncio.to_thread(right.post, *events) == 200
    async with asyncio.timeout(GRACE / 2):
        assert [await waiting[rv] for rv in numbers] == [f"user-{rv}" for rv in numbers]
        assert await gone == "bob"


async def test_a_conflict_across_processes(
    webs: tuple[Web, Web], resolver: FactResolver, async_store: AsyncStore
) -> None:
    """F4, T3: two authors on one version name nobody, also where each process heard of one of them."""
    left, right = webs
    assert left.post(audit("patch", "alice", rv="101"), audit("patch", "alice", rv="102")) == 200
    assert right.post(audit("patch", "dave", rv="101"), deletion("erin")) == 200
    assert await waits(resolver, seen(rv="101")) == ""
    assert await waits(resolver, seen(rv="102")) == "alice"
    assert await waits(resolver, seen(removal=True, rv="500")) == "erin"
