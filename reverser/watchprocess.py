"""The watcher process: ingestion for the targets leased here, and, in one elected replica, the controllers.

Everything shares one event loop, one API connection pool and one set of caches. History is projected by
the elected replica in a thread of its own: the database must never delay a watch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading

from reverser.config import Config
from reverser.controllers.runtime import ControllerRuntime
from reverser.errors import ReverserError, SettingsInvalid
from reverser.gates import redis_gate
from reverser.health import announce_path, start_health_server
from reverser.heap import settle_heap
from reverser.kube.aio import AsyncKube
from reverser.readiness import PROCESS, gate
from reverser.sparing import Sparing
from reverser.store import AsyncStore
from reverser.telemetry import open_metrics
from reverser.wiring import config, redis_url, store
from watchers.clustersealer import ClusterSealer
from watchers.runtime import WatcherRuntime

logger = logging.getLogger(__name__)

_UNWRITTEN = Sparing(lines=2, seconds=60)

PROJECT_BLOCK_MS = 1_000
PROJECT_RETRY_SECONDS = 5.0
REDIS_RETRY_SECONDS = 1.0


def run() -> None:
    """Watch until SIGTERM or Ctrl-C. Raises SettingsInvalid where the cluster or Redis is not configured."""
    settings = config()
    url = redis_url()
    PROCESS.add("redis", redis_gate())
    # Replaced once there is something to ask: a watcher that has not begun to watch is not ready.
    PROCESS.add("caches", lambda: "nothing is listed yet, see the log")
    try:
        start_health_server(
            settings.health_addr,
            announced_at=announce_path(settings.state_dir, "watcher")
            if settings.health_addr.port == 0
            else None,
        )
    except OSError as error:
        raise SettingsInvalid(
            [
                f"REVERSER_HEALTH_ADDR: cannot listen on {settings.health_addr}: {error.strerror}; "
                "choose another"
            ]
        ) from error
    endings = open_metrics(settings, "watcher")
    try:
        asyncio.run(_watch(settings, url))
    finally:
        for end in endings:
            end()


async def _watch(settings: Config, url: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        PROCESS.end()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    kube = await AsyncKube.connect(os.environ.get("KUBECONFIG") or None)
    edge = AsyncStore.connect(url)
    try:
        await _wait_for_redis(edge, stop)
        if not stop.is_set():
            await _run_all(settings, kube, edge, stop)
    finally:
        await edge.close()
        await kube.close()


async def _wait_for_redis(edge: AsyncStore, stop: asyncio.Event) -> None:
    """Wait for the first answer of Redis, and check its settings; no watch is opened before."""
    told = False
    while not stop.is_set():
        try:
            for warning in await edge.check_server():
                logger.warning(warning)
            return
        except SettingsInvalid:
            raise
        except ReverserError as error:
            if not told:
                logger.warning("waiting for Redis", extra={"detail": str(error)})
                told = True
            try:
                await asyncio.wait_for(stop.wait(), REDIS_RETRY_SECONDS)
            except TimeoutError:
                continue


async def _run_all(settings: Config, kube: AsyncKube, edge: AsyncStore, stop: asyncio.Event) -> None:
    from reverser.attributionwiring import make_resolver

    sealer = ClusterSealer(kube, namespace=settings.command_namespace, key_file=settings.digest_key_file)
    watcher = WatcherRuntime(kube, edge, settings, make_resolver(settings, edge), sealer)
    PROCESS.add("caches", gate(lambda: _waiting_for(watcher)))
    controllers = ControllerRuntime(
        kube,
        edge,
        settings,
        caches=watcher.informers,
        registry=lambda: watcher.registry,
        identity=watcher.ident,
    )
    ended = threading.Event()
    projector = threading.Thread(
        target=_project, args=(controllers, ended), name="history projector", daemon=True
    )
    projector.start()
    settle_heap()
    tasks = [
        asyncio.create_task(watcher.run(stop), name="watcher"),
        asyncio.create_task(controllers.run(stop), name="controllers"),
    ]
    try:
        done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        stop.set()
        ended.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        projector.join(timeout=PROJECT_BLOCK_MS / 1000 + 2)


def _waiting_for(watcher: WatcherRuntime) -> str:
    for name, informer in watcher.informers.items():
        if not informer.synced:
            return f"{name} are not listed yet; is the API server reachable and are the CRDs installed?"
    return "" if watcher.registry.ready else "the API surface is not known yet"


def _project(controllers: ControllerRuntime, ended: threading.Event) -> None:
    """Outcomes and statuses become history rows while this replica leads."""
    from django.db import close_old_connections
    from django.db.utils import DatabaseError

    from reverser.history.projector import project_outcomes

    while not ended.is_set():
        if not controllers.leading:
            ended.wait(1.0)
            continue
        close_old_connections()
        try:
            controllers.projection.flush()
            project_outcomes(store(), block_ms=PROJECT_BLOCK_MS)
        except (DatabaseError, ReverserError) as error:
            if _UNWRITTEN.left(""):
                remedy = "; after an upgrade run manage.py prepare_database"
                detail = f"{error}{remedy if isinstance(error, DatabaseError) else ''}"
                logger.warning(
                    "history rows could not be written, this is repeated", extra={"detail": detail}
                )
            ended.wait(PROJECT_RETRY_SECONDS)
        except Exception:
            if _UNWRITTEN.left("bug"):
                logger.exception("history rows could not be written: a bug; this is repeated")
            ended.wait(PROJECT_RETRY_SECONDS)
