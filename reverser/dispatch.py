"""Worker steps: due branches become tasks, and a worker that stopped consuming ends itself.

Every worker runs a dispatcher. It consumes the queue ``branch.<id>`` of every known branch, claims the
branches that are due in the store and publishes ``write_branch`` for them: as soon as the store hints that
one is due, and ten times a second whatever it hints.
Messages go through the default exchange: a declared exchange loses its bindings, silently, when Redis
is flushed. A message is only a hint, so it is published with an expiry and only to an empty queue.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from celery import bootsteps
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError

from reverser.backlog import Backlogs
from reverser.consumption import CONSUMPTION
from reverser.errors import TransientError
from reverser.store import Hints
from reverser.store.model import Backlog, BranchKey
from reverser.tasks import prove_consumption

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
REFRESH_SECONDS = 1.0
CLAIM_MS = 2_000
"""How far a claim moves a branch's due time: a lost message is sent again after this. Woken again within five
seconds is the promise, and the rest of them is for a busy machine."""
HINT_EXPIRES_SECONDS = 30
HEARTBEAT_SECONDS = 10.0
SILENCE_LIMIT_SECONDS = 60.0
CLAIM_LIMIT = 64
REPORT_SECONDS = 5.0
REPORT_TTL_SECONDS = 20
REPORT_KIND = "worker"


class DueStore(Protocol):
    """The part of the store that the dispatcher uses."""

    def known_branches(self) -> list[BranchKey]: ...

    def read_backlogs(self, branches: Sequence[BranchKey]) -> dict[BranchKey, Backlog]: ...

    def claim_due(self, limit: int, lease_ms: int) -> list[BranchKey]: ...

    def subscribe(self, *topics: str) -> Hints: ...

    def heartbeat(self, kind: str, id: str, info: Mapping[str, object], ttl_s: int) -> None: ...


def worker_name() -> str:
    """The name of this worker in the leases of branches, so that what it writes is shown beside it."""
    return f"{socket.gethostname()}/{os.getpid()}"


def report(edge: DueStore, *, threads: int) -> None:
    """Report for a few seconds that this worker is alive and takes branches. Raises StoreUnavailable."""
    edge.heartbeat(REPORT_KIND, worker_name(), {"threads": threads, "pid": os.getpid()}, REPORT_TTL_SECONDS)


def queue_name(branch: BranchKey) -> str:
    """The Celery queue of a branch."""
    return f"branch.{branch.id}"


def default_exchange_queue(name: str) -> Queue:
    """A durable queue reached through the default exchange."""
    return Queue(name, exchange=Exchange(""), routing_key=name, durable=True)


def is_empty(connection: Connection, name: str) -> bool:
    """Whether a queue holds no message; a queue that does not exist is empty."""
    channel: Any = connection.default_channel
    return int(channel._size(name)) == 0


class _Loop(bootsteps.StartStopStep):
    """A thread that runs while the consumer runs; a new consumer after a lost connection starts a new one."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    label = ""

    def __init__(self, consumer: Any, **_options: Any) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, consumer: Any) -> None:
        """Start the thread."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._guarded, args=(consumer, self._stop), name=self.label, daemon=True
        )
        self._thread.start()

    def stop(self, consumer: Any) -> None:
        """End the thread and wait for it briefly."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def terminate(self, consumer: Any) -> None:
        """As ``stop``."""
        self.stop(consumer)

    def _guarded(self, consumer: Any, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._run(consumer, stop)
            except (TransientError, OperationalError, OSError) as error:
                logger.warning("%s: waiting for the broker", self.label, extra={"error": str(error)})
                stop.wait(1.0)
            except Exception:
                logger.exception("%s: a bug; it starts again", self.label)
                stop.wait(1.0)

    def _run(self, consumer: Any, stop: threading.Event) -> None:
        raise NotImplementedError


class DispatchStep(_Loop):
    """Claims due branches and publishes their tasks (J10)."""

    label = "dispatcher"
    _backlogs = Backlogs()

    def _run(self, consumer: Any, stop: threading.Event) -> None:
        from gitwriter.tasks import write_branch
        from reverser.wiring import store

        app, edge = consumer.app, store()
        consumed: set[str] = set()
        refreshed = reported = -REPORT_SECONDS
        with app.connection_for_write() as connection, edge.subscribe("due") as hints:
            while not stop.is_set():
                if time.monotonic() - refreshed >= REFRESH_SECONDS:
                    self._consume(consumer, edge.known_branches(), consumed)
                    refreshed = time.monotonic()
                if time.monotonic() - reported >= REPORT_SECONDS:
                    report(edge, threads=int(app.conf.worker_concurrency))
                    self._backlogs.show(edge.read_backlogs(edge.known_branches()))
                    reported = time.monotonic()
                for branch in edge.claim_due(CLAIM_LIMIT, CLAIM_MS):
                    self._consume(consumer, [branch], consumed)
                    name = queue_name(branch)
                    if is_empty(connection, name):
                        app.send_task(
                            write_branch.name,
                            args=(branch.namespace, branch.provider, branch.branch),
                            exchange="",
                            routing_key=name,
                            expires=HINT_EXPIRES_SECONDS,
                            connection=connection,
                        )
                self._await_hint(hints)

    @staticmethod
    def _await_hint(hints: Hints) -> None:
        """Wait until something is due, at most a poll interval. Hints that came together count once."""
        if hints.get(POLL_SECONDS) is not None:
            for _ in range(CLAIM_LIMIT):
                if hints.get(0.0) is None:
                    return

    @staticmethod
    def _consume(consumer: Any, branches: list[BranchKey], consumed: set[str]) -> None:
        """Subscribe this worker to queues that it does not consume yet."""
        for branch in branches:
            name = queue_name(branch)
            if name not in consumed:
                consumed.add(name)
                consumer.app.amqp.queues.select_add(default_exchange_queue(name))
                consumer.call_soon(consumer.add_task_queue, name)


class WatchdogStep(_Loop):
    """Proves consumption with a task to this worker's own queue; ends the process where that fails (J11)."""

    label = "watchdog"

    def _run(self, consumer: Any, stop: threading.Event) -> None:
        from celery.worker import state

        name = f"heartbeat.{consumer.hostname}"
        consumer.app.amqp.queues.select_add(default_exchange_queue(name))
        consumer.call_soon(consumer.add_task_queue, name)
        CONSUMPTION.note()
        with consumer.app.connection_for_write() as connection:
            while not stop.wait(HEARTBEAT_SECONDS):
                if len(state.active_requests) >= consumer.app.conf.worker_concurrency:
                    CONSUMPTION.note()
                if is_empty(connection, name):
                    consumer.app.send_task(
                        prove_consumption.name,
                        exchange="",
                        routing_key=name,
                        expires=HEARTBEAT_SECONDS * 3,
                        connection=connection,
                    )
                if CONSUMPTION.silence() > SILENCE_LIMIT_SECONDS:
                    logger.critical(
                        "this worker no longer consumes its queues; ending it so that it is started again"
                    )
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
