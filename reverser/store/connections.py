"""Connections to Redis for an address: pools whose callers wait, also behind Sentinels.

Each new connection asks the Sentinels, and a connection whose server says that it is a replica now is closed,
so after a fail-over the very next attempt finds the new primary. The driver's own pool for Sentinel fails
instead of waiting when all connections are in use, so its connections are used in our pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff

from reverser.store.address import Sentinels, parse_sentinels
from reverser.trust.tls import TOO_STRICT

if TYPE_CHECKING:
    RedisClient = redis.Redis

# The driver has no types for these.
_Sentinel: Any = redis.sentinel.Sentinel
_AsyncSentinel: Any = redis.asyncio.sentinel.Sentinel


class _Primary:
    """What the driver's Sentinel connections ask their pool."""

    is_master = True
    check_connection = False

    def __init__(self, place: Sentinels, finder: Any) -> None:
        self.service_name = place.primary
        self._finder = finder

    def get_master_address(self) -> Any:
        """Host and port of the primary now, or a coroutine of them. Raises the driver's ConnectionError."""
        return self._finder.discover_master(self.service_name)


def _leniency(url: str) -> dict[str, Any]:
    return {"ssl_exclude_verify_flags": [TOO_STRICT]} if url.startswith("rediss://") else {}


def blocking_pool(url: str, **options: Any) -> redis.BlockingConnectionPool:
    """A pool for ``url`` whose callers wait for a connection. Raises ValueError for an address that cannot be
    read.
    """
    place = parse_sentinels(url)
    if place is None:
        return redis.BlockingConnectionPool.from_url(url, **options, **_leniency(url))
    finder = _Sentinel(place.hosts, sentinel_kwargs=place.sentinel_options)
    return redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]
        connection_class=(
            redis.sentinel.SentinelManagedConnection
            if place.tls is None
            else redis.sentinel.SentinelManagedSSLConnection
        ),
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def awaiting_pool(url: str, **options: Any) -> redis.asyncio.BlockingConnectionPool:
    """As ``blocking_pool``, for asyncio."""
    place = parse_sentinels(url)
    if place is None:
        return redis.asyncio.BlockingConnectionPool.from_url(url, **options, **_leniency(url))
    once = AsyncRetry(NoBackoff(), 0)
    finder = _AsyncSentinel(list(place.hosts), sentinel_kwargs={**place.sentinel_options, "retry": once})
    return redis.asyncio.BlockingConnectionPool(
        connection_class=(
            redis.asyncio.sentinel.SentinelManagedConnection
            if place.tls is None
            else redis.asyncio.sentinel.SentinelManagedSSLConnection
        ),
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def blocking_client(url: str, **options: Any) -> RedisClient:
    """A client of its own for ``url``. Raises ValueError for an address that cannot be read."""
    return redis.Redis.from_pool(blocking_pool(url, **options))
