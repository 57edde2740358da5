"""Three watcher replicas with the product's own durations: one is killed, one is stopped past its lease."""

from __future__ import annotations

from pathlib import Path

from tests.watchers.conftest import Bench, Cluster, bench, cluster, definitions  # noqa: F401
from tests.watchers.replicas import killed, stopped

TAKEOVER = 20.0
"""Seconds within which the targets of a killed replica stream elsewhere."""


async def test_a_killed_replicas_targets_stream_elsewhere(
    bench: Bench,  # noqa: F811
    cluster: Cluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Scaling out: within 20 s of a kill -9, evenly, resuming from cursors."""
    print(f"streaming elsewhere after {await killed(bench, cluster, tmp_path, 3, TAKEOVER):.1f} s")


async def test_a_stopped_replica_cannot_append_when_it_wakes(
    bench: Bench,  # noqa: F811
    cluster: Cluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    """E28: a replica that was stopped past its lease changes nothing when it wakes."""
    await stopped(bench, cluster, tmp_path, 3, 3 * TAKEOVER)
