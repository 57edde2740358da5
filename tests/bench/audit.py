"""The audit ingress under a steady stream of batches, and what a burst of events waits for its authors;
``--serve REDIS`` is the process that is measured.
"""

from __future__ import annotations

import asyncio
import http.client
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from reverser.config import load_config
from reverser.store import AsyncStore
from tests.auditevents import audit, event_list, seen
from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report, percentile
from tests.ports import free_port
from tests.valkey import running_valkey
from watchers.authors import FactResolver
from webhooks.evidence import facts_of

BATCH = 100
RATE = 2_000
SECONDS = 15.0
SENDERS = 4
BURST = 1_000
BURSTS = 5
GRACE = 3.0


@dataclass(frozen=True, slots=True)
class Ingress:
    """The process that is measured."""

    pid: int
    port: int


@contextmanager
def _serving(redis_url: str) -> Iterator[Ingress]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.audit", "--serve", redis_url, str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait_open(port)
        yield Ingress(process.pid, port)
    finally:
        process.terminate()
        process.wait(30)


def _wait_open(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=2).connect()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def run(report: Report, folder: Path, options: Options) -> None:
    """Batches of a hundred at a steady rate: what each answer takes, and what it costs."""
    del folder, options
    with (
        running_valkey() as server,
        _serving(f"redis://127.0.0.1:{server.port}/0") as ingress,
    ):
        _stream(ingress, 2.0)
        before = usage(ingress.pid)
        began = time.monotonic()
        taken = _stream(ingress, SECONDS)
        wall = time.monotonic() - began
        after = usage(ingress.pid)
    reached = len(taken) * BATCH / wall
    report.add("audit ingress: events a second", reached, "1/s", bar=RATE * 0.98, at_least=True)
    for share, name, bar in ((0.5, "p50", None), (0.99, "p99", 200.0)):
        report.add(
            f"audit ingress: answer to a batch of {BATCH}, {name}",
            percentile(taken, share) * 1000,
            "ms",
            bar=bar,
        )
    cpu = (after.cpu - before.cpu) / len(taken) / BATCH
    report.add("audit ingress: CPU of one event", cpu * 1e6, "us")
    grown = after.peak_mb - before.peak_mb
    report.add("audit ingress: peak memory", after.peak_mb, "MB", note=f"{grown:+.1f} MB in the run")
    with running_valkey() as server:
        walls, cpus = zip(*asyncio.run(_bursts(f"redis://127.0.0.1:{server.port}/0")), strict=True)
    what = f"authors: {BURST} events at once, facts in order, slowest of {BURSTS} bursts"
    report.add(what, max(walls), "s", bar=1.0)
    report.add("authors: CPU of such a burst, filing the facts included", percentile(cpus, 0.5), "s")


async def _bursts(redis_url: str) -> list[tuple[float, float]]:
    """Wall and CPU seconds of each burst, from its first event until the last one is named."""
    store = AsyncStore.connect(redis_url)
    try:
        return [await _burst(store, number) for number in range(BURSTS)]
    finally:
        await store.close()


async def _burst(store: AsyncStore, burst: int) -> tuple[float, float]:
    """All events are seen before the first fact of them is filed."""
    resolver, loop = FactResolver(store), asyncio.get_running_loop()
    names = [(f"u{burst}-{number}", f"o{number}") for number in range(BURST)]
    changes = [audit("patch", "alice", uid=uid, name=name) for uid, name in names]
    began, cpu = time.monotonic(), time.process_time()
    events = (replace(seen(uid=uid, name=name), deadline=loop.time() + GRACE) for uid, name in names)
    waiting = [asyncio.create_task(resolver.resolve(event)) for event in events]
    await asyncio.sleep(0)
    for first in range(0, BURST, BATCH):
        facts = [fact for change in changes[first : first + BATCH] for fact in facts_of(change)]
        await store.write_facts(facts, 60_000)
    named = await asyncio.gather(*waiting)
    taken = time.monotonic() - began, time.process_time() - cpu
    assert all(found is not None and found.author.username == "alice" for found in named)
    await resolver.close()
    return taken


def _stream(ingress: Ingress, seconds: float) -> list[float]:
    """Seconds from when each batch was due to its answer: a late start counts."""
    every = BATCH / RATE
    began = time.monotonic() + 0.1
    local = threading.local()

    def send(number: int) -> float:
        due = began + number * every
        time.sleep(max(due - time.monotonic(), 0.0))
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", ingress.port, timeout=30)
        local.connection.request("POST", "/audit-webhook", _batch(number))
        answer = local.connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        return time.monotonic() - due

    with ThreadPoolExecutor(SENDERS) as pool:
        return list(pool.map(send, range(int(seconds / every))))


def _batch(number: int) -> bytes:
    events = [
        audit(
            "update",
            f"user-{index % 7}",
            name=f"o{number * BATCH + index}",
            uid=f"u{number}-{index}",
            rv=str(number * BATCH + index),
            note="x" * 800,
        )
        for index in range(BATCH)
    ]
    return orjson.dumps(event_list(*events))


def serve(redis_url: str, port: str) -> None:
    """The audit listener alone, plain HTTP on loopback, until SIGTERM."""
    from webhooks.setup import audit_listener

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    config = load_config(
        {
            "REVERSER_REDIS_URL": redis_url,
            "REVERSER_AUTHOR_ATTRIBUTION": "true",
            "REVERSER_AUDIT_INSECURE": "true",
            "REVERSER_AUDIT_ADDR": f"127.0.0.1:{port}",
        }
    )
    listener = audit_listener(config, redis_url, stop.set)
    assert listener is not None
    listener.start()
    stop.wait()
    listener.stop()


if __name__ == "__main__":
    serve(*sys.argv[2:])
