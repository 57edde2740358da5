"""TLS in front of a server that has none: the Valkey of the tests is built without it.

What the client sees is a server with a certificate of its own, that may demand one of the client. Sentinels
tell everybody the port on which they watch a server themselves, and those of the tests speak no TLS either:
such a port takes both, told apart by the first byte.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

Greeting = Callable[[socket.socket], socket.socket]
TLS_HANDSHAKE = b"\x16"


@contextlib.contextmanager
def tls_front(upstream: int, context: ssl.SSLContext, *, plain_too: bool = False) -> Iterator[int]:
    """A loopback port that speaks TLS and hands everything to the plain port ``upstream``; if told so, also
    what comes plain.
    """
    greeting = _greeting(context, plain_too)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, upstream, greeting, ended), daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            ended.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def _greeting(context: ssl.SSLContext, plain_too: bool) -> Greeting:
    def greet(plain: socket.socket) -> socket.socket:
        if plain_too and plain.recv(1, socket.MSG_PEEK) != TLS_HANDSHAKE:
            return plain
        return context.wrap_socket(plain, server_side=True)

    return greet


def _accept(listener: socket.socket, upstream: int, greeting: Greeting, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            plain, _address = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(plain, upstream, greeting), daemon=True).start()


def _serve(plain: socket.socket, upstream: int, greeting: Greeting) -> None:
    """One connection; a client that is refused, or that goes away, is nothing to tell."""
    with contextlib.suppress(OSError), plain:
        plain.settimeout(60)
        with (
            greeting(plain) as outer,
            socket.create_connection(("127.0.0.1", upstream), timeout=60) as inner,
        ):
            outer.settimeout(None)
            inner.settimeout(None)
            back = threading.Thread(target=_copy, args=(inner, outer), daemon=True)
            back.start()
            _copy(outer, inner)
            back.join(60)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
