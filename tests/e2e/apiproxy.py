"""A proxy before any API server, real or sandbox, that goes wrong where a test says so.

It speaks plain HTTP to the operator and carries the identity of the given kubeconfig to the server, so it
can answer in the server's place and change single lines of a watch.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from reverser.kube.credentials import KubeConfig

HOP_HEADERS = {
    "connection",
    "transfer-encoding",
    "content-length",
    "host",
    "authorization",
    "accept-encoding",
}
GONE = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}


@dataclass(frozen=True)
class Seen:
    """One request."""

    at: float
    method: str
    target: str


class ApiProxy:
    """Listens on a loopback port until closed; ``kubeconfig`` names it."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.down = False
        self.refused: dict[str, int] = {}
        """Answers by pattern of path and query."""
        self.expire_next = ""
        """A pattern of a watch: its next line becomes an error that its history is gone, once."""
        self.seen: list[Seen] = []
        self._config = KubeConfig.load(str(kubeconfig))
        self._pool = urllib3.PoolManager(
            maxsize=64, num_pools=4, ssl_context=self._config.tls(), server_hostname=self._config.server_name
        )
        self._sockets: set[socket.socket] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                proxy._sockets.add(self.connection)
                try:
                    if not proxy.down:
                        with contextlib.suppress(OSError, urllib3.exceptions.HTTPError):
                            super().handle()
                finally:
                    proxy._sockets.discard(self.connection)

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _any(self) -> None:
                proxy.forward(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.kubeconfig = folder / "proxied-kubeconfig"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": url}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )

    def cut(self) -> None:
        """Close every open connection; with ``down`` set no new one is served."""
        for found in list(self._sockets):
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.down = True
        self.cut()
        self._pool.clear()

    def forward(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request, by the server behind or as the test wants."""
        self.seen.append(Seen(time.monotonic(), handler.command, handler.path))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        for pattern, code in list(self.refused.items()):
            if re.search(pattern, handler.path):
                self._refuse(handler, code)
                return
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in HOP_HEADERS}
        answer = self._pool.request(
            handler.command,
            self._config.host + handler.path,
            body=body or None,
            headers={**headers, **self._config.headers()},
            preload_content=False,
            decode_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=5, read=None),
        )
        try:
            self._answer(handler, answer, watching="watch=" in handler.path)
        finally:
            answer.close()

    def _answer(
        self, handler: BaseHTTPRequestHandler, answer: urllib3.BaseHTTPResponse, *, watching: bool
    ) -> None:
        handler.send_response(answer.status)
        for key, value in answer.headers.items():
            if key.lower() not in HOP_HEADERS:
                handler.send_header(key, value)
        if not watching:
            payload = answer.read()
            handler.send_header("Content-Length", str(len(payload)))
            handler.end_headers()
            handler.wfile.write(payload)
            return
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in answer:
            if self.down:
                return
            if self.expire_next and re.search(self.expire_next, handler.path):
                self.expire_next = ""
                self._chunk(handler, json.dumps(GONE).encode() + b"\n")
                break
            self._chunk(handler, line)
        handler.wfile.write(b"0\r\n\r\n")

    def _chunk(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _refuse(self, handler: BaseHTTPRequestHandler, code: int) -> None:
        reason = {403: "Forbidden", 422: "Invalid", 503: "ServiceUnavailable"}.get(code, "InternalError")
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": f"{handler.path.partition('?')[0]} is refused",
        }
        payload = json.dumps(status).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)
