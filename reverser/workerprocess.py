"""What a worker and beat need around their tasks: edges, health, shutdown."""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import cache

from django.db import connection

from reverser.errors import SettingsInvalid
from reverser.health import announce_path, start_health_server
from reverser.heap import settle_heap
from reverser.readiness import PROCESS
from reverser.supervision.child import is_orphan
from reverser.telemetry import open_metrics
from reverser.wiring import config

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0
LIMIT_SECONDS = 23.0
"""Seconds after a signal until the process ends itself: what still hangs then (disk, Redis, DNS) must not
wait for SIGKILL."""
ORPHAN_LIMIT_SECONDS = 6.0
"""The same where the supervisor was killed: its next start waits for the state directory meanwhile."""
DATABASE_RETRY_SECONDS = 1.0


def _open_health(process: str) -> None:
    settings = config()
    try:
        start_health_server(
            settings.health_addr,
            announced_at=announce_path(settings.state_dir, process)
            if settings.health_addr.port == 0
            else None,
        )
    except OSError as error:
        logger.critical(
            "REVERSER_HEALTH_ADDR: cannot listen on %s: %s; choose another",
            settings.health_addr,
            error.strerror,
        )
        os._exit(2)
    try:
        open_metrics(settings, process)
    except SettingsInvalid as error:
        for problem in error.problems:
            logger.critical(problem)
        os._exit(2)


def prepare() -> None:
    """Give the writer its store, cluster and clones; then start reporting on this worker."""
    from gitwriter import tasks
    from gitwriter.runtime import WriterRuntime
    from reverser.gates import redis_gate
    from reverser.wiring import kube, store

    settings = config()
    try:
        runtime = WriterRuntime(store=store(), kube=kube(), config=settings)
    except SettingsInvalid as error:
        for problem in error.problems:
            logger.critical(problem)
        os._exit(2)
    tasks.configure(runtime)
    PROCESS.add("redis", redis_gate())
    settle_heap()
    _open_health("worker")


def begin_shutdown() -> None:
    """Ask running writers to close their windows and end."""
    from gitwriter import tasks

    PROCESS.end()
    limit = threading.Timer(ORPHAN_LIMIT_SECONDS if is_orphan() else LIMIT_SECONDS, _end_now)
    limit.daemon = True
    limit.start()
    tasks.begin_shutdown()


def _end_now() -> None:
    """End like a kill, which is safe at any moment: the journal keeps what is not settled, leases run out."""
    logger.error("the shutdown took too long; the journal keeps the rest for the next process")
    logging.shutdown()
    os._exit(1)


def drain() -> None:
    """The pool has ended: close the windows that are still open here and push once more."""
    from gitwriter import tasks

    tasks.drain(seconds=DRAIN_SECONDS)


@cache
def _open_beat() -> None:
    """Beat's checks and health server, once."""
    from reverser.gates import database_gate, redis_gate

    PROCESS.add("database", database_gate())
    PROCESS.add("redis", redis_gate())
    _open_health("beat")


def prepare_beat() -> None:
    """Open the health server, wait for the database, and register the periodic tasks.

    Until the database answers, readiness names it; Redis is waited for by Celery itself.
    """
    from django.db.utils import DatabaseError

    from reverser.schedule import ensure_schedule

    _open_beat()
    told = False
    while True:
        try:
            ensure_schedule()
            return
        except DatabaseError as error:
            if not told:
                logger.warning("waiting for the database", extra={"detail": str(error)})
                told = True
            connection.close()
            time.sleep(DATABASE_RETRY_SECONDS)
