"""The demo from outside: its story ends well, whatever is killed in the middle of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reverser.supervision.gitview import GitView
from tests.e2e.operator import ROOT
from tests.ports import free_port

pytestmark = pytest.mark.timeout(600)

PROCESSES = {
    "sandbox": "reverser.sandbox",
    "valkey": "valkey-server",
    "web": "manage.py serve",
    "watcher": "manage.py watch",
    "worker": "reverser worker",
    "beat": "reverser beat",
}
KILLED_AFTER = (1, 3, 6, 8)
"""Steps of the story."""
LOG_LINE = re.compile(r"(web|watcher|worker|beat) +\d{4}-\d\d-\d\dT[\d:.]+Z \[\w+ *\] ")
TREE = [
    "clusters/demo/.gittargetignore",
    "clusters/demo/.sops.yaml",
    "clusters/demo/README.md",
    "clusters/demo/shop/apps/deployments/till.yaml",
    "clusters/demo/shop/configmaps/opening-hours.yaml",
]


def children(parent: int, word: str) -> list[int]:
    """The child processes with a word in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            owner = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if owner == parent and word in line:
            found.append(int(folder.name))
    return found


def tell(state: Path, after_step: Callable[[int, subprocess.Popen[str]], None]) -> tuple[int, list[str]]:
    """Run the story in a state directory; its exit code and what it said."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("REVERSER_", "KUBE"))}
    environment |= {"REVERSER_STATE_DIR": str(state), "REVERSER_HTTP_ADDR": f"127.0.0.1:{free_port()}"}
    said = []
    with subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--once"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        try:
            for line in running.stdout:
                said.append(line.rstrip())
                if step := re.match(r" +(\d+)\. ", line):
                    after_step(int(step[1]), running)
            return running.wait(60), said
        finally:
            if running.poll() is None:
                running.terminate()


def check(state: Path) -> None:
    """What the repository holds after every story, however it went."""
    git = GitView(state / "demo" / "repo.git", "main")
    assert git.files() == TREE
    assert git.problems() == ""


def test_story(tmp_path: Path) -> None:
    """`demo --once` ends with 0 and leaves what the cluster holds; its processes write log lines only."""
    code, said = tell(tmp_path, lambda _step, _running: None)
    log = (tmp_path / "demo" / "story.log").read_text()
    assert code == 0, "\n".join(said) + log[-4000:]
    check(tmp_path)
    assert [line for line in log.splitlines() if not LOG_LINE.match(line)] == []


@pytest.mark.acceptance
@pytest.mark.parametrize("victim", PROCESSES)
def test_story_with_a_process_killed(tmp_path: Path, victim: str) -> None:
    """A process that is killed with -9, again and again, changes neither the verdict nor the tree."""
    killed = 0

    def kill(step: int, running: subprocess.Popen[str]) -> None:
        nonlocal killed
        if step in KILLED_AFTER:
            for pid in children(running.pid, PROCESSES[victim]):
                os.kill(pid, signal.SIGKILL)
                killed += 1

    code, said = tell(tmp_path, kill)
    assert code == 0, "\n".join(said)
    assert killed >= len(KILLED_AFTER) - 1
    check(tmp_path)


@pytest.mark.acceptance
def test_story_after_its_supervisor_was_killed(tmp_path: Path) -> None:
    """The supervisor is killed with -9 in the middle: the second start finds its state and all ends well."""

    def kill(step: int, running: subprocess.Popen[str]) -> None:
        if step == 3:
            running.kill()

    assert tell(tmp_path, kill)[0] == -signal.SIGKILL
    code, said = tell(tmp_path, lambda _step, _running: None)
    assert code == 0, "\n".join(said)
    check(tmp_path)
