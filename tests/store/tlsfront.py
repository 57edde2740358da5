"""TLS in front of a server that has none: the Valkey of the tests is built without it.

What the client sees is a server with a certificate of its own, that may demand one of the client.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def tls_front(upstream: int, context: ssl.SSLContext) -> Iterator[int]:
    """A loopback port that speaks TLS and hands everything to the plain port ``upstream``."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, upstream, context, ended), daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            ended.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _accept(listener: socket.socket, upstream: int, context: ssl.SSLContext, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            plain, _address = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(plain, upstream, context), daemon=True).start()


def _serve(plain: socket.socket, upstream: int, context: ssl.SSLContext) -> None:
    """One connection; a client that is refused, or that goes away, is nothing to tell."""
    with contextlib.suppress(OSError), plain:
        plain.settimeout(10)
        with (
            context.wrap_socket(plain, server_side=True) as outer,
            socket.create_connection(("127.0.0.1", upstream), timeout=10) as inner,
        ):
            outer.settimeout(None)
            inner.settimeout(None)
            back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
            back.start()
            _copy(outer, inner)
            back.join(10)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
