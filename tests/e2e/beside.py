"""Scenarios that share one installation and run side by side, because most of their time is waiting.

``@beside`` makes a test of a function that takes a Workspace. All that were selected begin with the first of
them; a test that wants the installation for itself (the fixture ``operator``) waits until none runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from reverser.kube.sync import Kube
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace

AT_ONCE = 6
SCENARIO_SECONDS = 560.0
Scenario = Callable[[Workspace], None]
_SCENARIOS: dict[str, Scenario] = {}


def beside(function: Scenario) -> Callable[..., None]:
    """Makes a test of a scenario that runs beside the others."""
    name = f"{function.__module__}.{function.__name__}"
    _SCENARIOS[name] = function

    def test(crew: Crew, shared_operator: Operator) -> None:
        del shared_operator
        crew.result(name)

    test.__name__, test.__doc__, test.__module__ = function.__name__, function.__doc__, function.__module__
    return test


class Crew:
    """Runs the scenarios that were selected, once the first is asked for."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = [name for name in names if name in _SCENARIOS]
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="beside")
        self._running: dict[str, Future[None]] = {}

    def begin(self, kube: Kube) -> None:
        """Start what was not started yet."""
        for name in self._names:
            if name not in self._running:
                self._running[name] = self._pool.submit(self._run, name, kube)

    def _run(self, name: str, kube: Kube) -> None:
        folder = self._folder / uuid.uuid4().hex[:8]
        folder.mkdir()
        workspace = Workspace(kube, f"e2e-{folder.name}", folder)
        # What a failed scenario leaves would keep every other from seeing the operator at rest.
        try:
            _SCENARIOS[name](workspace)
        finally:
            workspace.remove()

    def result(self, name: str) -> None:
        """Raises what the scenario raised."""
        self._running[name].result(SCENARIO_SECONDS)

    def wait(self) -> None:
        """Until no scenario runs."""
        wait(self._running.values(), SCENARIO_SECONDS)

    def close(self) -> None:
        """Forget what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
