"""Prometheus exposition: this process's registry, or the sum over processes where a shared folder is set."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

CONTENT_TYPE = CONTENT_TYPE_LATEST


def registry() -> CollectorRegistry:
    """The registry of the current metrics."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return shared
    return REGISTRY


def exposition() -> bytes:
    """The current metrics as text."""
    return generate_latest(registry())


def forget_process(pid: int, folder: Path) -> None:
    """Take a process that has ended out of the sum in ``folder``: what it said of the present is no longer
    so, what it has counted stays.
    """
    mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
