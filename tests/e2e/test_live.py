"""Live mirroring under load and at its edges: order, windows, pushes, volume."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from reverser.errors import ReverserError
from tests.e2e.operator import Operator
from tests.e2e.test_restarts import forget_redis
from tests.e2e.workspace import Workspace, until


def pushes(space: Workspace) -> list[float]:
    """When the branch moved, by the server's own log."""
    log = space.repository / "pushes"
    return [float(line) for line in log.read_text().split()] if log.exists() else []


def watch_pushes(space: Workspace) -> None:
    """Log every push with its time."""
    space.hook("post-receive", f"date +%s.%N >> {space.repository / 'pushes'}")


def test_windows_share_a_push(space: Workspace) -> None:
    """D11: three windows are three commits and at most two pushes, never closer than the cooldown."""
    watch_pushes(space)
    space.base(window="1s")
    space.configmap("zero")
    space.in_git("zero")
    for name in "abc":
        space.configmap(name)
        time.sleep(1.5)
    space.in_git("c")
    assert space.subjects()[:3] == [f"[CREATE] v1/configmaps/{name}" for name in "cba"]
    times = pushes(space)
    assert len(times) <= 3
    assert all(later - earlier >= 4.8 for earlier, later in pairwise(times)), times
    time.sleep(max(0.0, times[-1] + 5.2 - time.time()))
    started = time.monotonic()
    space.configmap("idle")
    space.in_git("idle")
    assert time.monotonic() - started < 4.5


@pytest.mark.parametrize("count", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_strict_order_under_load(space: Workspace, count: int) -> None:
    """D10, Q08: every value of a counter is one commit, in order, none twice, with other writers beside."""
    space.base(window="0s")
    space.configmap("ctr", {"v": "0"})
    for name in ("x", "y", "z"):
        space.configmap(name, {"v": "0"})

    def count_up(name: str) -> None:
        for value in range(1, count + 1 if name == "ctr" else count // 3):
            space.set(name, str(value))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, ("ctr", "x", "y", "z")))
    space.in_git("ctr", f'v: "{count}"'.encode(), seconds=60)
    until(lambda: f"{count // 3 - 1}" in space.values("z"), "the others are complete", 60)
    for name in ("ctr", "x", "y", "z"):
        last = count if name == "ctr" else count // 3 - 1
        assert space.values(name) == [str(value) for value in range(last + 1)]
    assert space.git.problems() == ""


@pytest.mark.parametrize("count", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_burst_of_creates(space: Workspace, count: int) -> None:
    """D20: every object of a burst is in Git once, with its value."""
    space.base(window="2s")

    def create(number: int) -> None:
        for _ in range(5):
            try:
                space.configmap(f"n{number}", {"v": str(number)})
            except ReverserError:
                time.sleep(0.5)
                continue
            return

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(create, range(count)))
    until(lambda: len(_mirrored(space)) == count, f"{count} files", 120)
    assert _mirrored(space) == {f"{space.file(f'n{number}')}" for number in range(count)}
    for number in range(0, count, 37):
        assert space.values(f"n{number}") == [str(number)]
    space.wait_streams()
    assert space.git.problems() == ""


def _mirrored(space: Workspace) -> set[str]:
    return {file for file in space.git.files() if "/configmaps/" in file}


def test_a_terminating_object(space: Workspace, operator: Operator) -> None:
    """D14, D15: removed when it is told to go, and no replay brings it back."""
    space.base()
    space.configmap("stay")
    space.configmap("held", finalizers=["lab.test/hold"])
    space.in_git("held")
    space.delete("held")
    space.gone_from_git("held")
    space.kube.patch(space.path(name="held"), {"metadata": {"annotations": {"poke": "1"}}})
    tip = space.git.tip()
    assert operator.stop() == 0
    forget_redis(operator)
    operator.start()
    space.wait_ready()
    space.quiet(3)
    space.kube.patch(space.path(name="held"), {"metadata": {"finalizers": None}})
    space.quiet(2)
    assert space.git.tip() == tip


def test_the_window_length_changes(space: Workspace) -> None:
    """D25: the next window obeys the new length, without a restart."""
    space.base(window="1s")
    space.configmap("a")
    space.in_git("a")
    time.sleep(5.5)
    space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "9s"}})
    time.sleep(1)
    started = time.monotonic()
    space.configmap("b")
    space.in_git("b")
    took = time.monotonic() - started
    assert 8.5 < took < 16, took
    space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "1s"}})
    time.sleep(5.5)
    started = time.monotonic()
    space.configmap("c")
    space.in_git("c")
    assert time.monotonic() - started < 7


@pytest.mark.slow
def test_many_types(space: Workspace) -> None:
    """D23: sixty custom types are watched by one wildcard, and one object of each arrives."""
    group = f"g{space.namespace.removeprefix('e2e-')}.many.test"
    for number in range(60):
        space.definition(group, plural=f"t{number:02d}s")
    space.base(rules=[{"apiGroups": [group], "resources": ["*"]}])

    def running() -> bool:
        streams = space.get("gittargets", "gt").get("status", {}).get("streams", {})
        return bool(streams.get("summary") == "60/60")

    until(running, "60 streams run", 90)
    for number in range(60):
        space.custom(group, "one", plural=f"t{number:02d}s", size=number)
    until(lambda: len([f for f in space.git.files() if f.endswith("/one.yaml")]) == 60, "60 objects", 30)


def test_a_full_buffer_closes_its_window(space: Workspace) -> None:
    """D21: an open window of a minute is cut when it holds the limit of bytes, and the rest follows."""
    space.base(window="60s")
    big = "x" * 200_000
    for number in range(50):
        space.configmap(f"n{number}", {"v": big})
    until(lambda: space.subjects(), "a commit before the window's time is over", 40)
    assert 1 <= len(_mirrored(space)) < 50
    space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "0s"}})
    until(lambda: len(_mirrored(space)) == 50, "all of them", 30)


def test_the_repository_is_only_fast_forwarded(space: Workspace, tmp_path: Path) -> None:
    """D, F: whatever happens beside it, each push of ours descends from the tip before it."""
    log = tmp_path / "refs"
    space.hook("post-receive", f"cat >> {log}")
    space.base(window="0s")
    for number in range(12):
        space.configmap(f"n{number}")
        if number % 4 == 3:
            space.in_git(f"n{number}")
            space.seed({f"docs/{number}.md": "by hand\n"})
    space.in_git("n11")
    space.quiet(1)
    for line in log.read_text().splitlines():
        old, new, ref = line.split()
        assert ref == "refs/heads/main"
        if set(old) == {"0"}:
            continue
        check = ["git", f"--git-dir={space.repository}", "merge-base", "--is-ancestor", old, new]
        assert subprocess.run(check, check=False).returncode == 0
    assert [space.git.read(f"docs/{number}.md") for number in (3, 7, 11)] == [b"by hand\n"] * 3
