"""Whole-pipeline figures of a large target: first replay, restart, and the latency of one change."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reverser.kube.paths import core_path
from tests.bench.floor import Floor, measure_floor
from tests.bench.installation import WAIT_SECONDS, connect, fill, installation, pids_of_roles, settled
from tests.bench.latency import Site, measure
from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

FULL = 10_000
"""Objects from which the bars of a first replay and of a restart hold."""
FEWER_IN_LARGE = 8
"""Changes there all go to one branch, whose cooldown lies between any two of them."""


def run(report: Report, folder: Path, options: Options) -> None:
    """First replay, restarts, and single changes in a target with many files in one folder."""
    objects = options.objects
    full = objects >= FULL  # with less, what every start costs is most of it
    with installation(folder) as (operator, space):
        fill(space, objects)
        floor = measure_floor(space.kube, [core_path("configmaps", namespace=space.namespace)], folder)
        report.add("floor: list, dump, write, commit, push", floor.total, "s", note=str(floor))
        what = f"{objects} ConfigMaps of 1 KB"
        idle = store_memory(operator)
        space.provider()
        first_replay(report, operator, space, what=what, floor=floor, bar=1.2 if full else None)
        settled(operator, space)
        kept = (store_memory(operator) - idle) / objects * 10_000 / 2**20
        report.add("store memory for 10,000 objects that rest", kept, "MB")
        _restarts(report, operator, space, floor, 0.5 if full else None)
        space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "0s"}})
        samples = max(options.samples // FEWER_IN_LARGE, 1)
        measure(report, operator, [Site.of(space)], f"{objects} objects in one folder", samples)


def store_memory(operator: Operator) -> int:
    """Bytes that the store uses for its data."""
    store = connect(operator)
    try:
        return int(store.client.info("memory")["used_memory"])
    finally:
        store.close()


def first_replay(
    report: Report,
    operator: Operator,
    space: Workspace,
    *,
    what: str,
    floor: Floor,
    rules: Sequence[dict[str, Any]] = (CONFIGMAPS,),
    commits: int = 1,
    bar: float | None = None,
    **target: Any,
) -> None:
    """From the rule that selects everything to the last of so many pushed commits."""
    space.target(**target)
    until(lambda: space.is_condition("gittargets", "gt", "Validated", "True"), "Validated", WAIT_SECONDS)
    pids = pids_of_roles(operator)
    before = {role: usage(pid) for role, pid in pids.items()}
    began = time.perf_counter()
    space.rule(rules)
    until(lambda: len(space.subjects()) >= commits, f"{commits} commits", WAIT_SECONDS)
    wall = time.perf_counter() - began
    report.add(f"first replay of {what}", wall, "s", note=space.subjects()[0])
    report.add(f"first replay of {what} / floor", wall / floor.total, "x", bar=bar)
    for role in ("watcher", "worker"):
        after = usage(pids[role])
        report.add(f"first replay of {what}: {role} CPU", after.cpu - before[role].cpu, "s")
        most = 400.0 if role == "worker" else None
        report.add(f"first replay of {what}: {role} peak memory", after.peak_mb, "MB", bar=most)


def _restarts(report: Report, operator: Operator, space: Workspace, floor: Floor, bar: float | None) -> None:
    space.wait_ready(seconds=WAIT_SECONDS)
    tip = space.git.tip()
    for name, flush in (("resume", False), ("full replay", True)):
        operator.stop()
        if flush:
            shutil.rmtree(operator.state / "valkey" / "appendonlydir")
        started = time.perf_counter()
        operator.start()
        began = time.perf_counter()
        settled(operator, space, outcomes=1 if flush else 0)
        wall = time.perf_counter() - began
        whole = time.perf_counter() - started
        report.add(
            f"restart with nothing changed ({name}): ready to drained / floor",
            wall / floor.total,
            "x",
            bar=bar,
            note=f"{wall:.1f} s; {whole:.1f} s from the start of the processes",
        )
        assert space.git.tip() == tip, "a restart made a commit"
