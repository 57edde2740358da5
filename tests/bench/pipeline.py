"""Whole-pipeline figures: first replay, restart, and the latency of one change."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reverser.kube.paths import core_path
from reverser.store import Store
from tests.bench.floor import Floor, commit_and_push, measure_floor, small_repository
from tests.bench.installation import installation
from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report, percentile
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

WAIT_SECONDS = 300.0
FULL = 10_000
"""Objects from which the bars of a first replay and of a restart hold."""
COOLDOWN_SECONDS = 5.5
_ROLES = {"watcher": "manage.py watch", "worker": " worker ", "beat": " beat ", "web": "manage.py serve"}


def run(report: Report, folder: Path, options: Options) -> None:
    """Measure everything that needs a cluster and an operator, in a small target and in a large one."""
    with installation(folder / "small") as (operator, space):
        _fill(space, options.small)
        measure_floor(space.kube, [core_path("configmaps", namespace=space.namespace)], space.folder)
        space.base(window="0s")
        settled(operator, space)
        _latency(report, operator, space, f"{options.small} objects", options.samples)
    _large(report, folder / "large", options)


def _large(report: Report, folder: Path, options: Options) -> None:
    objects = options.objects
    full = objects >= FULL  # with less, what every start costs is most of it
    with installation(folder) as (operator, space):
        _fill(space, objects)
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
        _set_window(space, "0s")
        _latency(report, operator, space, f"{objects} objects in one folder", max(options.samples // 2, 1))


def _fill(space: Workspace, objects: int) -> None:
    def create(number: int) -> None:
        space.configmap(f"cm-{number:05}", {"text": "x" * 850, "number": str(number)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(objects)))


def _pids(operator: Operator) -> dict[str, int]:
    return {role: found[0] for role, word in _ROLES.items() if (found := operator.pids(word))}


def store_memory(operator: Operator) -> int:
    """Bytes that the store uses for its data."""
    store = _store(operator)
    try:
        return int(store.client.info("memory")["used_memory"])
    finally:
        store.close()


def _store(operator: Operator) -> Store:
    return Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")


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
    pids = _pids(operator)
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


def settled(operator: Operator, space: Workspace, *, outcomes: int = 0) -> None:
    """The streams run and the journal is empty; so many outcomes at least are in the store."""
    store = _store(operator)

    def drained() -> bool:
        running = space.is_condition("gittargets", "gt", "Ready", "True")
        live = [stream for uid in store.read_gates() for stream in store.read_streams(uid).values()]
        streaming = bool(live) and all(stream.state == "streaming" for stream in live)
        empty = all(store.read_branch(branch).entries == 0 for branch in store.known_branches())
        return running and streaming and empty and len(store.read_outcomes()) >= outcomes

    until(drained, "streams run and the journal is empty", WAIT_SECONDS)
    store.close()


def _set_window(space: Workspace, text: str) -> None:
    space.patch_own("gitproviders", "gp", {"push": {"commitWindow": text}})


def _latency(report: Report, operator: Operator, space: Workspace, what: str, samples: int) -> None:
    """One change at a time; plain git does the like right after each, so that both meet the same machine."""
    folder = space.folder
    ref = space.repository / "refs" / "heads" / "main"
    small, alike = small_repository(folder), folder / "floor"
    pids = _pids(operator)
    spent: dict[str, float] = dict.fromkeys(pids, 0.0)
    resting: dict[str, float] = dict.fromkeys(pids, 0.0)
    taken, plain, plain_alike = [], [], []
    for number in range(samples):
        rest = {role: usage(pid).cpu for role, pid in pids.items()}
        time.sleep(COOLDOWN_SECONDS)  # the first push after the cooldown goes at once
        before = {role: usage(pid).cpu for role, pid in pids.items()}
        # read as a file: a git child each time would take the processor from what is measured
        tip = ref.read_text()
        began = time.perf_counter()
        space.set("cm-00001", f"latency-{number}", key="text")
        while ref.read_text() == tip:
            time.sleep(0.002)
        taken.append(time.perf_counter() - began)
        time.sleep(0.5)
        for role, pid in pids.items():
            spent[role] += usage(pid).cpu - before[role]
            resting[role] += before[role] - rest[role]
        plain.append(commit_and_push(small, "a.yaml", f"v: latency-{number}\n"))
        text = f"v: latency-{number}\n"
        plain_alike.append(commit_and_push(alike, "live/configmaps/cm-00001.yaml", text))
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        value = percentile(taken, share)
        report.add(f"apply to remote, window 0, {what}, {name}", value * 1000, "ms", note=f"of {samples}")
        for floor, where, bar in (
            (plain_alike, "the same folder", 2.5),
            (plain, "a repository of one file", None),
        ):
            report.add(
                f"apply to remote / git in {where}, {what}, {name}",
                value / percentile(floor, share),
                "x",
                bar=bar,
                note=f"git alone {percentile(floor, share) * 1000:.0f} ms",
            )
    for role, cpu in spent.items():
        report.add(f"one change, {what}: {role} CPU", cpu / samples * 1000, "ms")
        idle = resting[role] / samples / COOLDOWN_SECONDS
        report.add(f"at rest, {what}: {role} CPU of one core", idle * 100, "%")
