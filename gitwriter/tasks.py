"""The Celery task of the branch writer. It holds no logic: the journal says what to do."""

from __future__ import annotations

from celery import shared_task

from gitwriter.runtime import WriterRuntime
from reverser.store.model import BranchKey

_runtime: list[WriterRuntime] = []


def configure(runtime: WriterRuntime) -> None:
    """Set the runtime that every task of this process uses."""
    _runtime[:] = [runtime]


def begin_shutdown() -> None:
    """Ask running writers to close their windows and end."""
    for runtime in _runtime:
        runtime.begin_shutdown()


def drain(*, seconds: float) -> None:
    """After ``begin_shutdown``: push what this process had open."""
    for runtime in _runtime:
        runtime.drain(seconds=seconds)


@shared_task(name="gitwriter.write_branch", ignore_result=True, acks_late=False)
def write_branch(namespace: str, provider: str, branch: str) -> None:
    """Write what is due on a branch; does nothing where another worker holds it."""
    for runtime in _runtime:
        runtime.write(BranchKey(namespace, provider, branch))
