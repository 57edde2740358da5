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


def test_of_a_flood_of_words_the_ends_are_kept() -> None:
    """The other side of a push may print without end; how it began and how it ended is what tells."""
    script = "echo first >&2; yes | head -c 20000000 >&2; echo last >&2; echo out"
    done = run(["sh", "-c", script], env=ENV, deadline=60)
    assert (done.stdout, done.returncode) == (b"out\n", 0)
    assert done.stderr.startswith(b"first\ny\n")
    assert done.stderr.endswith(b"y\nlast\n")
    assert len(done.stderr) < 1_000_000


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
