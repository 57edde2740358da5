"""Several workers on one branch, one that sleeps past its lease, one that is killed at any step: all real."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from gitwriter.git.repository import BareRepository
from reverser.store import Store

from .conftest import World
from .processes import api_server, holders, killed_run, worker
from .test_writer import hook, restart, shutdown_write


def until(true: Callable[[], object], seconds: float = 120) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def values(world: World) -> list[int]:
    """What the ConfigMap ``ctr`` has been in Git, oldest first."""
    git = [
        "git",
        f"--git-dir={world.repository}",
        "log",
        "--reverse",
        "-p",
        "--format=",
        "main",
        "--",
        "*ctr.yaml",
    ]
    log = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return [int(found) for found in re.findall(r'^\+  v: "(\d+)"$', log, re.MULTILINE)]


def noting_pushes(world: World, folder: Path) -> Path:
    """A file with a line for each push: the branch's commit before and after it."""
    log = folder / "pushes"
    path = world.repository / "hooks" / "post-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat >> {log}\n")
    path.chmod(0o755)
    return log


def test_of_three_workers_one_writes(world: World, redis_url: str, tmp_path: Path) -> None:
    """W1, D10, pain 117: all are woken for the same branch again and again; each change is one commit, in
    order, each push builds on the one before, and no push is refused as late.
    """
    log = noting_pushes(world, tmp_path)
    refused = tmp_path / "refused"
    update = world.repository / "hooks" / "reference-transaction"
    update.write_text(f'#!/bin/sh\n[ "$1" = aborted ] && cat >> {refused}\nexit 0\n')
    update.chmod(0o755)
    with api_server(world) as port, ExitStack() as stack:
        for number in range(3):
            stack.enter_context(worker(tmp_path / f"worker{number}", redis_url, port))
        world.event("ctr", "1")
        until(lambda: values(world) == [1])
        for number in range(2, 41):
            world.event("ctr", str(number))
            for _ in range(3):
                world.store.wake_branch(world.branch)
            time.sleep(0.02)
        until(lambda: world.pending() == 0)
    assert values(world) == list(range(1, 41))
    tips = [line.split()[:2] for line in log.read_text().splitlines()]
    assert all(new == old for (_, new), (old, _) in pairwise(tips))
    assert not refused.exists()
    assert world.git.problems() == ""


def test_a_writer_that_sleeps_past_its_lease(world: World, redis_url: str, tmp_path: Path) -> None:
    """J15: stopped amid its push, it loses the branch to another; what it had on the way is lost or landed,
    never doubled, and once it goes on it changes nothing.
    """
    world.event("ctr", "1")
    world.write()
    hook(
        world,
        f"mkdir {tmp_path}/first 2>/dev/null || exit 0\n"
        f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexit 0",
    )
    with api_server(world) as port, ExitStack() as stack:
        for number in range(2):
            stack.enter_context(worker(tmp_path / f"worker{number}", redis_url, port, lease_ms=4000))
        world.event("ctr", "2")
        until((tmp_path / "first").exists)
        found: list[int] = []

        def held() -> bool:
            found[:] = holders(world.store)
            return len(found) == 1

        until(held)
        (holder,) = found
        os.kill(holder, signal.SIGSTOP)
        try:
            until(lambda: values(world) == [1, 2])
            world.event("ctr", "3")
            until(lambda: holders(world.store) != [holder] and world.pending() == 0)
        finally:
            (tmp_path / "go").touch()
            os.kill(holder, signal.SIGCONT)
        world.event("ctr", "4")
        until(lambda: world.pending() == 0)
    assert values(world) == [1, 2, 3, 4]
    assert world.git.problems() == ""


@pytest.mark.parametrize(
    "step",
    [
        (Store, "store_boundary", False),
        (Store, "store_intent", False),
        (BareRepository, "push", True),
        (BareRepository, "push", False),
        (Store, "settle", False),
    ],
    ids=["window stored", "push announced", "commit made", "push arrived", "settled"],
)
def test_a_kill_at_any_step(
    world: World, redis_url: str, tmp_path: Path, step: tuple[type, str, bool]
) -> None:
    """E15, E18: the next writer goes on; each change is one commit, and what was pushed is recognised."""
    for number in (1, 2, 3):
        world.event("ctr", str(number))
    with api_server(world) as port:
        owner, name, before = step
        folder = tmp_path / "killed"
        code = killed_run(world, folder, redis_url, port=port, owner=owner, name=name, before=before)
    assert code == -signal.SIGKILL
    tip = world.git.tip()
    world.expire_lease()
    restart(world)
    shutdown_write(world)
    assert values(world) == [1, 2, 3]
    assert world.pending() == 0
    assert not tip or world.git.tip() == tip
    assert world.git.problems() == ""


def test_a_kill_amid_the_push(world: World, redis_url: str, tmp_path: Path) -> None:
    """The remote has the objects when worker and git die; whether the push lands, the next one tells."""
    world.event("ctr", "1")
    pid = tmp_path / "pid"
    hook(world, f"mkdir {tmp_path}/first 2>/dev/null && kill -9 $(cat {pid})\nexit 0")
    with api_server(world) as port, worker(tmp_path / "worker", redis_url, port) as process:
        pid.write_text(str(process.pid))
        world.store.wake_branch(world.branch)
        assert process.wait(120) == -signal.SIGKILL
    world.expire_lease()
    restart(world)
    shutdown_write(world)
    until(lambda: world.pending() == 0, 1)
    assert values(world) == [1]
    assert world.git.problems() == ""
