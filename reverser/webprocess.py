"""The web process: the admin, REST, health and metrics, each a cheroot server in this one process."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

import redis
from cheroot import wsgi
from django.db import connection
from django.db.utils import DatabaseError

from reverser.errors import SettingsInvalid
from reverser.quantities import Address
from reverser.readiness import PROCESS, latched
from reverser.wiring import config, redis_url

logger = logging.getLogger(__name__)

THREADS = 8
REDIS_TIMEOUT_SECONDS = 2.0


def redis_check() -> str:
    """Why Redis does not answer, or an empty text."""
    client = redis.Redis.from_url(
        redis_url(), socket_timeout=REDIS_TIMEOUT_SECONDS, socket_connect_timeout=REDIS_TIMEOUT_SECONDS
    )
    try:
        client.ping()
    except redis.RedisError as error:
        return f"Redis does not answer: {error}"
    finally:
        client.close()
    return ""


def database_check() -> str:
    """Why the history database cannot be read, or an empty text."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM history_projectorposition LIMIT 1")
            cursor.fetchall()
    except DatabaseError:
        return "the history database cannot be read; check REVERSER_DATABASE_URL and run manage.py migrate"
    finally:
        connection.close()
    return ""


def _server(address: Address) -> wsgi.Server:
    from reverser.wsgi import application

    return wsgi.Server(
        (address.host, address.port),
        application,
        numthreads=THREADS,
        server_name="gitops-reverser",
        request_queue_size=64,
        timeout=30,
        shutdown_timeout=5,
    )


def run() -> None:
    """Serve until SIGTERM or Ctrl-C. Raises SettingsInvalid where an address cannot be bound."""
    settings = config()
    PROCESS.add("redis", latched(redis_check))
    PROCESS.add("database", latched(database_check))
    server = _server(settings.http_addr)
    try:
        server.prepare()
    except OSError as error:
        raise SettingsInvalid(
            [f"REVERSER_HTTP_ADDR: cannot listen on {settings.http_addr}: {error}"]
        ) from error
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    threading.Thread(target=server.serve, name="web", daemon=True).start()
    logger.info("serving", extra={"address": str(settings.http_addr)})
    stop.wait()
    server.stop()
