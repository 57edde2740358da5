"""A small supervisor: starts programs in order, restarts what dies, stops all in a given order.

Children run in their own sessions, so that Ctrl-C reaches the supervisor alone and the order of stopping
is kept: who feeds the journal first, who writes Git next, the store last. Their output is passed on line
by line with the child's name in front.
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
from typing import IO

logger = logging.getLogger(__name__)

RESTART_FIRST_SECONDS = 0.5
RESTART_MOST_SECONDS = 15.0
HEALTHY_AFTER_SECONDS = 30.0


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

    output: IO[str] = field(default_factory=lambda: sys.stderr)
    _running: list[_Running] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, program: Program) -> None:
        """Start a program and keep it running from now on."""
        self._running.append(_Running(program, self._spawn(program), time.monotonic()))

    def check(self) -> list[str]:
        """Restart what has died, each with a growing delay; returns the names that died."""
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
                "%s ended; starting it again",
                entry.program.name,
                extra={"status": code, "delay": entry.delay},
            )
            entry.restart_at = now + entry.delay
            entry.delay = min(entry.delay * 2, RESTART_MOST_SECONDS)
        return died

    def pid(self, name: str) -> int:
        """The process id of a program. Raises KeyError for an unknown name."""
        return self._entry(name).process.pid

    def hold(self, name: str) -> None:
        """End a program and leave it down until ``resume``. Raises KeyError for an unknown name."""
        entry = self._entry(name)
        entry.held = True
        end_process(entry.process, entry.program.stop_seconds)

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

    def stop(self, order: Sequence[str], *, limit_seconds: float) -> None:
        """End the named programs one after the other, then the rest; together within ``limit_seconds``."""
        deadline = time.monotonic() + limit_seconds
        by_name = {entry.program.name: entry for entry in self._running}
        rest = [name for name in by_name if name not in order]
        for name in [*(name for name in order if name in by_name), *rest]:
            entry = by_name[name]
            left = max(deadline - time.monotonic(), 0.5)
            end_process(entry.process, min(entry.program.stop_seconds, left))
        self._running.clear()

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "reverser.supervision.child", "--", *program.argv]
        if program.log_file is not None:
            with program.log_file.open("ab") as log:
                return subprocess.Popen(
                    argv,
                    env=dict(program.env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        process = subprocess.Popen(
            argv,
            env=dict(program.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
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
            with self._lock:
                print(f"{name:8} {text}", file=self.output, flush=True)
        stream.close()


def end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """SIGTERM, then SIGKILL to what is left of its session after ``seconds``."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            logger.warning("process %d did not end in time; killing it", process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
