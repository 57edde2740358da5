"""Limits on the requests of one caller per minute, and on those open at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from reverser.rest.identity import Caller
from reverser.wiring import config

OPEN_IN_ALL = 4
"""Half of web's threads: waiting callers never keep a person from the admin."""
OPEN_OF_ONE = 2
RETRY_SECONDS = 5


class CallerThrottle(SimpleRateThrottle):
    """``REVERSER_REST_RATE`` requests a minute, counted by caller, or by address without one."""

    scope = "caller"

    def get_rate(self) -> str:
        """The setting, as the framework writes it."""
        return f"{config().rest_rate}/min"

    def get_cache_key(self, request: Request, view: Any) -> str:
        """One count per caller."""
        user = getattr(request, "user", None)
        ident = f"user:{user.username}" if isinstance(user, Caller) else f"address:{self.get_ident(request)}"
        return self.cache_format % {"scope": self.scope, "ident": ident}


class OpenRequests:
    """Counts the requests that hold a thread."""

    def __init__(self, in_all: int = OPEN_IN_ALL, of_one: int = OPEN_OF_ONE) -> None:
        self._in_all = in_all
        self._of_one = of_one
        self._lock = threading.Lock()
        self._open: dict[str, int] = {}

    def enter(self, who: str) -> None:
        """Take a place; ``leave`` must follow. Raises Throttled when all are taken."""
        with self._lock:
            if sum(self._open.values()) >= self._in_all or self._open.get(who, 0) >= self._of_one:
                raise Throttled(
                    wait=RETRY_SECONDS, detail="too many requests are waiting here; try again later"
                )
            self._open[who] = self._open.get(who, 0) + 1

    def leave(self, who: str) -> None:
        """Give the place back."""
        with self._lock:
            left = self._open.get(who, 0) - 1
            if left > 0:
                self._open[who] = left
            else:
                self._open.pop(who, None)

    @contextmanager
    def place(self, who: str) -> Iterator[None]:
        """``enter`` and ``leave`` around a block."""
        self.enter(who)
        try:
            yield
        finally:
            self.leave(who)


OPEN = OpenRequests()
