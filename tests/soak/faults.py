"""Carrying out the faults of a plan, and undoing them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.workspace import Workspace
from tests.soak.fleet import Fleet
from tests.soak.oracle import Record
from tests.soak.plan import Fault, Step


class Injector:
    """Does one step after the other; ``finish`` undoes what lasts."""

    def __init__(self, fleet: Fleet, space: Workspace, record: Record) -> None:
        self._fleet = fleet
        self._space = space
        self._record = record
        self._running: list[threading.Thread] = []
        self.failed: list[str] = []

    def begin(self, step: Step) -> None:
        """Carry out a step; what lasts goes on beside the changes.

        What starts processes is done by the caller's thread: a child dies with the thread that started it.
        """
        if step.fault in _AT_ONCE:
            self._guarded(step)
            return
        thread = threading.Thread(target=self._guarded, args=(step,), daemon=True)
        thread.start()
        self._running.append(thread)

    def finish(self) -> None:
        """Wait until every fault is over."""
        for thread in self._running:
            thread.join()
        self._running.clear()

    def _guarded(self, step: Step) -> None:
        try:
            self._do(step)
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            self.failed.append(f"{step.fault}: {error}")

    def _do(self, step: Step) -> None:
        fleet, fault = self._fleet, step.fault
        if fault is Fault.KILL:
            fleet.kill(step.target)
        elif fault is Fault.KILL_ROLE:
            for name in fleet.names(step.target):
                fleet.kill(name)
        elif fault in (Fault.PAUSE, Fault.STORE_PAUSED):
            name = step.target if fault is Fault.PAUSE else "store"
            fleet.pause(name)
            time.sleep(step.seconds)
            fleet.unpause(name)
        elif fault is Fault.STORE_KILLED:
            fleet.kill("store")
        elif fault is Fault.API_KILLED:
            with fleet.killed("sandbox"):
                self._record.gather(fleet.cluster_files)
        elif fault in _ORDERS:
            self._space.kube.create("/sandbox/faults", _ORDERS[fault])
        elif fault is not Fault.NONE:
            self._remote(step)

    def _remote(self, step: Step) -> None:
        space, fault = self._space, step.fault
        if fault is Fault.REMOTE_AWAY:
            away = space.repository.with_name("away.git")
            space.repository.rename(away)
            time.sleep(min(step.seconds, 8.0))
            away.rename(space.repository)
        elif fault is Fault.REMOTE_SLOW:
            with _hook(space, "sleep 2"):
                time.sleep(step.seconds)
        elif fault is Fault.REMOTE_REFUSES:
            with _hook(space, "echo not now >&2; exit 1"):
                time.sleep(min(step.seconds, 4.0))
        elif fault is Fault.REMOTE_MOVED:
            for number in range(3):
                _insist(lambda n=number: space.seed({f"docs/{n}.md": f"{time.time()}\n"}))
                time.sleep(0.3)
        elif fault is Fault.REMOTE_REWRITTEN:
            subprocess.run(
                [
                    "git",
                    f"--git-dir={space.repository}",
                    "update-ref",
                    "refs/heads/main",
                    "refs/heads/main~2",
                ],
                check=True,
                capture_output=True,
            )


_AT_ONCE = frozenset({Fault.KILL, Fault.KILL_ROLE, Fault.STORE_KILLED, Fault.API_KILLED})
_ORDERS: dict[Fault, dict[str, Any]] = {
    Fault.API_COMPACTED: {"do": "compact"},
    Fault.API_DROPS: {"do": "drop_watches", "clean": False},
    Fault.API_ERRORS: {"do": "answer", "code": 503, "pattern": "watch=", "times": 5},
}


def _insist(push: Any) -> None:
    """Somebody else's push may lose its race, too."""
    for _ in range(20):
        with contextlib.suppress(subprocess.CalledProcessError):
            push()
            return
    raise AssertionError("another's push never went through")


@contextmanager
def _hook(space: Workspace, script: str) -> Iterator[None]:
    path = space.hook("pre-receive", script)
    try:
        yield
    finally:
        path.unlink()
