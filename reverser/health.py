"""Health, metrics and build information: in front of the web process's application, and on a small server of
every other process.

These addresses are answered before Django sees the request: a probe or a scrape addresses a pod by its IP,
which no list of allowed hosts can contain, and must be answered while the application is busy.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from reverser.buildinfo import build_info
from reverser.metrics import CONTENT_TYPE, exposition
from reverser.quantities import Address
from reverser.readiness import PROCESS

logger = logging.getLogger(__name__)

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def healthz() -> Answer:
    """The process answers; nothing else is asked."""
    return Answer(HTTPStatus.OK, b"ok\n")


def readyz() -> Answer:
    """200, or 500 with the first failing check and its reason."""
    failure = PROCESS.failure()
    status = HTTPStatus.INTERNAL_SERVER_ERROR if failure else HTTPStatus.OK
    return Answer(status, f"{failure or 'ok'}\n".encode())


def metrics() -> Answer:
    """Prometheus text."""
    return Answer(HTTPStatus.OK, exposition(), CONTENT_TYPE)


def about() -> Answer:
    """Version and commit as JSON."""
    return Answer(HTTPStatus.OK, json.dumps(build_info().public()).encode(), "application/json")


PATHS: dict[str, Callable[[], Answer]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": metrics,
    "/build-info": about,
}


_plain_metrics_closed = threading.Event()


def close_plain_metrics() -> None:
    """From now on the plain addresses of this process refuse /metrics: it is served over TLS."""
    _plain_metrics_closed.set()


def answer(method: str, path: str, *, plain: bool = True) -> Answer | None:
    """The answer to a request (``path`` without query), or None where the path is none of these. ``plain``
    is false behind TLS.
    """
    found = PATHS.get(path)
    if found is None:
        return None
    if method not in {"GET", "HEAD"}:
        return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"Method not allowed\n")
    if plain and path == "/metrics" and _plain_metrics_closed.is_set():
        return Answer(HTTPStatus.FORBIDDEN, b"metrics are served over TLS, on REVERSER_METRICS_ADDR\n")
    return found()


def headers(found: Answer) -> list[tuple[str, str]]:
    """The headers of an answer."""
    made = [("Content-Type", found.content_type), ("Content-Length", str(len(found.body)))]
    if found.status is HTTPStatus.METHOD_NOT_ALLOWED:
        made.append(("Allow", "GET, HEAD"))
    return made


def health_first(application: WsgiApplication) -> WsgiApplication:
    """``application`` with these paths answered before it."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        found = answer(method, environ.get("PATH_INFO", ""))
        if found is None:
            return application(environ, start_response)
        start_response(f"{found.status.value} {found.status.phrase}", headers(found))
        return [b"" if method == "HEAD" else found.body]

    return serve


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        """Answer one of the paths."""
        found = answer(self.command, self.path.partition("?")[0]) or Answer(
            HTTPStatus.NOT_FOUND, b"not found\n"
        )
        self.send_response(found.status)
        for name, value in headers(found):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found.body)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("health request", extra={"request": format % args})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address) -> None:
        self.address_family = address.family
        super().__init__((address.bound_host, address.port), _Handler)

    def server_bind(self) -> None:
        """Without a look-up of the host's name, which may take long."""
        if self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)


def start_health_server(address: Address, *, announced_at: Path | None = None) -> ThreadingHTTPServer:
    """Serve health and metrics in the background.

    ``announced_at`` is a file that receives the bound ``host:port`` (for port 0). Raises OSError where the
    address cannot be bound.
    """
    server = _Server(address)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    if announced_at is not None:
        announce(announced_at, Address(str(server.server_address[0]), server.server_address[1]))
    return server


def announce(path: Path, address: Address) -> None:
    """Tell the supervisor which address was bound, in a file that is never half written. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(str(address), encoding="ascii")
    temporary.replace(path)


def announce_path(state_dir: Path, process: str) -> Path:
    """Where a process of this name announces the address that answers for its health."""
    return state_dir / "run" / f"{process}.health"
