"""Listeners on real sockets, and the files of their certificates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverser.quantities import Address
from tests.webhooks.call import Memory
from tests.webhooks.listening import LIMITS, Files, Start
from webhooks.audit import AuditIngress
from webhooks.listener import Listener
from webhooks.tls import Certificates


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.serve()
    made.trust(made.authority)
    return made


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Listener] = []

    def begin(app: Any = None, certificates: Certificates | None = None, **more: Any) -> Listener:
        app = app or AuditIngress(Memory(), ttl_ms=900_000, max_body=1000)
        more = {"limits": LIMITS, "on_failure": lambda: None, "poll_seconds": 0.1} | more
        address = more.pop("address", Address("127.0.0.1", 0))
        listener = Listener(
            "audit ingress", "REVERSER_AUDIT", address, app, certificates=certificates, **more
        )
        running.append(listener)
        listener.start()
        return listener

    yield begin
    for listener in running:
        listener.stop()
