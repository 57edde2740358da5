"""What the watcher says while history cannot be written."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import OperationalError

from reverser import watchprocess
from reverser.errors import ReverserError, StoreUnavailable
from reverser.sparing import Sparing


@pytest.mark.django_db  # its connection, opened by whoever came before, is looked after
@pytest.mark.parametrize(
    ("error", "remedy"),
    [(OperationalError("no such column: x.y"), True), (StoreUnavailable("Redis cannot serve now"), False)],
)
def test_a_database_of_an_older_version_is_told_with_what_to_do(
    error: Exception, remedy: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows cannot be written into a database that was not prepared after an upgrade; the line says which
    command helps. An outage of Redis is none of its business.
    """
    ended = threading.Event()

    def flush() -> None:
        ended.set()
        raise error

    monkeypatch.setattr(watchprocess, "_UNWRITTEN", Sparing(lines=2, seconds=60))
    controllers = SimpleNamespace(leading=True, projection=SimpleNamespace(flush=flush))
    watchprocess._project(cast(Any, controllers), ended)
    (record,) = [record for record in caplog.records if "history rows" in record.getMessage()]
    detail = cast(Any, record).detail
    assert str(error) in detail
    assert ("prepare_database" in detail) == remedy
    assert isinstance(error, ReverserError) != remedy


@pytest.mark.django_db  # its connection, opened by whoever came before, is looked after
def test_a_bug_does_not_end_the_history(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on with the next rows, and the log tells a bounded number of times."""
    ended, tries = threading.Event(), 0

    def flush() -> None:
        nonlocal tries
        tries += 1
        if tries == 4:
            ended.set()
        raise RuntimeError("odd")

    monkeypatch.setattr(watchprocess, "PROJECT_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(watchprocess, "_UNWRITTEN", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    controllers = SimpleNamespace(leading=True, projection=SimpleNamespace(flush=flush))
    watchprocess._project(cast(Any, controllers), ended)
    lines = [record for record in caplog.records if "history rows" in record.getMessage()]
    assert [record.levelname for record in lines] == ["ERROR", "ERROR"]
