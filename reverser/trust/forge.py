"""One call to a forge's API over https, bounded as a whole.

The address comes from a Secret, so its author chooses the server: it may answer a byte at a time, forever,
and each single read would stay within its time-out. So a timer ends the connection. Whatever the server
answers is handled, and no redirect is followed: it would carry the login elsewhere.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from functools import partial
from typing import Any, Self

from reverser.errors import RemoteUnavailable
from reverser.trust.redirects import NoRedirect
from reverser.trust.tls import client_context

_TIMEOUT = 20.0
_LARGEST = 1 << 16
_LIMITED_WAIT, _LONGEST_WAIT = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an API. ``retry_after`` is the wait in seconds that it asked for, if any."""

    status: int
    body: bytes = b""
    retry_after: float | None = None


Call = Callable[[str, str, str, bytes], Answer]
"""Sends a method to a URL with a bearer token, trusting a CA (PEM, empty = the system's)."""


class _Bell:
    """Ends the connections registered with it when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.rang = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()

    def watch(self, sock: socket.socket) -> None:
        self._sockets.append(sock)
        if self.rang:
            self._ring()

    def _ring(self) -> None:
        self.rang = True
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class _Connection(http.client.HTTPSConnection):
    def __init__(self, *args: Any, bell: _Bell, **options: Any) -> None:
        super().__init__(*args, **options)
        self._bell = bell

    def connect(self) -> None:
        super().connect()
        self._bell.watch(self.sock)


class _Handler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext, open_connection: Callable[..., _Connection]) -> None:
        super().__init__(context=context)
        self._tls, self._open = context, open_connection

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._open, req, context=self._tls)


def call(method: str, url: str, jwt: str, ca: bytes, *, seconds: float = _TIMEOUT) -> Answer:
    """See `Call`. Raises RemoteUnavailable where there is no whole answer within ``seconds``."""
    context = client_context(ca=ca)
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked to be https
        url,
        method=method,
        headers={"Authorization": f"Bearer {jwt}", "Accept": "application/vnd.github+json"},
    )
    silent = RemoteUnavailable("the GitHub API does not answer; no App token could be obtained")
    with _Bell(seconds) as bell:
        opener = urllib.request.build_opener(NoRedirect(), _Handler(context, partial(_Connection, bell=bell)))
        try:
            with opener.open(request, timeout=seconds) as answer:
                found = Answer(answer.status, answer.read(_LARGEST))
        except urllib.error.HTTPError as error:
            with error:
                found = Answer(error.code, retry_after=asked_wait(error.headers))
        except (OSError, http.client.HTTPException, ValueError):
            raise silent from None
        if bell.rang:  # an ended connection reads like an answer without the rest
            raise silent
        return found


def asked_wait(headers: Message) -> float | None:
    """Seconds to wait. GitHub limits with 403 or 429 and says until when in one of two headers."""
    after, left = headers.get("Retry-After", ""), headers.get("X-RateLimit-Remaining", "")
    if after.strip().isdigit():
        return min(float(after), _LONGEST_WAIT)
    if left.strip() != "0":
        return None
    reset = headers.get("X-RateLimit-Reset", "").strip()
    wait = float(reset) - time.time() if reset.isdigit() else _LIMITED_WAIT
    return min(max(wait, 1.0), _LONGEST_WAIT)
