"""The supervisor: restarts, stages of a stop, what is left after it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reverser.supervision.processes import LogFile, Program, Supervisor

STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True)\n"
    "time.sleep(99)\n"
)
POLITE = "import time; print('up', flush=True); time.sleep(99)"


def until(check: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition. Raises AssertionError after the deadline."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.05)


def program(name: str, code: str, **options: float) -> Program:
    """A Python program as a child."""
    return Program(name, (sys.executable, "-c", code), dict(os.environ), **options)  # type: ignore[arg-type]


def is_gone(pid: int) -> bool:
    """Whether a process has ended; an orphan that nobody has waited for yet has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.fixture
def output() -> io.StringIO:
    """What the children print."""
    return io.StringIO()


@pytest.fixture
def supervisor(output: io.StringIO) -> Iterator[Supervisor]:
    """A supervisor that leaves nothing behind."""
    made = Supervisor(output=output)
    yield made
    made.stop((), limit_seconds=3)


def test_a_dead_program_is_started_again(supervisor: Supervisor, output: io.StringIO) -> None:
    """What was killed runs again, under the same name, and its output carries the name."""
    supervisor.start(program("clock", POLITE))
    until(lambda: "clock    up" in output.getvalue(), "the first line is passed on")
    first = supervisor.pid("clock")
    os.kill(first, signal.SIGKILL)
    until(lambda: supervisor.check() == ["clock"], "the death is noticed")
    until(lambda: not supervisor.check() and supervisor.pid("clock") != first, "it is started again")


def test_a_held_program_stays_down(supervisor: Supervisor) -> None:
    """Between hold and resume nothing is started."""
    supervisor.start(program("clock", POLITE))
    supervisor.hold("clock")
    assert supervisor.check() == []
    assert supervisor.ended("clock")
    supervisor.resume("clock")
    assert not supervisor.ended("clock")


def test_a_stop_keeps_its_limit(supervisor: Supervisor, output: io.StringIO) -> None:
    """Programs that ignore SIGTERM cost no more than the limit in all, and are gone after it."""
    for name in ("first", "second", "third"):
        supervisor.start(program(name, STUBBORN, stop_seconds=30))
    until(lambda: output.getvalue().count("up") == 3, "all three run")
    pids = [supervisor.pid(name) for name in ("first", "second", "third")]
    began = time.monotonic()
    supervisor.stop((("first",), ("second",)), limit_seconds=4.5)
    assert time.monotonic() - began < 25, "each of them alone may take 30 s"
    assert all(is_gone(pid) for pid in pids)


def test_stages_end_one_after_the_other(supervisor: Supervisor, output: io.StringIO, tmp_path: Path) -> None:
    """The second stage is told to end only when the first has ended."""
    log = tmp_path / "order"
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep({pause})\n"
        "    open({log!r}, 'a').write('{name} ')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(1)\n"
    )
    for name, pause in (("late", 0), ("early", 0.5)):
        supervisor.start(program(name, code.format(pause=pause, log=str(log), name=name), stop_seconds=20))
    until(lambda: output.getvalue().count("up") == 2, "both run")
    supervisor.stop((("early",), ("late",)), limit_seconds=40)
    assert log.read_text() == "early late "


def test_children_end_with_a_supervisor_that_is_killed() -> None:
    """SIGKILL to the supervisor: the kernel ends its children."""
    code = (
        "import sys, time\n"
        "from reverser.supervision.processes import Program, Supervisor\n"
        "import os\n"
        "made = Supervisor()\n"
        "argv = (sys.executable, '-c', 'import time; time.sleep(99)')\n"
        "made.start(Program('clock', argv, dict(os.environ)))\n"
        "print(made.pid('clock'), flush=True)\n"
        "time.sleep(99)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until(lambda: b"time.sleep(99)" in Path(f"/proc/{child}/cmdline").read_bytes(), "the child is executed")
    parent.kill()
    parent.communicate()
    until(lambda: is_gone(child), "the child is gone")


def test_a_child_knows_whether_its_supervisor_was_killed(tmp_path: Path) -> None:
    """E18: an orphan does not take the time of an ordered shutdown; a child that is told to end does."""
    told = tmp_path / "told"
    child_code = (
        "import pathlib, signal, sys, time\n"
        "from reverser.supervision.child import is_orphan\n"
        "def end(*_):\n"
        f"    pathlib.Path({str(told)!r}).write_text(str(is_orphan()))\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', is_orphan(), flush=True)\n"
        "time.sleep(99)\n"
    )
    code = (
        "import os, subprocess, sys, time\n"
        "run = [sys.executable, '-m', 'reverser.supervision.child', str(os.getpid()), '--']\n"
        "child = subprocess.Popen([*run, sys.executable, '-c', sys.argv[1]])\n"
        "if sys.stdin.readline():\n"
        "    child.terminate()\n"
        "    child.wait()\n"
        "time.sleep(99)\n"
    )
    for ordered in (True, False):
        parent = subprocess.Popen(
            [sys.executable, "-c", code, child_code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up False\n"
        if ordered:
            parent.stdin.write("end\n")
            parent.stdin.flush()
            until(told.exists, "the child has ended")
        parent.kill()
        until(lambda: told.exists() and told.read_text() == str(not ordered), "the child knows")  # noqa: B023
        parent.communicate()
        told.unlink()


def test_a_log_file_is_made_with_its_first_line(tmp_path: Path) -> None:
    """No line, no file."""
    log = LogFile(tmp_path / "log")
    log.flush()
    assert not log.path.exists()
    log.write("line\n")
    log.flush()
    assert log.path.read_text() == "line\n"
