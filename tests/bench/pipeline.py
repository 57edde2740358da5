"""Whole-pipeline figures: first replay, restart, and the latency of one change."""

from __future__ import annotations

import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reverser.kube.paths import core_path
from reverser.kube.sync import Kube
from tests.bench.floor import Floor, commit_and_push, measure_floor
from tests.bench.processes import usage
from tests.bench.report import Report, percentile
from tests.e2e.cluster import running_cluster, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until

WAIT_SECONDS = 300.0
LATENCY_SAMPLES = 8
COOLDOWN_SECONDS = 5.5
_ROLES = {"watcher": "manage.py watch", "worker": " worker ", "beat": " beat ", "web": "manage.py serve"}


def run(report: Report, folder: Path, objects: int) -> None:
    """Measure everything that needs a cluster and an operator."""
    with running_cluster(folder) as kubeconfig:
        kube = wait_for_cluster(kubeconfig)
        operator = Operator(folder / "state", kubeconfig)
        operator.start()
        try:
            space = Workspace(kube, f"bench-{uuid.uuid4().hex[:6]}", folder)
            _fill(kube, space, objects)
            floor = measure_floor(kube, core_path("configmaps", namespace=space.namespace), folder)
            report.add("floor: list, dump, write, commit, push", floor.total, "s", note=_steps(floor))
            _first_replay(report, operator, space, objects, floor)
            _restarts(report, operator, space, floor)
            _latency(report, operator, space, folder)
        finally:
            if operator.running:
                operator.stop()


def _steps(floor: Floor) -> str:
    return (
        f"list {floor.listing:.2f} dump {floor.dumping:.2f} write {floor.writing:.2f} "
        f"commit {floor.committing:.2f} push {floor.pushing:.2f}"
    )


def _fill(kube: Kube, space: Workspace, objects: int) -> None:
    def create(number: int) -> None:
        space.configmap(f"cm-{number:05}", {"text": "x" * 850, "number": str(number)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(objects)))
    del kube


def _pids(operator: Operator) -> dict[str, int]:
    return {role: found[0] for role, word in _ROLES.items() if (found := operator.pids(word))}


def _first_replay(report: Report, operator: Operator, space: Workspace, objects: int, floor: Floor) -> None:
    space.provider()
    space.target()
    until(lambda: space.is_condition("gittargets", "gt", "Validated", "True"), "Validated", WAIT_SECONDS)
    pids = _pids(operator)
    before = {role: usage(pid) for role, pid in pids.items()}
    began = time.perf_counter()
    space.rule()
    until(lambda: space.git.tip(), "the first commit", WAIT_SECONDS)
    wall = time.perf_counter() - began
    subject = space.subjects()[0]
    report.add(f"first replay of {objects} ConfigMaps of 1 KB", wall, "s", note=subject)
    report.add("first replay / floor", wall / floor.total, "x", bar=1.2)
    for role in ("watcher", "worker"):
        after = usage(pids[role])
        report.add(f"first replay: {role} CPU", after.cpu - before[role].cpu, "s")
        bar = 400.0 if role == "worker" else None
        report.add(f"first replay: {role} peak memory", after.peak_mb, "MB", bar=bar)


def _restarts(report: Report, operator: Operator, space: Workspace, floor: Floor) -> None:
    space.wait_ready(seconds=WAIT_SECONDS)
    tip = space.git.tip()
    for name, flush in (("resume", False), ("full replay", True)):
        operator.stop()
        if flush:
            shutil.rmtree(operator.state / "valkey" / "appendonlydir")
        operator.start()
        began = time.perf_counter()
        settled(operator, space)
        wall = time.perf_counter() - began
        report.add(
            f"restart with nothing changed ({name}): ready to drained / floor",
            wall / floor.total,
            "x",
            bar=0.5,
            note=f"{wall:.1f} s",
        )
        assert space.git.tip() == tip, "a restart made a commit"


def settled(operator: Operator, space: Workspace) -> None:
    """The streams run and the journal is empty."""
    from reverser.store import Store

    store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")

    def drained() -> bool:
        running = space.is_condition("gittargets", "gt", "Ready", "True")
        live = {scope for uid in store.read_gates() for scope in store.read_streams(uid)}
        empty = all(store.read_branch(branch).entries == 0 for branch in store.known_branches())
        return running and bool(live) and empty

    until(drained, "streams run and the journal is empty", WAIT_SECONDS)
    store.close()


def _latency(report: Report, operator: Operator, space: Workspace, folder: Path) -> None:
    del operator
    space.kube.patch(
        f"/apis/configbutler.ai/v1alpha3/namespaces/{space.namespace}/gitproviders/gp",
        {"spec": {"push": {"commitWindow": "0s"}}},
    )
    ref = space.repository / "refs" / "heads" / "main"
    taken = []
    for number in range(LATENCY_SAMPLES):
        time.sleep(COOLDOWN_SECONDS)  # the first push after the cooldown goes at once
        # read as a file: a git child each time would take the processor from what is measured
        tip = ref.read_text()
        began = time.perf_counter()
        space.set("cm-00001", f"latency-{number}", key="text")
        while ref.read_text() == tip:
            time.sleep(0.002)
        taken.append(time.perf_counter() - began)
    plain = commit_and_push(folder, LATENCY_SAMPLES)
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        report.add(f"apply to remote, window 0, {name}", percentile(taken, share), "s")
        report.add(
            f"apply to remote / git commit and push, {name}",
            percentile(taken, share) / percentile(plain, share),
            "x",
            bar=2.5,
        )
