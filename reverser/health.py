"""Health and metrics: views for the web process, a small server for every other one."""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from django.http import HttpRequest, HttpResponse

from reverser.metrics import CONTENT_TYPE, exposition
from reverser.quantities import Address
from reverser.readiness import PROCESS

logger = logging.getLogger(__name__)


def healthz(_request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is asked."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(_request: HttpRequest) -> HttpResponse:
    """200, or 500 with the first failing check."""
    failure = PROCESS.failure()
    return HttpResponse(f"{failure or 'ok'}\n", content_type="text/plain", status=500 if failure else 200)


def metrics(_request: HttpRequest) -> HttpResponse:
    """Prometheus text."""
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        """Answer the three paths."""
        if self.path == "/healthz":
            self._answer(200, b"ok\n", "text/plain")
        elif self.path == "/readyz":
            failure = PROCESS.failure()
            self._answer(500 if failure else 200, f"{failure or 'ok'}\n".encode(), "text/plain")
        elif self.path == "/metrics":
            self._answer(200, exposition(), CONTENT_TYPE)
        else:
            self._answer(404, b"not found\n", "text/plain")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("health request", extra={"request": format % args})


def start_health_server(address: Address, *, announce: Path | None = None) -> ThreadingHTTPServer:
    """Serve health and metrics in the background.

    ``announce`` is a file that receives the bound ``host:port`` (for port 0). Raises OSError where the
    address cannot be bound.
    """
    server = ThreadingHTTPServer((address.host, address.port), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    if announce is not None:
        announce.parent.mkdir(parents=True, exist_ok=True)
        temporary = announce.with_suffix(".new")
        temporary.write_text(f"{server.server_address[0]!s}:{server.server_address[1]}", encoding="ascii")
        temporary.replace(announce)
    return server


def announce_path(state_dir: Path, process: str) -> Path:
    """Where a process of this name announces its health address."""
    return state_dir / "run" / f"{process}.health"
