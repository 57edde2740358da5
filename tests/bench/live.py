"""One watcher under a steady load: time to the journal, CPU; then one writer, and what Git holds of it."""

from __future__ import annotations

import io
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import orjson
import yaml

from gitwriter.runtime import WriterRuntime
from reverser.config import load_config
from reverser.kube.paths import resource_path
from reverser.store import Store
from reverser.store.model import EventEntry
from tests.bench.load import GROUP, NAMESPACE, OBJECTS, plural
from tests.bench.options import Options
from tests.bench.processes import usage
from tests.bench.report import Report, percentile, timed
from tests.bench.scene import BRANCH, WAIT_SECONDS, Scene, scene
from tests.e2e.workspace import until

TYPES = 20
WRITE_SECONDS = 600.0


def run(report: Report, folder: Path, options: Options) -> None:
    """Twenty types, one target."""
    with scene(folder / "live", types=TYPES, targets=1) as found:
        _write(found, folder)  # the first replay
        _load(report, found, options.rate, options.seconds)
        _tree(report, found, folder)


def _load(report: Report, scene: Scene, rate: int, seconds: float) -> None:
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
        note=f"over {TYPES} types, at most {made['late']:.2f} s late",
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
    assert len(last) == TYPES * OBJECTS


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


def _write(scene: Scene, folder: Path) -> None:
    """Let a writer of this process empty the journal."""
    config = load_config({"REVERSER_STATE_DIR": str(folder / "writer")})
    runtime = WriterRuntime(store=scene.store, kube=scene.kube, config=config)
    deadline = time.monotonic() + WRITE_SECONDS
    while scene.entries:
        assert time.monotonic() < deadline, f"{scene.entries} entries are left after {WRITE_SECONDS:.0f} s"
        runtime.write(BRANCH)
        time.sleep(0.05)


def _tree(report: Report, scene: Scene, folder: Path) -> None:
    """What lay in the journal is written, and Git holds what the cluster holds."""
    queued = scene.entries
    with timed() as writing:
        _write(scene, folder)
    report.add("live load: queued changes written a second afterwards", queued / writing.wall, "1/s")
    live = {
        (plural(number), item["metadata"]["name"]): item["spec"]
        for number in range(TYPES)
        for item in scene.kube.list(resource_path(GROUP, "v1", plural(number), namespace=NAMESPACE)).items
    }
    tree = _files(scene.repository)
    wrong = sum(tree.get(key) != spec for key, spec in live.items()) + len(set(tree) - set(live))
    report.add(
        "live load: files that differ from the cluster in the end", wrong, "", bar=0.0, note=f"of {len(live)}"
    )


def _files(repository: Path) -> dict[tuple[str, str], Any]:
    """The spec in each file of the branch, by resource and name."""
    git = ["git", f"--git-dir={repository}", "archive", "--format=tar", "main"]
    packed = subprocess.run(git, check=True, capture_output=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".yaml") else None
            if file is not None:
                document = yaml.load(file.read(), Loader=yaml.CSafeLoader)
                path = Path(member.name)
                found[path.parent.name, path.stem] = document["spec"]
    return found
