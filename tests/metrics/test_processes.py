"""Metrics over several processes: under `up` they are one sum, in a cluster each pod is scraped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reverser.backlog import Backlogs
from reverser.metrics import exposition, forget_process
from reverser.processmetrics import OLDEST_UNPUSHED, QUEUE_DEPTH
from reverser.store.model import Backlog, BranchKey
from tests.meta.exposed import ROOT, exposed_metrics

LEAD = """
import os
from reverser.controllers.metrics import LEADING, STATUS_WRITES
LEADING.set(1)
STATUS_WRITES.labels("gittargets").inc()
print(os.getpid())
"""
MAIN, OTHER = BranchKey("shop", "gp", "main"), BranchKey("shop", "gp", "other")


def test_gauges_tell_of_processes_that_live() -> None:
    """No gauge has a label with a process id, and none keeps what a process said that is gone."""
    gauges = {name: metric.mode for name, metric in exposed_metrics().items() if metric.kind == "Gauge"}
    assert gauges
    others = {"livesum", "livemax", "livemin", "livemostrecent"}
    assert {name for name, mode in gauges.items() if mode not in others} == set()


def test_a_process_that_died_leaves_its_counts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who led and was killed does not lead; the next one is the only one. What it counted stays."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}

    def lead() -> int:
        done = subprocess.run(
            [sys.executable, "-c", LEAD],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=True,
        )
        return int(done.stdout)

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    forget_process(lead(), folder)
    lead()
    lines = exposition().decode().splitlines()
    assert "gitopsreverser_controllers_leading 1.0" in lines
    assert 'gitopsreverser_controller_status_writes_total{resource="gittargets"} 2.0' in lines


def test_a_branch_that_is_forgotten_has_nothing_waiting() -> None:
    """Both gauges fall to 0 for what this process showed and no longer knows."""

    def shown(branch: BranchKey) -> tuple[float, float]:
        labels = (branch.namespace, branch.provider, branch.branch)
        return (QUEUE_DEPTH.labels(*labels)._value.get(), OLDEST_UNPUSHED.labels(*labels)._value.get())

    backlogs = Backlogs()
    backlogs.show({MAIN: Backlog(3, 1500), OTHER: Backlog(1, 20)})
    assert (shown(MAIN), shown(OTHER)) == ((3, 1.5), (1, 0.02))
    backlogs.show({OTHER: Backlog(2, 40)})
    assert (shown(MAIN), shown(OTHER)) == ((0, 0), (2, 0.04))
    backlogs.show({})
    assert shown(OTHER) == (0, 0)
