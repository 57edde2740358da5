"""Carrying out the faults of a plan, and undoing them."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from reverser.errors import ReverserError
from tests.e2e.workspace import Workspace, until
from tests.soak.fleet import Fleet
from tests.soak.oracle import Record
from tests.soak.plan import DEAD, ISOLATED, STORE, Fault, Step

GROUP = "soak.lab"
TAKE_OVER_SECONDS = 180.0
STRUCK_SECONDS = 0.1
"""What a signal or an order takes to have its effect."""


TAKEN_OVER = frozenset({Fault.KILL, Fault.KILL_ROLE, Fault.PAUSE, Fault.STORE_FAILS_OVER})
"""Faults after which somebody else has to go on, or the same one anew."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The seconds from a fault until a change that was made right after it was in Git."""

    fault: Fault
    target: str
    seconds: float

    @property
    def told(self) -> str:
        """For people."""
        return f"{self.fault} ({self.target})"


class Injector:
    """Does one step after the other; ``finish`` undoes what lasts."""

    def __init__(self, fleet: Fleet, space: Workspace, record: Record) -> None:
        self._fleet = fleet
        self._space = space
        self._record = record
        self._running: list[threading.Thread] = []
        self._afterwards: list[Callable[[], None]] = []
        self._at_remote = threading.Lock()
        self.failed: list[str] = []
        self.take_overs: list[TakeOver] = []
        self.definition = ""
        """The API path of the custom type that blinks."""

    @property
    def canary(self) -> str:
        """The API path of an object that only this class changes."""
        return self._space.path("gizmos", "canary", group=GROUP)

    def touch(self, value: str) -> None:
        """Change the object at ``canary``, also while the API server comes back."""
        _insist(lambda: self._space.kube.patch(self.canary, {"spec": {"v": value}}))

    def possible(self, step: Step) -> bool:
        """Whether this machine allows it."""
        return step.fault not in self._fleet.machine.missing

    def begin(self, step: Step, *, alone: bool = False) -> None:
        """Carry out a step; what lasts goes on beside the changes. Of one that comes ``alone`` it is
        measured how long a change takes from then into Git.

        What starts processes is done by the caller's thread: a child dies with the thread that started it.
        """
        if not self.possible(step):
            return
        if alone and step.fault in TAKEN_OVER:
            self._beside(self._take_over, step)
        if step.fault in _AT_ONCE:
            self._guarded(self._do, step)
            return
        self._beside(self._do, step)

    def _beside(self, work: Callable[[Step], None], step: Step) -> None:
        thread = threading.Thread(target=self._guarded, args=(work, step), daemon=True)
        thread.start()
        self._running.append(thread)

    def finish(self) -> None:
        """Wait until every fault is over. By the thread that runs the changes, see ``begin``."""
        for thread in self._running:
            thread.join()
        self._running.clear()
        while self._afterwards:
            self._afterwards.pop(0)()

    def _guarded(self, work: Callable[[Step], None], step: Step) -> None:
        try:
            work(step)
        except (
            OSError,
            AssertionError,
            ReverserError,
            redis.RedisError,
            subprocess.SubprocessError,
        ) as error:
            self.failed.append(f"{step.fault}: {error}")

    def _do(self, step: Step) -> None:
        fleet, fault = self._fleet, step.fault
        if fault is Fault.KILL:
            fleet.kill(step.target)
        elif fault is Fault.KILL_ROLE:
            for name in fleet.names(step.target):
                fleet.kill(name)
        elif fault in (Fault.PAUSE, Fault.STORE_PAUSED):
            (name,) = fleet.meant(step.target if fault is Fault.PAUSE else STORE)
            fleet.pause(name)
            time.sleep(step.seconds)
            fleet.unpause(name)
        elif fault is Fault.STORE_KILLED:
            fleet.kill(fleet.stores.primary)
        elif fault is Fault.STORE_FAILS_OVER:
            self._fail_over(step.target)
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
                    # One that is killed just now has no limit to be given, and nothing at all can start with
                    # little more than what it has at its start.
                    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                        if fleet.has_come_up(name):
                            limits.enter_context(fleet.machine.little_memory(fleet.supervisor.pid(name)))
                time.sleep(step.seconds)
        elif fault in (Fault.DEFINITION_BLINKS, Fault.GROUP_FAILS):
            self._blink(step)
        elif fault is Fault.API_COMPACTED:
            self._order(do="answer", code=503, pattern="watch=", times=30)
            self._order(do="drop_watches", clean=False)
            time.sleep(min(step.seconds, 5.0))  # what changes meanwhile nobody can resume at
            self._order(do="compact")
        elif fault is Fault.API_DROPS:
            self._order(do="drop_watches", clean=False)
        elif fault is Fault.API_ERRORS:
            self._order(do="answer", code=503, pattern="watch=", times=5)
        elif fault is not Fault.NONE:
            self._remote(step)

    def _take_over(self, step: Step) -> None:
        """How long a change takes that is made right after the fault has struck."""
        space = self._space
        time.sleep(STRUCK_SECONDS)
        began = time.monotonic()
        value = f"{step.fault.word}-{time.time_ns()}"
        self.touch(value)
        until(
            lambda: value.encode() in (space.git.read(space.file("canary", f"{GROUP}/gizmos")) or b""),
            f"a change after '{step.fault}' is in Git",
            TAKE_OVER_SECONDS,
        )
        self.take_overs.append(TakeOver(step.fault, step.target, round(time.monotonic() - began, 2)))

    def _fail_over(self, how: str) -> None:
        """Another server becomes the primary while changes go on; what was the primary follows it."""
        fleet = self._fleet
        former = fleet.stores.primary
        with fleet.stores.impatient():
            if how == DEAD:
                fleet.take_down(former)
                self._afterwards.append(partial(fleet.bring_up, former))
            elif how == ISOLATED:
                fleet.pause(former)
            else:
                fleet.stores.order_fail_over()
            self._afterwards.append(self._in_step)
            try:
                fleet.stores.wait_other_than(former)
            finally:
                if how == ISOLATED:
                    fleet.unpause(former)  # for some seconds it believes that it is the primary

    def _in_step(self) -> None:
        """So that the next fail-over finds a replica that has everything."""
        try:
            self._fleet.stores.wait_in_step()
        except AssertionError as error:
            self.failed.append(f"{Fault.STORE_FAILS_OVER}: {error}")

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
        if fail:
            self._order(do="fail_group", group=GROUP, version="v1")
        else:
            self._order(do="clear")
        patch = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
        _insist(
            lambda: kube.raw("PATCH", self.definition, body=patch, content_type="application/json-patch+json")
        )

    def _order(self, **order: Any) -> None:
        """An order to the sandbox, which may be away for another fault."""
        _insist(lambda: self._space.kube.create("/sandbox/faults", order))

    def _remote(self, step: Step) -> None:
        """One at a time: a repository that is away can be neither rewritten nor given a hook."""
        with self._at_remote:
            self._meddle(step)

    def _meddle(self, step: Step) -> None:
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
            git = ["git", f"--git-dir={space.repository}"]
            back = [*git, "update-ref", "refs/heads/main", "refs/heads/main~2"]
            _insist(partial(subprocess.run, back, check=True, capture_output=True))


_AT_ONCE = frozenset({Fault.KILL, Fault.KILL_ROLE, Fault.STORE_KILLED, Fault.API_KILLED, Fault.TOKEN})


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
