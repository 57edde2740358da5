"""Waiting inside a running demo: a process that dies meanwhile is restarted, and the person may interrupt."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reverser.errors import KubeConflict, KubeNotFound, KubeThrottled, KubeUnavailable, ReverserError
from reverser.kube.requests import Patch
from reverser.kube.sync import Kube
from reverser.supervision.up import Interrupted, Up

STEP_SECONDS = 150.0
"""A step takes a second or two; a busy machine may need a minute to restart a process."""


class StoryFailed(ReverserError):
    """A step did not show in Git what it should."""


@dataclass(slots=True)
class PatientKube:
    """The cluster as the story needs it: a request is repeated until the API server answers."""

    run: Up
    kube: Kube

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        found: dict[str, Any] = self._again(lambda: self.kube.get(path))
        return found

    def names(self, path: str) -> list[str]:
        """The names of the objects of a collection."""
        found = self._again(lambda: self.kube.list(path))
        return [item["metadata"]["name"] for item in found.items]

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        """Create an object; one that exists was created by a request whose response was lost."""
        try:
            self._again(lambda: self.kube.create(path, manifest))
        except KubeConflict as error:
            if not error.exists:
                raise

    def patch(self, path: str, body: dict[str, Any], kind: Patch = Patch.MERGE) -> None:
        """Merge into an object."""
        self._again(lambda: self.kube.patch(path, body, kind=kind))

    def delete(self, path: str) -> None:
        """Delete an object; one that is gone was deleted by a request whose response was lost."""
        with contextlib.suppress(KubeNotFound):
            self._again(lambda: self.kube.delete(path))

    def _again(self, call: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + STEP_SECONDS
        while True:
            try:
                return call()
            except (KubeUnavailable, KubeThrottled) as error:
                if time.monotonic() > deadline:
                    raise StoryFailed(
                        f"after {STEP_SECONDS:.0f} s the API server still fails: {error}"
                    ) from error
                look_around(self.run)


def look_around(run: Up) -> bool:
    """Restart processes that died; whether there were any. Raises Interrupted when the run is to end."""
    if run.stopping:
        raise Interrupted
    died = run.supervisor.check()
    time.sleep(0.1)
    return bool(died)
