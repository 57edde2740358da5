"""What a supervisor finds of the run before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from reverser.supervision.product import prepare_folders

COUNT = """
from prometheus_client import Counter, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
Counter("pushes", "x").inc(2)
registry = CollectorRegistry()
MultiProcessCollector(registry)
lines = generate_latest(registry).decode().splitlines()
print(*(line for line in lines if line.startswith("pushes_total")))
"""


def _count(state: Path) -> str:
    """What the sum says once one more process has counted two."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(state / "metrics")}
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return done.stdout.strip()


def test_figures_of_a_killed_run_are_not_added_to_those_of_this_one(tmp_path: Path) -> None:
    """Pain 121: several processes of one run are summed, what a run before left behind is gone; nor does a
    pid file of it stay.
    """
    prepare_folders(tmp_path)
    (tmp_path / "run" / "beat.pid").write_text("1")
    assert _count(tmp_path) == "pushes_total 2.0"
    assert _count(tmp_path) == "pushes_total 4.0"

    prepare_folders(tmp_path)

    assert not any((tmp_path / "run").iterdir())
    assert _count(tmp_path) == "pushes_total 2.0"
