"""Child processes on a machine that is full, and children that say too much."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest

from reverser.trust.child import ChildFailed, run

ENV = {"PATH": os.environ["PATH"]}


def test_a_child_that_never_stops_talking() -> None:
    """Output is bounded, so that a broken program does not cost this one its memory."""
    with pytest.raises(ChildFailed, match="yes says more than 100000 bytes"):
        run(["yes"], env=ENV, deadline=30, limit=100_000)


def test_no_room_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is full is a machine that is free again later; a missing program is not."""

    def refuse(*unused: object, **named: object) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    run(["true"], env=ENV, deadline=30)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(ChildFailed, match="cannot be started"):
        run(["true"], env=ENV, deadline=30)
    with pytest.raises(FileNotFoundError):
        run(["/nonexistent/program"], env=ENV, deadline=30)
