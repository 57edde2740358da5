"""Carrying out the faults of a plan, and undoing them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from reverser.errors import ReverserError
from tests.e2e.workspace import Workspace
from tests.soak.fleet import Fleet
from tests.soak.oracle import Record
from tests.soak.plan import Fault, Step

GROUP = "soak.lab"


class Injector:
    """Does one step after the other; ``finish`` undoes what lasts."""

    def __init__(self, fleet: Fleet, space: Workspace, record: Record) -> None:
        self._fleet = fleet
        self._space = space
        self._record = record
        self._running: list[threading.Thread] = []
        self.failed: list[str] = []
        self.definition = ""
        """The API path of the custom type that blinks."""

    def possible(self, step: Step) -> bool:
        """Whether this machine allows it."""
        return step.fault not in self._fleet.machine.missing

    def begin(self, step: Step) -> None:
        """Carry out a step; what lasts goes on beside the changes.

        What starts processes is done by the caller's thread: a child dies with the thread that started it.
        """
        if not self.possible(step):
            return
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
        except (OSError, AssertionError, TimeoutError, ReverserError, subprocess.SubprocessError) as error:
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
        elif fault is Fault.TOKEN:
            with fleet.new_token():
                self._record.gather(fleet.cluster_files)
        elif fault is Fault.CERTIFICATES:
            fleet.trust.rotate()
        elif fault is Fault.CLOCK:
            fleet.machine.step_clock(step.target, step.amount)
            time.sleep(step.seconds)
            fleet.machine.step_clock(step.target, 0)
        elif fault is Fault.DISK_FULL:
            _together(
                partial(fleet.machine.full_disk, fleet.state_dir(name), step.seconds)
                for name in fleet.meant(step.target)
            )
        elif fault is Fault.MEMORY:
            with contextlib.ExitStack() as limits:
                for name in fleet.meant(step.target):
                    # One that is killed just now has no limit to be given.
                    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                        limits.enter_context(fleet.machine.little_memory(fleet.supervisor.pid(name)))
                time.sleep(step.seconds)
        elif fault in (Fault.DEFINITION_BLINKS, Fault.GROUP_FAILS):
            self._blink(step)
        elif fault in _ORDERS:
            self._space.kube.create("/sandbox/faults", _ORDERS[fault])
        elif fault is not Fault.NONE:
            self._remote(step)

    def _blink(self, step: Step) -> None:
        """A type goes and comes back; an object of it changes before, and as soon as it is there again."""
        space = self._space
        path = space.path("gizmos", "g0", group=GROUP)
        _insist(lambda: space.kube.patch(path, {"spec": {"v": f"before-{time.time_ns()}"}}))
        served = step.fault is Fault.GROUP_FAILS
        self._serve(served=served, fail=served)
        time.sleep(step.seconds)
        self._serve(served=True, fail=False)
        _insist(lambda: space.kube.patch(path, {"spec": {"v": f"after-{time.time_ns()}"}}))

    def _serve(self, *, served: bool, fail: bool) -> None:
        kube = self._space.kube
        order = {"do": "fail_group", "group": GROUP, "version": "v1"} if fail else {"do": "clear"}
        _insist(lambda: kube.create("/sandbox/faults", order))
        patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
        _insist(
            lambda: kube.raw("PATCH", self.definition, body=patch, content_type="application/json-patch+json")
        )

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
                _insist(partial(space.seed, {f"docs/{number}.md": f"{time.time()}\n"}))
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


_AT_ONCE = frozenset({Fault.KILL, Fault.KILL_ROLE, Fault.STORE_KILLED, Fault.API_KILLED, Fault.TOKEN})
_ORDERS: dict[Fault, dict[str, Any]] = {
    Fault.API_COMPACTED: {"do": "compact"},
    Fault.API_DROPS: {"do": "drop_watches", "clean": False},
    Fault.API_ERRORS: {"do": "answer", "code": 503, "pattern": "watch=", "times": 5},
}


def _together(calls: Iterable[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _insist(call: Callable[[], Any]) -> None:
    """A push may lose its race, and a request may meet another fault."""
    deadline = time.monotonic() + 60
    while True:
        try:
            call()
            return
        except (subprocess.CalledProcessError, ReverserError) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"it never went through: {error}") from error
            time.sleep(0.2)


@contextmanager
def _hook(space: Workspace, script: str) -> Iterator[None]:
    path = space.hook("pre-receive", script)
    try:
        yield
    finally:
        path.unlink()
