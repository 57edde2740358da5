"""A cheroot server for callers that may be slow, broken or hostile.

Three defaults of cheroot are changed. A connection takes a thread only once it has sent something. The TLS
handshake runs in such a thread, not in the accepting one, and gives it back wherever the peer must speak
next, so strangers without a certificate hold up nobody. And each request has a deadline for arriving whole
and one for its answer, enforced by a watchdog, because the time-out of a socket restarts with every byte.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cheroot import wsgi
from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HTTPConnection
from cheroot.ssl import Adapter

from reverser.quantities import Address
from reverser.sparing import Sparing
from webhooks.audit import CLIENT_NAMES
from webhooks.http import RECEIVED
from webhooks.tls import Certificates, names_of

log = logging.getLogger(__name__)
_failed_handshakes = Sparing(lines=3, seconds=60)

MAX_HEADERS = 64 * 1024
WATCH_SECONDS = 0.25
Application = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    read: float = 15.0
    write: float = 30.0
    idle: float = 60.0
    drain: float = 10.0
    body: int = 10 * 2**20
    threads: int = 16


class TlsAdapter(Adapter):
    """Wraps a new connection in the certificates of the moment; the handshake comes later."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates

    def bind(self, sock: Any) -> Any:
        """The listening socket stays as it is."""
        return sock

    def wrap(self, sock: Any) -> tuple[Any, dict[str, Any]]:
        """A TLS socket without its handshake."""
        context = self._certificates.context
        if context is None:
            raise ssl.SSLError("no certificate is loaded")
        return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), {}

    def get_environ(self) -> dict[str, Any]:
        """What every TLS request shares."""
        return {"HTTPS": "on"}

    def makefile(self, sock: Any, mode: str = "r", bufsize: int = -1) -> Any:
        """A buffered file on the connection."""
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)


class Connection(HTTPConnection):
    """One connection, watched while it has the attention of a thread."""

    greeted = False
    _greet_until = math.inf

    def communicate(self) -> bool:
        """Shakes hands once, then serves one request. False: the connection ends."""
        tls = self.socket if isinstance(self.socket, ssl.SSLSocket) else None
        if tls is not None and not self.greeted:
            return self._greet(tls)
        watchdog: Watchdog = self.server.watchdog
        watchdog.reading(self)
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            watchdog.done(self)

    def _greet(self, sock: ssl.SSLSocket) -> bool:
        """As far as the peer has come. Whoever stops in the middle is waited for without a thread."""
        if self._greet_until == math.inf:
            self._greet_until = time.monotonic() + self.server.limits.read
        patience = sock.gettimeout()
        try:
            sock.setblocking(False)
            sock.do_handshake()
            sock.settimeout(patience)
        except ssl.SSLWantReadError:
            sock.settimeout(patience)
            return time.monotonic() < self._greet_until
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if _failed_handshakes.left((self.remote_addr, str(reason))):
                log.info("TLS handshake with %s failed: %s", self.remote_addr, reason)
            return False
        self.greeted = True
        self.ssl_env = {"HTTPS": "on", CLIENT_NAMES: names_of(sock)}
        return True

    def close(self) -> None:
        """Closes it; a peer that is already gone is not reported."""
        with contextlib.suppress(OSError, ValueError):
            super().close()


class Watchdog:
    """Cuts off what takes too long."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadlines: dict[Connection, tuple[float, int]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def reading(self, connection: Connection) -> None:
        """A request must arrive now; at the deadline it reads as cut off, which can still be answered."""
        with self._lock:
            self._deadlines[connection] = (time.monotonic() + self._limits.read, socket.SHUT_RD)

    def answering(self, connection: Connection) -> None:
        """The request is complete; the answer should be out in time."""
        with self._lock:
            self._deadlines[connection] = (time.monotonic() + self._limits.write, socket.SHUT_RDWR)

    def done(self, connection: Connection) -> None:
        """Nothing is awaited."""
        with self._lock:
            self._deadlines.pop(connection, None)

    def run(self) -> None:
        """Until ``stop``."""
        while not self._stop.wait(WATCH_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [(conn, how) for conn, (deadline, how) in self._deadlines.items() if now > deadline]
                for connection, how in late:
                    if how == socket.SHUT_RD:
                        self._deadlines[connection] = (now + self._limits.write, socket.SHUT_RDWR)
                    else:
                        del self._deadlines[connection]
            for connection, how in late:
                with contextlib.suppress(OSError):
                    # Below the TLS layer, whose state belongs to the thread that reads.
                    socket.socket.shutdown(connection.socket, how)

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()


class _Gateway(wsgi.Gateway_10):
    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        connection = self.req.conn
        watchdog: Watchdog = self.req.server.watchdog
        environ[RECEIVED] = lambda: watchdog.answering(connection)
        if self.req.chunked_read:
            if environ.get("CONTENT_LENGTH"):
                # Who names two lengths may mean the other one: what follows is not to be taken for a request.
                self.req.close_connection = True
            # The client chooses the size of a chunk; without a bound it would be read into memory whole.
            environ["wsgi.input"].maxlen = 2 * self.req.server.limits.body + MAX_HEADERS
        return environ

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        """The header alone would leave the connection open, and what follows in it would be served."""
        if any(name.lower() == "connection" and value.lower() == "close" for name, value in headers):
            self.req.close_connection = True
        return super().start_response(status, headers, exc_info)


class Server(wsgi.Server):
    """A WSGI server on one address, plain or with TLS."""

    ConnectionClass = Connection
    _connections: Any

    def __init__(
        self, address: Address, app: Application, *, limits: Limits, certificates: Certificates | None
    ) -> None:
        times: dict[str, Any] = {"timeout": limits.idle, "shutdown_timeout": limits.drain}
        super().__init__(
            (address.bound_host, address.port),
            app,
            numthreads=limits.threads,
            server_name="gitops-reverser",
            request_queue_size=128,
            **times,
        )
        self.gateway = _Gateway
        self.max_request_header_size = MAX_HEADERS
        self.limits = limits
        self.watchdog = Watchdog(limits)
        if certificates is not None:
            self.ssl_adapter = TlsAdapter(certificates)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.socket.getsockname()[1])

    def process_conn(self, conn: Any) -> None:
        """A new connection is watched like an idle one until its first byte."""
        if conn.last_used is None:
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    def serve(self) -> None:
        """Until ``stop``; needs ``prepare``."""
        threading.Thread(target=self.watchdog.run, name="request deadlines", daemon=True).start()
        try:
            super().serve()
        finally:
            self.watchdog.stop()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Into the log, without a traceback: its frames may hold request bodies."""
        del traceback
        text = str(msg)[:300]
        if text.startswith("socket.error"):  # all that cheroot says of it
            text = f"a connection broke, the sender will try again or has given up ({text})"
        log.log(logging.WARNING if level >= logging.WARNING else logging.DEBUG, "%s", text)
