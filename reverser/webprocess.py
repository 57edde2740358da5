"""The web process: the admin, REST, health and metrics on one address, the audit and admission ingress on
addresses of their own; each a cheroot server in this one process.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType

from reverser.config import Config
from reverser.errors import SettingsInvalid
from reverser.gates import database_gate, redis_gate
from reverser.health import announce, announce_path
from reverser.heap import settle_heap
from reverser.quantities import Address
from reverser.readiness import PROCESS
from reverser.store import Store
from reverser.telemetry import open_metrics
from reverser.webserver import WebServer
from reverser.wiring import config, redis_url
from webhooks.listener import Listener
from webhooks.setup import IndexGauge, admission_listener, audit_listener

logger = logging.getLogger(__name__)

STOP_LOOK_SECONDS = 0.2


def _server(address: Address) -> WebServer:
    from reverser.wsgi import application

    return WebServer(address, application)


def run() -> None:
    """Serve until SIGTERM or Ctrl-C. Raises SettingsInvalid where an address cannot be bound, certificates
    cannot be used, or a listener failed later.
    """
    settings = config()
    stop, failed = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        stop.set()

    ingress = _ingress(settings, fail, stop)
    PROCESS.add("redis", redis_gate())
    PROCESS.add("database", database_gate())
    server = _server(settings.http_addr)
    try:
        server.prepare()
    except OSError as error:
        raise SettingsInvalid(
            [f"REVERSER_HTTP_ADDR: cannot listen on {settings.http_addr}: {error}; choose another"]
        ) from error
    bound = Address(*server.bind_addr[:2])
    if settings.http_addr.port == 0:
        announce(announce_path(settings.state_dir, "web"), bound)

    asked: list[int] = []

    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        # No lock here, so no Event either: a second signal during the first would deadlock.
        asked.append(number)

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    settle_heap()
    endings: list[Callable[[], None]] = []
    try:
        for listener in ingress:
            listener.start()
        endings += open_metrics(settings, "web", on_failure=fail)
        threading.Thread(target=server.serve, name="web", daemon=True).start()
        logger.info("serving", extra={"address": str(bound)})
        while not asked and not stop.wait(STOP_LOOK_SECONDS):
            continue
    finally:
        # Also where one of them could not start: a server's threads outlive whoever forgets to stop it.
        PROCESS.end()
        stop.set()
        for listener in ingress:
            listener.stop()
        server.stop()
        for end in endings:
            end()
    if failed.is_set():
        raise SettingsInvalid(["a listener ended, see the log above"])


def _ingress(settings: Config, fail: Callable[[], None], stop: threading.Event) -> list[Listener]:
    """The listeners beside the main one that the settings ask for, with their readiness checks."""
    found: list[Listener] = []
    audit = audit_listener(settings, redis_url(), fail) if settings.author_attribution else None
    if audit is None:
        logger.info("author attribution is off: every commit is authored by the committer")
    else:
        found.append(audit)
        PROCESS.add("audit", audit.serving_check)
        PROCESS.add("audit certificate", audit.certificate_check)
        gauge = IndexGauge(Store.connect(redis_url()))
        threading.Thread(target=gauge.run, args=(stop,), name="attribution index", daemon=True).start()
    admission = admission_listener(settings, redis_url(), fail) if settings.admission_cert_dir else None
    if admission is not None:
        found.append(admission)
        PROCESS.add("admission", admission.serving_check)
    return found
