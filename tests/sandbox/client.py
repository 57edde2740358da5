"""A plain HTTP client for the sandbox's tests: no Kubernetes library between the test and the wire."""

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import urllib3

from reverser.sandbox.thread import SandboxServer

Obj = dict[str, Any]
DEADLINE = 60.0
USER_AGENT = "python-urllib3/2.8.0"


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, and fail with its name where it does not come true in time."""
    limit = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < limit, f"not in time: {what}"
        time.sleep(0.01)


class Watch:
    """An open watch whose lines a thread collects."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.events: list[Obj] = []
        self.raw: list[bytes] = []
        self.ended = threading.Event()
        self.broken = False
        self.body: Any = None
        self._response = response
        if self.status != 200:
            self.body = _parsed(response.data)
            self.ended.set()
            return
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        buffer = b""
        try:
            for chunk in self._response.stream(65536):
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    self.raw.append(line)
                    try:
                        self.events.append(json.loads(line))
                    except ValueError:
                        self.events.append({"type": "GARBAGE"})
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            self.broken = True
        if buffer:
            self.raw.append(buffer)
        self.ended.set()

    def types(self) -> list[str]:
        """The event types so far."""
        return [event["type"] for event in self.events]

    def wait(self, count: int) -> list[Obj]:
        """Wait for a number of events; returns them."""
        eventually(lambda: len(self.events) >= count, f"{count} events, have {self.types()}")
        return self.events

    def wait_for(self, condition: Callable[[Obj], bool]) -> Obj:
        """Wait for an event that fits."""
        eventually(lambda: any(condition(e) for e in self.events), f"an event, have {self.types()}")
        return next(e for e in self.events if condition(e))

    def wait_end(self) -> None:
        """Wait until the stream has ended."""
        assert self.ended.wait(DEADLINE), "the stream did not end"

    def close(self) -> None:
        """Hang up."""
        if not self.ended.is_set():
            with contextlib.suppress(RuntimeError):
                self._response.shutdown()


class Client:
    """Requests to one sandbox as one user."""

    def __init__(self, server: SandboxServer, token: str | None = None) -> None:
        self.server = server
        self.token = server.token if token is None else token
        context = (
            ssl.create_default_context(cadata=server.ca_cert.decode()) if server.url[:5] == "https" else None
        )
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, maxsize=50)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and body; JSON bodies come parsed."""
        status, parsed, _ = self.request_full(method, path, body, content_type=content_type, headers=headers)
        return status, parsed

    def request_full(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, Any]:
        """Status, body and headers."""
        sent = {"User-Agent": USER_AGENT, **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        data = None
        if body is not None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            sent["Content-Type"] = content_type
        response = self._pool.request(
            method, self.server.url + path, body=data, headers=sent, timeout=DEADLINE
        )
        return response.status, _parsed(response.data), response.headers

    def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The body of a request that must succeed."""
        status, parsed = self.request(method, path, body, **options)
        assert status < 300, parsed
        return parsed

    def watch(self, path: str, query: str = "", *, headers: dict[str, str] | None = None) -> Watch:
        """Open a watch; returns once its headers are there."""
        sent = {"User-Agent": USER_AGENT, "Authorization": f"Bearer {self.token}", **(headers or {})}
        response = self._pool.request(
            "GET",
            f"{self.server.url}{path}?watch=1&{query}"
            if "watch=" not in query
            else f"{self.server.url}{path}?{query}",
            headers=sent,
            preload_content=False,
            timeout=urllib3.Timeout(connect=DEADLINE, read=60),
        )
        return Watch(response)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()
