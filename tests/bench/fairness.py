"""Many branches on few threads: does the oldest change of any branch wait much longer than the others'?"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from reverser.store import Store, keys
from reverser.store.model import BranchKey
from tests.bench.installation import installation
from tests.bench.options import Options
from tests.bench.report import Report
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

THREADS = 4
SECONDS = 40.0
WAIT_SECONDS = 240.0


def run(report: Report, folder: Path, options: Options) -> None:
    """One change a second that reaches every branch of one repository."""
    branches = options.branches
    with installation(folder, REVERSER_WORKER_THREADS=str(THREADS)) as (operator, space):
        space.provider(window="0s", allowedBranches=["*", "env/*"])
        for number in range(branches):
            space.target(f"t{number}", branch=f"env/b{number}")
            space.rule([CONFIGMAPS], name=f"r{number}", target=f"t{number}")
        for number in range(branches):
            space.wait_streams(f"t{number}", seconds=WAIT_SECONDS)
        store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")
        _measure(report, space, store, branches)
        store.close()


def _measure(report: Report, space: Workspace, store: Store, branches: int) -> None:
    space.configmap("a")
    until(lambda: _drained(store, branches), "the first change is everywhere", WAIT_SECONDS)
    stop = threading.Event()
    changes = [0]

    def change() -> None:
        while not stop.wait(1.0):
            changes[0] += 1
            space.set("a", str(changes[0]))

    thread = threading.Thread(target=change, daemon=True)
    commands, leases = _commands(store), _leases(store)
    began = time.monotonic()
    thread.start()
    oldest: dict[str, float] = {}
    while time.monotonic() - began < SECONDS:
        for branch in store.known_branches():
            oldest[branch.id] = max(oldest.get(branch.id, 0.0), _age(store, branch))
        time.sleep(0.25)
    stop.set()
    thread.join()
    until(lambda: _drained(store, branches), "everything is written", WAIT_SECONDS)
    wall = time.monotonic() - began
    ages = list(oldest.values())
    mean = sum(ages) / len(ages)
    total = changes[0] * branches
    report.add(f"{branches} branches: oldest change of a branch, mean", mean, "s")
    report.add(f"{branches} branches: oldest of all / mean", max(ages) / mean, "x", bar=3.0)
    report.add(f"{branches} branches: changes written a second", total / wall, "1/s")
    leased = (_leases(store) - leases) / wall / branches
    report.add(f"{branches} branches: leases of a branch a second", leased, "1/s")
    report.add("store commands for one change", (_commands(store) - commands) / total, "")


def _drained(store: Store, branches: int) -> bool:
    known = store.known_branches()
    return len(known) >= branches and all(store.read_branch(branch).entries == 0 for branch in known)


def _age(store: Store, branch: BranchKey) -> float:
    first: Any = store.client.xrange(keys.journal(branch), count=1)
    return (store.time_ms() - int(first[0][0].split(b"-")[0])) / 1000 if first else 0.0


def _commands(store: Store) -> int:
    return int(store.client.info("stats")["total_commands_processed"])


def _leases(store: Store) -> int:
    names = store.client.scan_iter(match=f"{keys.ROOT}:lease:v1:branch:*:number")
    return sum(int(store.client.get(name) or 0) for name in names)
