"""A small supervisor: starts programs in order, restarts what dies, stops all in a given order.

Children run in their own sessions, so that Ctrl-C reaches only the supervisor and the stop order is kept:
what feeds the journal first, what writes Git next, the store last. Their output is passed on line by line
with the child's name in front. They inherit the lock of the state directory: it stays held while one of them
runs, even after the supervisor was killed outright.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

logger = logging.getLogger(__name__)

RESTART_FIRST_SECONDS = 0.5
RESTART_MOST_SECONDS = 15.0
HEALTHY_AFTER_SECONDS = 30.0
LAST_STAGE_SECONDS = 1.5
"""Seconds that each stage of a stop leaves for the stages after it."""


class Output(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(slots=True)
class LogFile:
    """A log file, created with its first line."""

    path: Path
    _file: IO[str] | None = None

    def write(self, text: str, /) -> object:
        """Append ``text``. Raises OSError."""
        if self._file is None:
            self._file = self.path.open("a", encoding="utf-8")
        return self._file.write(text)

    def flush(self) -> object:
        """Flush to the operating system."""
        return self._file.flush() if self._file is not None else None


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``stop_seconds`` is how long it may take to end after SIGTERM."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    stop_seconds: float = 5.0
    log_file: Path | None = None
    """Output goes to this file instead of the supervisor's own."""


@dataclass(slots=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    started: float
    delay: float = RESTART_FIRST_SECONDS
    restart_at: float = 0.0
    held: bool = False


@dataclass(slots=True)
class Supervisor:
    """Owns a list of programs. ``check`` is to be called regularly; it never blocks."""

    output: Output = field(default_factory=lambda: sys.stderr)
    inherit: tuple[int, ...] = ()
    """File descriptors that every child keeps open."""
    _running: list[_Running] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, program: Program) -> None:
        """Start a program and keep it running from now on."""
        self._running.append(_Running(program, self._spawn(program), time.monotonic()))

    def check(self) -> list[str]:
        """Restart programs that died, each with a growing delay; returns their names."""
        died = []
        now = time.monotonic()
        for entry in self._running:
            if entry.held:
                continue
            if entry.restart_at:
                if now >= entry.restart_at:
                    entry.process = self._spawn(entry.program)
                    entry.started, entry.restart_at = now, 0.0
                continue
            code = entry.process.poll()
            if code is None:
                if now - entry.started > HEALTHY_AFTER_SECONDS:
                    entry.delay = RESTART_FIRST_SECONDS
                continue
            died.append(entry.program.name)
            logger.warning(
                "%s ended; restarting it",
                entry.program.name,
                extra={"status": code, "delay": entry.delay},
            )
            entry.restart_at = now + entry.delay
            entry.delay = min(entry.delay * 2, RESTART_MOST_SECONDS)
        return died

    def ended(self, name: str) -> bool:
        """Whether a program does not run at this moment. Raises KeyError for an unknown name."""
        return self._entry(name).process.poll() is not None

    def pid(self, name: str) -> int:
        """The process id of a program. Raises KeyError for an unknown name."""
        return self._entry(name).process.pid

    def hold(self, name: str) -> None:
        """End a program and leave it down until ``resume``. Raises KeyError for an unknown name."""
        entry = self._entry(name)
        entry.held = True
        end_processes([entry], entry.program.stop_seconds)

    def resume(self, name: str) -> None:
        """Start a held program again. Raises KeyError for an unknown name."""
        entry = self._entry(name)
        entry.process = self._spawn(entry.program)
        entry.started, entry.restart_at, entry.held = time.monotonic(), 0.0, False

    def _entry(self, name: str) -> _Running:
        for entry in self._running:
            if entry.program.name == name:
                return entry
        raise KeyError(name)

    def stop(self, stages: Sequence[Sequence[str]], *, limit_seconds: float) -> None:
        """End the programs stage by stage, those of one stage at once, then all that no stage names.

        Every stage leaves the later ones a little time; what has not ended in its time is killed. All
        together take ``limit_seconds`` at most.
        """
        deadline = time.monotonic() + limit_seconds
        by_name = {entry.program.name: entry for entry in self._running}
        named = {name for stage in stages for name in stage}
        plan = [*stages, [name for name in reversed(by_name) if name not in named]]
        for number, stage in enumerate(plan):
            later = LAST_STAGE_SECONDS * (len(plan) - 1 - number)
            left = max(deadline - later - time.monotonic(), 0.0)
            end_processes([by_name[name] for name in stage if name in by_name], left)
        self._running.clear()

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "reverser.supervision.child", str(os.getpid()), "--", *program.argv]
        if program.log_file is not None:
            with program.log_file.open("ab") as log:
                return subprocess.Popen(
                    argv,
                    env=dict(program.env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=self.inherit,
                )
        process = subprocess.Popen(
            argv,
            env=dict(program.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self.inherit,
        )
        threading.Thread(
            target=self._pump, args=(program.name, process), name=f"output {program.name}", daemon=True
        ).start()
        return process

    def _pump(self, name: str, process: subprocess.Popen[bytes]) -> None:
        stream = process.stdout
        if stream is None:
            return
        for raw in stream:
            text = raw.decode("utf-8", "replace").rstrip("\n")
            # A full disk or a closed terminal must not stop the program that writes.
            with self._lock, contextlib.suppress(OSError):
                self.output.write(f"{name:8} {text}\n")
                self.output.flush()
        stream.close()


def end_processes(entries: Sequence[_Running], seconds: float) -> None:
    """SIGTERM to all; SIGKILL to what is left of each session after its own time, ``seconds`` at most."""
    began = time.monotonic()
    for entry in entries:
        entry.process.terminate()
    for entry in sorted(entries, key=lambda item: item.program.stop_seconds):
        left = began + min(entry.program.stop_seconds, seconds) - time.monotonic()
        try:
            entry.process.wait(timeout=max(left, 0.0))
        except subprocess.TimeoutExpired:
            logger.warning(
                "%s did not end in time and is killed; no work is lost",
                entry.program.name,
            )
        with contextlib.suppress(ProcessLookupError):
            os.killpg(entry.process.pid, signal.SIGKILL)
        entry.process.wait()
