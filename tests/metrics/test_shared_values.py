"""Metrics of several processes on a disk that is full, broken or gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reverser.metrics import exposition
from reverser.sharedvalues import ValuesFile
from tests.meta.exposed import PACKAGES, ROOT
from tests.soak.machine import Machine
from tests.soak.plan import Fault

COUNT = """
import contextlib, logging, os, resource, sys
from pathlib import Path
from reverser.instruments import Counter, Gauge, Histogram
from reverser.metrics import exposition

logging.basicConfig(format="%(message)s")
folder, limited = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]), sys.argv[1] == "limited"
counter, gauge = Counter("x", "help" * 200, ["l"]), Gauge("g", "x", multiprocess_mode="livemax")
histogram = Histogram("h", "x")
counter.labels("first").inc()
if limited:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
else:
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
for number in range(100):
    counter.labels(str(number)).inc()
    histogram.observe(1)
counter.labels("first").inc()
gauge.set(7)
print(exposition().decode().count("x_total{"))
if limited:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
else:
    (folder / "filler").unlink()
for metric in (counter.labels("last"), histogram, gauge):
    getattr(metric, "inc", lambda: metric.observe(1))()
print(exposition().decode())
"""


def _count(folder: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT, way],
        cwd=ROOT,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr.count("metrics do not reach the sum")) == (0, 1), done.stderr
    while_full, *lines = done.stdout.splitlines()
    assert int(while_full) < 100, "nothing was in the way"
    assert {'x_total{l="first"} 2.0', 'x_total{l="99"} 1.0', 'x_total{l="last"} 1.0'} <= set(lines)
    assert {"g 8.0", "h_count 101.0"} <= {line.replace("g{}", "g") for line in lines}


def test_a_full_disk_kills_nobody_who_counts(tmp_path: Path) -> None:
    """A page for which the disk has no room ends no process; it is told once, and what was counted meanwhile
    is in the sum when there is room again. Without the right to mount the next test stands for it.
    """
    machine, folder = Machine(tmp_path), tmp_path / "disk"
    machine.small_disk(folder)
    if Fault.DISK_FULL in machine.missing:
        return
    try:
        _count(folder, "full")
    finally:
        machine.close()


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """The same where a limit of the process says no, instead of the disk."""
    _count(tmp_path, "limited")


def test_a_folder_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Values are kept by the process, and written once the folder is there."""
    values = ValuesFile(str(tmp_path / "metrics" / "counter_1.db"))
    assert values.read_value("key") == (0.0, 0.0)
    values.write_value("key", 2.0, 5.0)
    assert values.read_value("key") == (2.0, 5.0)
    (tmp_path / "metrics").mkdir()
    values.write_value("other", 1.0, 0.0)
    values.close()
    assert list((tmp_path / "metrics").iterdir()) == [tmp_path / "metrics" / "counter_1.db"]
    again = ValuesFile(str(tmp_path / "metrics" / "counter_1.db"))
    assert (again.read_value("key"), again.read_value("other")) == ((2.0, 5.0), (1.0, 0.0))


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x10\x00\x00\x00" + b"\xff" * 40])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    """Whatever stands under the name of one's own file."""
    path = tmp_path / "counter_1.db"
    path.write_bytes(content)
    ValuesFile(str(path)).write_value("key", 3.0, 0.0)
    assert ValuesFile(str(path)).read_value("key") == (3.0, 0.0)


def test_the_library_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of every length, also in letters of several bytes, over more than a page."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    values = ValuesFile(str(tmp_path / f"counter_{os.getpid()}.db"))
    for number in range(300):
        values.write_value(f'["x", "x_total", {{"l": "{"é" * (number % 17)}{number}"}}, "help"]', number, 0.0)
    text = exposition().decode()
    assert text.count("x_total{") == 300
    assert f'x_total{{l="{"é" * (299 % 17)}299"}} 299.0' in text


def test_every_metric_is_made_of_these() -> None:
    """No module takes the library's own counters, whose process a full disk kills."""
    own = ROOT / "reverser" / "instruments.py"
    taken = {
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path != own
        for line in path.read_text().splitlines()
        if line.startswith("from prometheus_client import")
        and {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"} & set(line.replace(",", " ").split())
    }
    assert taken == set()
