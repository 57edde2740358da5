"""Two replicas that are real processes, with short leases: one is killed, one sleeps past its lease.

``tests/e2e/test_takeover.py`` is the same with three replicas and the product's own durations.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Bench, Cluster
from .replicas import killed, stopped

SHORT = {"lease": 5.0, "renew": 0.6, "claim": 0.2, "retry_first": 0.2, "retry_max": 0.5}
LIMIT = 60.0
"""Generous: here the seconds are not what is shown."""


@pytest.mark.timeout(600)
async def test_a_killed_replicas_targets_stream_elsewhere(
    bench: Bench, cluster: Cluster, tmp_path: Path
) -> None:
    """Scaling out: what a killed replica held goes on elsewhere, from cursors, without a replay."""
    await killed(bench, cluster, tmp_path, 2, LIMIT, **SHORT)


@pytest.mark.timeout(600)
async def test_a_stopped_replica_cannot_append_when_it_wakes(
    bench: Bench, cluster: Cluster, tmp_path: Path
) -> None:
    """E28: a replica that was stopped past its lease changes nothing when it wakes."""
    await stopped(bench, cluster, tmp_path, 2, LIMIT, **SHORT)
