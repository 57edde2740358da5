"""The parts of a soak run: what it judges by, and what it breaks with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from reverser.supervision.gitview import GitView
from tests.e2e.hunt import Plants
from tests.e2e.workspace import until
from tests.soak.machine import Machine, age
from tests.soak.oracle import State, judge_authors
from tests.soak.plan import Fault
from tests.soak.run import Result
from tests.soak.shown import shown
from tests.soak.trust import Trust

COMMITTER = "Robot <robot@lab.test>"
MADE: list[tuple[State, str]] = [("1", "ann"), ("2", "bob"), (None, "cid"), ("3", "ann"), (None, "bob")]


@pytest.mark.parametrize(
    ("states", "counts"),
    [
        ([("1", "ann"), ("2", "bob"), (None, "cid"), ("3", "ann"), (None, "bob")], (5, 0, 0)),
        ([("1", COMMITTER), ("2", "bob")], (1, 1, 0)),
        ([("1", "bob")], (0, 0, 1)),
        ([("1", "ann"), ("2", "ann")], (1, 0, 1)),
        ([("2", "bob"), (None, "bob"), ("3", "ann")], (2, 0, 1)),
        ([("1", "ann"), (None, "bob")], (2, 0, 0)),
        ([("9", "ann")], (0, 0, 1)),
    ],
)
def test_authors(states: list[tuple[State, str]], counts: tuple[int, int, int]) -> None:
    """A name is right where that person made the state; a deletion's between the states around it."""
    found = judge_authors({"a": MADE}, {"a": states}, committer=COMMITTER)
    assert (found.named, found.by_committer, found.misattributed) == counts
    assert len(found.problems) == found.misattributed


def test_shown(tmp_path: Path) -> None:
    """Every state of every file, in order, with its author, deletions included; of one folder only."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=X", "-c", "user.email=x@lab.test"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    file = tmp_path / "live" / "a.yaml"
    file.parent.mkdir()
    for number, author in enumerate(("A <a@lab.test>", "B <b@lab.test>", "C <c@lab.test>"), 1):
        file.write_text(f'data:\n  v: "{number}"\n') if number < 3 else file.unlink()
        (tmp_path / "other.md").write_text(author)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "m", f"--author={author}"], check=True)
    found = shown(tmp_path / ".git", "live")
    assert list(found) == ["a"]
    assert [(state.value, state.author) for state in found["a"]] == [
        ("1", "A <a@lab.test>"),
        ("2", "B <b@lab.test>"),
        (None, "C <c@lab.test>"),
    ]
    assert GitView(tmp_path / ".git", "main").problems() == ""


def test_clock(tmp_path: Path) -> None:
    """A running process's time of day steps, its monotonic clock does not, and it steps back; without a
    compiler the run says that this fault is left out.
    """
    machine = Machine(tmp_path)
    if Fault.CLOCK in machine.missing:
        assert machine.environment("x") == {}
        return
    program = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)\n"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **machine.environment("x")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for step in (0, -3600, 7200, 0):
            machine.step_clock("x", step)
            process.stdin.write("\n")
            process.stdin.flush()
            of_day, monotonic = map(float, process.stdout.readline().split())
            seen.append((round((of_day - time.time()) / 3600), round((monotonic - time.monotonic()) / 3600)))
        process.stdin.close()
    assert seen == [(0, 0), (-1, 0), (2, 0), (0, 0)]


def test_full_disk(tmp_path: Path) -> None:
    """Nothing can be written while a disk is full, and what filled it goes afterwards; without the right to
    mount the run says that this fault is left out.
    """
    machine = Machine(tmp_path)
    machine.small_disk(tmp_path / "disk")
    if Fault.DISK_FULL in machine.missing:
        assert (tmp_path / "disk").is_dir()
        return
    try:
        over = threading.Event()
        filling = threading.Thread(
            target=machine.full_disk, args=(tmp_path / "disk", 120.0), kwargs={"over": over}
        )
        filling.start()
        until(lambda: not shutil.disk_usage(tmp_path / "disk").free, "the disk is full")
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "more").write_bytes(bytes(8192))
        over.set()
        filling.join()
        (tmp_path / "disk" / "more").unlink()
        assert list((tmp_path / "disk").iterdir()) == []
        free = shutil.disk_usage(tmp_path / "disk").free
        assert 0 < free < 2**27
    finally:
        machine.close()
    assert not os.path.ismount(tmp_path / "disk")


def test_short_of_memory(tmp_path: Path) -> None:
    """A process gets no more memory for a while, and then it does."""
    program = (
        "import sys\n"
        "for _ in sys.stdin:\n"
        "    try: bytearray(2 ** 28); print('got', flush=True)\n"
        "    except MemoryError: print('none', flush=True)\n"
    )
    machine = Machine(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None

        def ask() -> str:
            to.write("\n")
            to.flush()
            return back.readline().strip()

        assert ask() == "got"
        assert 0 <= age(process.pid) <= age(os.getpid())
        with machine.little_memory(process.pid):
            assert ask() == "none"
        assert ask() == "got"
        to.close()


def test_certificate_generations(tmp_path: Path) -> None:
    """Files are swapped as a mounted Secret is: a link moves, so no reader sees a half of each generation."""
    trust = Trust(tmp_path, (), ())
    try:
        before, old = trust.certificates.readlink(), (trust.certificates / "tls.crt").read_bytes()
        trust.rotate()
        assert trust.certificates.readlink() != before
        assert (trust.certificates / "tls.crt").read_bytes() != old
        assert (trust.certificates / "ca.crt").read_bytes().count(b"BEGIN CERTIFICATE") == 1
        assert trust.pass_on(b"{}") == 503
    finally:
        trust.close()


def test_planted_values_are_found() -> None:
    """The search that reports nothing finds what is there, base64 included."""
    plants = Plants()
    plants.add("here", "zq~MARK 0123456789abcdef01")
    assert plants.search(b"x zq~MARK 0123456789abcdef01 y") == ["here"]


def test_the_report_is_whole() -> None:
    """Table and JSON hold the same: what was done, each kind of untruth, and what could not be done."""
    result = Result(
        7,
        changes=5,
        faults=Counter({Fault.CLOCK: 2}),
        left_out={Fault.DISK_FULL: "no mounting"},
        looked=Counter(file=3),
        plain=1,
    )
    document = json.loads(json.dumps(result.document()))
    assert document["faults"] == {"a process's clock steps and steps back": 2}
    assert document["left_out"] == {"a state directory is full for a while": "no mounting"}
    assert document["looked"] == {"file": 3}
    assert document["authors"]["misattributed"] == 0
    table = result.table()
    for words in ("lost", "invented", "doubled", "out of order", "misattributed", "plain secrets", "behind"):
        assert words in table
    assert "no mounting" in table
