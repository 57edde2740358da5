"""What every process waits for at its start: Redis, and where it reads tables, the database.

Redis is asked for ever, for the gauge: each process tells whether it reaches Redis itself, so that an outage
of one node's network is seen as well as one of the server.
"""

from __future__ import annotations

import redis
from django.db import connection
from django.db.utils import DatabaseError

from reverser.processmetrics import REDIS_UP
from reverser.readiness import Check, gate
from reverser.store.connections import blocking_client
from reverser.wiring import redis_url

REDIS_TIMEOUT_SECONDS = 2.0
REDIS_LOOK_SECONDS = 5.0


class RedisLook:
    """One connection that is kept, and the gauge of what it found. For one thread."""

    def __init__(self, url: str) -> None:
        self._client = blocking_client(
            url,
            max_connections=1,
            socket_timeout=REDIS_TIMEOUT_SECONDS,
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
        )

    def __call__(self) -> str:
        """Why Redis does not answer, or an empty text."""
        try:
            self._client.ping()
        except redis.RedisError as error:
            self._client.connection_pool.disconnect()
            REDIS_UP.set(0)
            return f"Redis does not answer: {error}"
        REDIS_UP.set(1)
        return ""


def redis_gate() -> Check:
    """Passes once Redis has answered. Raises SettingsInvalid where no address is set."""
    return gate(RedisLook(redis_url()), go_on_seconds=REDIS_LOOK_SECONDS)


def database_gate() -> Check:
    """Passes once the tables of the history can be read."""
    return gate(_database_look)


def _database_look() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM history_projectorposition LIMIT 1")
            cursor.fetchall()
    except DatabaseError:
        return (
            "the history database cannot be read; see REVERSER_DATABASE_URL, run manage.py prepare_database"
        )
    finally:
        connection.close()
    return ""
