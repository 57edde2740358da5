"""The parts of HTTP that both ingresses need: bounded bodies in, short answers out.

A body is never read past its limit into memory, nor unpacked past it. What a refused client still sends is
read and discarded, up to a bound, so that it can read the answer; then the connection is closed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Protocol

Environ = dict[str, Any]
Headers = list[tuple[str, str]]
StartResponse = Callable[[str, Headers], Any]

CHUNK = 64 * 1024
DISCARDED = 32 * 2**20
_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
RECEIVED = "reverser.received"
"""WSGI environment key: called once the request is read, it starts the deadline of the answer."""


class Body(Protocol):
    """What a WSGI server hands over as ``wsgi.input``."""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; fewer at the end."""
        ...


class BadBody(Exception):
    """The body cannot be accepted; the message says why, without quoting it."""


def read_body(environ: Environ, limit: int) -> bytes:
    """The whole body, unpacked if it came with gzip.

    Raises BadBody when it is larger than ``limit`` bytes, packed or not, breaks off, or is packed in another
    way.
    """
    source: Body = environ["wsgi.input"]
    declared = _length(environ)
    chunks: list[bytes] = []
    size = 0
    try:
        while size <= limit:
            want = min(CHUNK, limit + 1 - size)
            if declared is not None:
                want = min(want, declared - size)
            chunk = source.read(want) if want > 0 else b""
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
        if size > limit:
            _discard(source, None if declared is None else declared - size)
        elif declared is None and size:
            _pass_trailers(source)
    except (ValueError, OSError) as error:
        raise BadBody("the request body is not well-formed, too large, or broke off") from error
    if size > limit:
        raise BadBody(f"request body too large: max {limit} bytes")
    if declared is not None and size < declared:
        raise BadBody("the request body broke off or came too slowly")
    received = environ.get(RECEIVED)
    if received is not None:
        received()
    return _unpack(b"".join(chunks), environ.get("HTTP_CONTENT_ENCODING", ""), limit)


def _unpack(body: bytes, encoding: str, limit: int) -> bytes:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in _GZIP:
        raise BadBody("this Content-Encoding is not understood; send gzip or none")
    unpacker = zlib.decompressobj(_GZIP_FORMAT)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise BadBody("the request body is not the gzip that Content-Encoding says") from None
    if len(plain) > limit:
        raise BadBody(f"request body too large: max {limit} bytes, also unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise BadBody("the gzip of the request body breaks off, or has something behind it")
    return plain


def _length(environ: Environ) -> int | None:
    """The declared length; None where the body ends by itself (chunked), whatever is declared beside it."""
    if environ.get("wsgi.input_terminated"):
        return None
    declared = environ.get("CONTENT_LENGTH") or ""
    return int(declared) if declared.isascii() and declared.isdigit() else 0


def _pass_trailers(source: Body) -> None:
    """What stands behind the last chunk is no next request. Raises ValueError, OSError."""
    for _ in getattr(source, "read_trailer_lines", tuple)():
        pass


def _discard(source: Body, left: int | None) -> None:
    thrown = 0
    while thrown < DISCARDED and (left is None or thrown < left):
        chunk = source.read(CHUNK if left is None else min(CHUNK, left - thrown))
        if not chunk:
            return
        thrown += len(chunk)


def answer(
    start_response: StartResponse,
    status: int,
    body: bytes,
    *,
    content_type: str = "text/plain; charset=utf-8",
) -> Iterable[bytes]:
    """One complete answer. After a refusal the connection ends: what follows in it cannot be trusted."""
    headers = [
        ("Content-Type", content_type),
        ("Content-Length", str(len(body))),
        ("X-Content-Type-Options", "nosniff"),
    ]
    if status >= 400:
        headers.append(("Connection", "close"))
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


def say(start_response: StartResponse, status: int, message: str) -> Iterable[bytes]:
    """A short text as an answer."""
    return answer(start_response, status, f"{message}\n".encode())
