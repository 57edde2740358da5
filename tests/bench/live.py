"""One watcher under a steady load, and one that holds 500 watches: time to the journal, memory, CPU."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from reverser.kube.client import Kube
from reverser.kube.paths import own_path
from reverser.store import Store, keys
from reverser.store.model import BranchKey, EventEntry, Gate
from tests.bench.load import GROUP, NAMESPACE, OBJECTS, plural
from tests.bench.processes import usage
from tests.bench.report import Report, percentile
from tests.e2e.workspace import until
from tests.valkey import running_valkey

API = "configbutler.ai/v1alpha3"
BRANCH = BranchKey(NAMESPACE, "gp", "main")
LIVE_TYPES = 20
WATCH_TYPES, WATCH_TARGETS = 10, 50
IDLE_SECONDS = 15.0
WAIT_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster, a store and a watcher, each a process of its own."""

    store: Store
    load: subprocess.Popen[str]
    watcher: subprocess.Popen[bytes]

    def change(self, rate: int, seconds: float) -> dict[str, float]:
        """Let the cluster change for a while; what was made."""
        assert self.load.stdin and self.load.stdout
        self.load.stdin.write(f"{rate} {seconds}\n")
        self.load.stdin.flush()
        return dict(json.loads(self.load.stdout.readline()))

    @property
    def entries(self) -> int:
        """What is in the journal."""
        return int(self.store.client.xlen(keys.journal(BRANCH)))

    @property
    def memory(self) -> int:
        """Bytes that the store uses for its data."""
        return int(self.store.client.info("memory")["used_memory"])


@contextmanager
def _scene(folder: Path, *, types: int, targets: int) -> Iterator[Scene]:
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "tests.bench.load", str(kubeconfig), str(types)]
    load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert load.stdin and load.stdout
    try:
        load.stdout.readline()
        with running_valkey() as server:
            url = f"redis://127.0.0.1:{server.port}/0"
            store = Store.connect(url)
            uids = _targets(Kube.connect(str(kubeconfig)), types, targets)
            store.open_journal(BRANCH)
            for index, uid in enumerate(uids):
                store.write_gate(uid, Gate(open=True, generation=1, branch=BRANCH, path=f"p{index}"))
            command = [sys.executable, "-m", "tests.bench.watching", str(kubeconfig), url, str(folder)]
            watcher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                until(
                    lambda: _streaming(store, uids) == types * targets,
                    f"{types * targets} watches stream",
                    WAIT_SECONDS,
                )
                yield Scene(store, load, watcher)
            finally:
                watcher.terminate()
                watcher.wait(30)
                store.close()
    finally:
        load.stdin.close()
        load.wait(30)


def _targets(kube: Kube, types: int, targets: int) -> list[str]:
    def own(kind: str, name: str, spec: dict[str, object]) -> str:
        body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = kube.create(own_path(f"{kind.lower()}s", namespace=NAMESPACE), body)
        return str(made["metadata"]["uid"])

    own("GitProvider", "gp", {"url": "https://git.example.com/x.git", "allowedBranches": ["main"]})
    resources = [plural(number) for number in range(types)]
    uids = []
    for index in range(targets):
        spec: dict[str, object] = {"providerRef": {"name": "gp"}, "branch": "main", "path": f"p{index}"}
        uids.append(own("GitTarget", f"t{index}", spec))
        rule = {"targetRef": {"name": f"t{index}"}}
        own("WatchRule", f"t{index}", {**rule, "rules": [{"apiGroups": [GROUP], "resources": resources}]})
    return uids


def _streaming(store: Store, uids: list[str]) -> int:
    return sum(r.state == "streaming" for uid in uids for r in store.read_streams(uid).values())


def run(report: Report, folder: Path, *, rate: int, seconds: float) -> None:
    """Both figures."""
    with _scene(folder / "live", types=LIVE_TYPES, targets=1) as scene:
        _live(report, scene, rate, seconds)
    with _scene(folder / "watches", types=WATCH_TYPES, targets=WATCH_TARGETS) as scene:
        _watches(report, scene)


def _live(report: Report, scene: Scene, rate: int, seconds: float) -> None:
    before, first, memory = usage(scene.watcher.pid), scene.entries, scene.memory
    made = scene.change(rate, seconds)
    began, expected = time.monotonic(), first + int(made["made"])
    until(lambda: scene.entries >= expected, "every change is in the journal", WAIT_SECONDS)
    behind = time.monotonic() - began
    after = usage(scene.watcher.pid)
    reached = made["made"] / made["seconds"]
    report.add(
        "live load: changes a second that the cluster made",
        reached,
        "1/s",
        bar=rate * 0.98,
        at_least=True,
        note=f"over {LIVE_TYPES} types, at most {made['late']:.2f} s late",
    )
    taken, last = _delays(scene.store)
    report.add("live load: event to journal, p50", percentile(taken, 0.5) * 1000, "ms")
    report.add("live load: event to journal, p99", percentile(taken, 0.99) * 1000, "ms", bar=250.0)
    report.add("live load: behind when the last change was made", behind, "s", bar=1.0)
    cpu = (after.cpu - before.cpu) / made["seconds"]
    report.add("live load: watcher CPU", cpu, "cores")
    report.add("live load: watcher peak memory", after.peak_mb, "MB")
    per_change = (scene.memory - memory) / made["made"]
    report.add("store memory for one queued change of 0.5 KB", per_change / 1024, "KB")
    assert len(taken) == made["made"], "a change was lost or doubled"
    assert sorted(last.values())[-1] == made["made"]
    assert len(last) == LIVE_TYPES * OBJECTS


def _delays(store: Store) -> tuple[list[float], dict[tuple[str, str], int]]:
    """Seconds from each change to its entry, and the number of each object's last change. Raises
    AssertionError where the order of an object's changes is not kept.
    """
    delays: list[float] = []
    last: dict[tuple[str, str], int] = {}
    after = ""
    while page := store.read_entries(BRANCH, after):
        after = page[-1].id
        for stored in page:
            if not isinstance(stored.entry, EventEntry):
                continue
            spec = orjson.loads(stored.entry.body)["spec"]
            key = (stored.entry.object.type.resource, stored.entry.object.name)
            assert last.get(key, 0) < spec["number"], "an object's changes are out of order"
            last[key] = spec["number"]
            delays.append(max(stored.time_ms / 1000 - spec["at"], 0.0))
    return delays, last


def _watches(report: Report, scene: Scene) -> None:
    time.sleep(5)
    before = usage(scene.watcher.pid)
    time.sleep(IDLE_SECONDS)
    after = usage(scene.watcher.pid)
    count = WATCH_TYPES * WATCH_TARGETS
    report.add(f"{count} watches: memory of the watcher", after.resident_mb, "MB", bar=300.0)
    idle = (after.cpu - before.cpu) / IDLE_SECONDS * 100
    report.add(f"{count} watches: idle CPU of one core", idle, "%", bar=2.0)
