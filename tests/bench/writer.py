"""What one edit costs the writer at different sizes of the target, beside what it costs plain git.

CPU counts children (git) too. Files lie a hundred to a folder; the flat case is reported as well, because a
folder's tree object names every file in it and git itself pays for that with each commit.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from gitwriter.manifests import DEFAULT_LIMITS
from gitwriter.manifests.emitter import render_document
from reverser.store import Store
from tests.bench.options import Options
from tests.bench.report import Report
from tests.gitwriter.conftest import World, configmap, make_world
from tests.valkey import running_valkey

EDITS = 20
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
        for size, scene in _measured(sizes, flat=layout == "one folder").items():
            spent[size], plain[size] = scene.report(report, f"one edit among {size} files in {layout}")
        report.add(
            f"one edit, {layout}: CPU at {top} / at {sizes[0]} files",
            spent[top] / spent[sizes[0]],
            "x",
            bar=1.5 if layout != "one folder" else None,
            note=f"git alone {plain[top] / plain[sizes[0]]:.2f} x",
        )


@dataclass(slots=True)
class _Scene:
    """A target of one size, and the CPU seconds of the edits in it, own and children's."""

    size: int
    world: World
    folder: Path
    paths: list[str]
    writer: list[tuple[float, float]] = field(default_factory=list)
    plain: list[tuple[float, float]] = field(default_factory=list)
    commands: int = 0

    def write(self, number: int) -> None:
        """One edit by the writer; the first warms up."""
        store, made = self.world.store, len(self.world.subjects())
        commands = _commands(store)
        spent = _spent(lambda: _write(self.world, number))
        commands = _commands(store) - commands
        assert len(self.world.subjects()) == made + 1, "one edit is one commit"
        if number:
            self.commands += commands
            self.writer.append(spent)

    def report(self, report: Report, where: str) -> tuple[float, float]:
        """Adds the lines of this size; returns the means of the writer and of plain git."""
        own, children = (fmean(part) for part in zip(*self.writer, strict=True))
        plain = fmean(sum(both) for both in self.plain)
        beside = (
            f", {self.size - MANAGED} of them beside the target" if self.size > DEFAULT_LIMITS.files else ""
        )
        note = (
            f"own {own * 1000:.0f}, git children {children * 1000:.0f}, "
            f"{self.commands / EDITS:.0f} store commands{beside}"
        )
        report.add(f"{where}: CPU", (own + children) * 1000, "ms", note=note)
        report.add(f"{where}: git add, commit, push alone", plain * 1000, "ms")
        return own + children, plain


def _measured(sizes: Sequence[int], *, flat: bool) -> dict[int, _Scene]:
    """The sizes are edited in turn, so that a machine which slows down slows all of them down."""
    with ExitStack() as stack:
        stack.enter_context(patch("gitwriter.writer.PUSH_COOLDOWN_MS", 0))
        scenes = {size: _scene(stack, size, flat=flat) for size in sizes}
        for number in range(EDITS + 1):
            for scene in scenes.values():
                scene.write(number)
        plain = {
            size: _plain_git(scene.world.repository, scene.folder / "plain", scene.paths)
            for size, scene in scenes.items()
        }
        for number in range(EDITS + 1):
            for size, edit in plain.items():
                spent = _spent(partial(edit, number))
                if number:
                    scenes[size].plain.append(spent)
    return scenes


def _scene(stack: ExitStack, size: int, *, flat: bool) -> _Scene:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = stack.enter_context(running_valkey())
    url = f"redis://127.0.0.1:{server.port}/0"
    store = stack.enter_context(closing(Store.connect(url)))
    world = make_world(store, url, folder)
    paths = _seed(world.repository, size, flat=flat)
    return _Scene(size, world, folder, paths)


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


def _spent(one: Callable[[], None]) -> tuple[float, float]:
    """CPU seconds of a call, own and children's."""
    before = _cpu()
    one()
    after = _cpu()
    return after[0] - before[0], after[1] - before[1]


def _cpu() -> tuple[float, float]:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def _commands(store: Store) -> int:
    return int(store.client.info("stats")["total_commands_processed"])
