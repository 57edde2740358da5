"""Calling a WSGI application without a server."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from reverser.errors import StoreUnavailable
from reverser.store.attribution import Fact
from reverser.store.model import Author


@dataclass(slots=True)
class Memory:
    """A store that keeps what it is handed; ``down`` makes it unavailable."""

    facts: list[Fact] = field(default_factory=list)
    submitters: dict[str, Author] = field(default_factory=dict)
    down: bool = False

    def write_facts(self, facts: Sequence[Fact], ttl_ms: int) -> int:
        assert ttl_ms == 900_000
        if self.down:
            raise StoreUnavailable("Redis cannot serve now")
        self.facts += facts
        return len(facts)

    def write_submitter(self, request_uid: str, author: Author, requested_at: str) -> None:
        assert requested_at
        if self.down:
            raise StoreUnavailable("Redis cannot serve now")
        self.submitters.setdefault(request_uid, author)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status code, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def call(
    app: Callable[..., Any],
    body: object = b"",
    *,
    path: str = "/audit-webhook",
    method: str = "POST",
    **more: Any,
) -> Answer:
    """One request; a body that is not bytes is sent as JSON."""
    sent = body if isinstance(body, bytes) else orjson.dumps(body)
    started: list[tuple[str, list[tuple[str, str]]]] = []
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "CONTENT_LENGTH": str(len(sent)),
        "wsgi.input": io.BytesIO(sent),
        **more,
    }
    chunks = b"".join(app(environ, lambda status, headers: started.append((status, headers))))
    ((status, headers),) = started
    return Answer(int(status.split(" ", 1)[0]), dict(headers), chunks)
