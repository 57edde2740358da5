"""What a worker and beat need around their tasks: edges, health, shutdown."""

from __future__ import annotations

import logging
import os

from reverser.errors import SettingsInvalid
from reverser.health import announce_path, start_health_server
from reverser.readiness import PROCESS, latched
from reverser.wiring import config

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0


def _open_health(process: str) -> None:
    settings = config()
    try:
        start_health_server(
            settings.health_addr,
            announce=announce_path(settings.state_dir, process) if settings.health_addr.port == 0 else None,
        )
    except OSError as error:
        logger.critical("REVERSER_HEALTH_ADDR: cannot listen on %s: %s", settings.health_addr, error.strerror)
        os._exit(2)


def prepare() -> None:
    """Give the writer its store, cluster and clones; then say how this worker does."""
    from gitwriter import tasks
    from gitwriter.runtime import WriterRuntime
    from reverser.webprocess import redis_check
    from reverser.wiring import kube, store

    settings = config()
    try:
        runtime = WriterRuntime(store=store(), kube=kube(), config=settings)
    except SettingsInvalid as error:
        for problem in error.problems:
            logger.critical(problem)
        os._exit(2)
    tasks.configure(runtime)
    PROCESS.add("redis", latched(redis_check))
    _open_health("worker")


def begin_shutdown() -> None:
    """Ask running writers to close their windows and end."""
    from gitwriter import tasks

    tasks.begin_shutdown()


def drain() -> None:
    """The pool has ended: close what is still open here and push once more."""
    from gitwriter import tasks

    tasks.drain(seconds=DRAIN_SECONDS)


def prepare_beat() -> None:
    """Register the periodic tasks and open the health server."""
    from reverser.schedule import ensure_schedule
    from reverser.webprocess import redis_check

    ensure_schedule()
    PROCESS.add("redis", latched(redis_check))
    _open_health("beat")
