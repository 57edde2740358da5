"""What one edit costs the writer at different sizes of the target, beside what it costs plain git.

CPU counts children (git) too. Files lie a hundred to a folder; the flat case is reported as well, because a
folder's tree object names every file in it and git itself pays for that with each commit.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gitwriter.manifests import DEFAULT_LIMITS
from gitwriter.manifests.emitter import render_document
from reverser.store import Store
from tests.bench.options import Options
from tests.bench.report import Report
from tests.gitwriter.conftest import World, configmap, make_world
from tests.valkey import running_valkey

EDITS = 10
PER_FOLDER = 100
MANAGED = DEFAULT_LIMITS.files // 2
"""Above this many files a part of them lies beside the target, whose size is bounded."""


def run(report: Report, folder: Path, options: Options) -> None:
    """One edit at each size in both layouts, and the growth from the first size to 10,000."""
    del folder
    sizes = options.sizes
    top = max((size for size in sizes if size <= 10_000), default=sizes[0])
    for layout in ("folders of 100", "one folder"):
        spent: dict[int, float] = {}
        plain: dict[int, float] = {}
        for size in sizes:
            spent[size], plain[size] = _edit(report, size, flat=layout == "one folder", layout=layout)
        report.add(
            f"one edit, {layout}: CPU at {top} / at {sizes[0]} files",
            spent[top] / spent[sizes[0]],
            "x",
            bar=1.5 if layout != "one folder" else None,
            note=f"git alone {plain[top] / plain[sizes[0]]:.2f} x",
        )


def _edit(report: Report, size: int, *, flat: bool, layout: str) -> tuple[float, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_valkey() as server,
    ):
        url = f"redis://127.0.0.1:{server.port}/0"
        store = Store.connect(url)
        world = make_world(store, url, Path(folder))
        paths = _seed(world.repository, size, flat=flat)
        world.runtime.begin_shutdown()  # no cooldown between the measured pushes
        commands = _commands(store)
        before = len(world.subjects())
        own, children = _mean(lambda number: _write(world, number))
        made = len(world.subjects()) - before
        assert made == EDITS + 1, f"{made} commits"
        calls = (_commands(store) - commands) / made
        plain_own, plain_children = _mean(_plain_git(world.repository, Path(folder) / "plain", paths))
        store.close()
    where = f"one edit among {size} files in {layout}"
    beside = f", {size - MANAGED} of them beside the target" if size > DEFAULT_LIMITS.files else ""
    total, plain = own + children, plain_own + plain_children
    note = f"own {own * 1000:.0f}, git children {children * 1000:.0f}, {calls:.0f} store commands{beside}"
    report.add(f"{where}: CPU", total * 1000, "ms", note=note)
    report.add(f"{where}: git add, commit, push alone", plain * 1000, "ms")
    return total, plain


def _write(world: World, number: int) -> None:
    world.event(f"cm-{number}", f"changed-{number}")
    world.write()


def _seed(repository: Path, size: int, *, flat: bool) -> list[str]:
    """Commit the files as somebody else; returns the paths of those that are edited."""
    managed = size if size <= DEFAULT_LIMITS.files else MANAGED
    edited = []
    stream = [b"commit refs/heads/main\ncommitter Floor <floor@example.com> 1700000000 +0000\ndata 4\nseed\n"]
    for number in range(size):
        top = "live" if number < managed else "beside"
        path = f"{top}/cm-{number}.yaml" if flat else f"{top}/d{number // PER_FOLDER}/cm-{number}.yaml"
        content = render_document(configmap(f"cm-{number}", "x" * 900))
        stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))
        if number <= EDITS:
            edited.append(path)
    git = ["git", f"--git-dir={repository}", "fast-import", "--quiet"]
    subprocess.run(git, input=b"".join(stream), check=True)
    return edited


def _plain_git(repository: Path, work: Path, paths: Sequence[str]) -> Callable[[int], None]:
    """The same edit by git's porcelain in a work tree."""
    subprocess.run(["git", "clone", "-q", str(repository), str(work)], check=True, capture_output=True)
    git = ["git", "-C", str(work), "-c", "user.name=floor", "-c", "user.email=floor@example.com"]

    def edit(number: int) -> None:
        path = paths[number]
        (work / path).write_text(f"v: {number}\n")
        subprocess.run([*git, "add", path], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "edit"], check=True)
        subprocess.run([*git, "push", "-q", "origin", "HEAD:main"], check=True, capture_output=True)

    return edit


def _mean(one: Callable[[int], None]) -> tuple[float, float]:
    """Mean CPU seconds of a call, own and children's, after one to warm up."""
    one(0)
    before = _cpu()
    for number in range(1, EDITS + 1):
        one(number)
    after = _cpu()
    return (after[0] - before[0]) / EDITS, (after[1] - before[1]) / EDITS


def _cpu() -> tuple[float, float]:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def _commands(store: Store) -> int:
    return int(store.client.info("stats")["total_commands_processed"])
