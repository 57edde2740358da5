"""One watcher that holds five hundred watches: memory, and what it costs to wait."""

from __future__ import annotations

import time
from pathlib import Path

from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report
from tests.bench.scene import scene

TYPES, TARGETS = 10, 50
CALM_SECONDS = 15.0
IDLE_SECONDS = 60.0


def run(report: Report, folder: Path, options: Options) -> None:
    """Long enough that what comes every half a minute counts as often as it comes."""
    del options
    with scene(folder / "watches", types=TYPES, targets=TARGETS) as found:
        time.sleep(CALM_SECONDS)
        before = usage(found.watcher.pid)
        time.sleep(IDLE_SECONDS)
        after = usage(found.watcher.pid)
    count = TYPES * TARGETS
    report.add(f"{count} watches: memory of the watcher", after.resident_mb, "MB", bar=300.0)
    idle = (after.cpu - before.cpu) / IDLE_SECONDS * 100
    report.add(f"{count} watches: idle CPU of one core", idle, "%", bar=2.0)
