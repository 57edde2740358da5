"""Hints over pub/sub: "something changed, look". Nothing may depend on their arrival.

A lost connection is opened again by the client; what was published meanwhile is lost, which is why every
listener also looks without a hint from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from redis.exceptions import ConnectionError, TimeoutError

from reverser.errors import StoreUnavailable
from reverser.store import keys


@dataclass(frozen=True, slots=True)
class Hint:
    """A topic: ``target:<uid>``, ``wanted:<uid>``, ``request:<uid>``, ``branch:<id>``, ``gate``, ``due``,
    ``outcomes`` or ``authors``.
    """

    topic: str
    payload: str = ""


_LOST = (ConnectionError, TimeoutError, OSError)


def _channels(topics: Sequence[str]) -> tuple[list[str], list[str]]:
    names = [keys.hint(topic) for topic in topics]
    return [name for name in names if "*" not in name], [name for name in names if "*" in name]


def _hint(message: Any) -> Hint | None:
    if message is None or message["type"] not in ("message", "pmessage"):
        return None
    return Hint(message["channel"].decode().removeprefix(keys.HINT_PREFIX), message["data"].decode())


class Hints:
    """A blocking subscription; a topic with ``*`` is a pattern."""

    def __init__(self, client: Any, topics: Sequence[str]) -> None:
        self._pubsub = client.pubsub()
        plain, patterns = _channels(topics)
        try:
            if plain:
                self._pubsub.subscribe(*plain)
            if patterns:
                self._pubsub.psubscribe(*patterns)
        except _LOST as error:
            raise StoreUnavailable("Redis cannot be subscribed to now: check that it runs") from error

    def get(self, timeout_s: float) -> Hint | None:
        """The next hint, or None when none came within ``timeout_s``."""
        try:
            return _hint(self._pubsub.get_message(timeout=timeout_s))
        except _LOST as error:
            raise StoreUnavailable("the subscription to Redis was lost: subscribe again") from error

    def close(self) -> None:
        """Stop listening."""
        self._pubsub.close()

    def __enter__(self) -> Hints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncHints:
    """An asyncio subscription; topics can be added and dropped while it runs."""

    def __init__(self, client: Any, topics: Sequence[str]) -> None:
        self._pubsub = client.pubsub()
        self._topics = tuple(topics)

    async def add(self, *topics: str) -> None:
        """Listen to more."""
        plain, patterns = _channels(topics)
        try:
            if plain:
                await self._pubsub.subscribe(*plain)
            if patterns:
                await self._pubsub.psubscribe(*patterns)
        except _LOST as error:
            raise StoreUnavailable("Redis cannot be subscribed to now: check that it runs") from error

    async def drop(self, *topics: str) -> None:
        """Listen to less."""
        plain, patterns = _channels(topics)
        try:
            if plain:
                await self._pubsub.unsubscribe(*plain)
            if patterns:
                await self._pubsub.punsubscribe(*patterns)
        except _LOST as error:
            raise StoreUnavailable("Redis cannot be reached now: check that it runs") from error

    async def get(self, timeout_s: float) -> Hint | None:
        """The next hint, or None when none came within ``timeout_s``."""
        if not self._pubsub.subscribed:
            await asyncio.sleep(timeout_s)
            return None
        try:
            return _hint(await self._pubsub.get_message(timeout=timeout_s))
        except _LOST as error:
            raise StoreUnavailable("the subscription to Redis was lost: subscribe again") from error

    async def close(self) -> None:
        """Stop listening."""
        await self._pubsub.aclose()

    async def __aenter__(self) -> AsyncHints:
        await self.add(*self._topics)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
