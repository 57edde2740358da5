"""How a line of the log looks, for people and for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from reverser import logs

TEXT = 'relation "x" does not exist\nLINE 1: SELECT\n        ^'


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("form", ["json", "text"])
def test_an_event_is_one_line(form: str, root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    """Q03: what a server or a library says in several lines is one, in the event and in its fields."""
    logs.configure({"format": form, "level": "info"})
    logging.getLogger("a").warning("it failed: %s", TEXT, extra={"detail": TEXT})
    (line,) = capsys.readouterr().err.splitlines()
    whole = 'relation "x" does not exist LINE 1: SELECT ^'
    if form == "json":
        found = json.loads(line)
        assert (found["event"], found["detail"]) == (f"it failed: {whole}", whole)
        assert {"level", "logger", "timestamp"} <= set(found)
    else:
        assert f"it failed: {whole}" in line


def test_a_stack_keeps_its_lines(root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    """For people it is as Python prints it; for machines one field of one line."""
    logs.configure({"format": "json", "level": "info"})
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("a").exception("a bug")
    (line,) = capsys.readouterr().err.splitlines()
    assert "\nValueError: odd" in json.loads(line)["exception"]
