"""What a restart, a crash or a lost Redis may change in Git: nothing."""

from __future__ import annotations

import os
import signal

from reverser.store import Store
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until


def pending(operator: Operator) -> int:
    """Journal entries of the installation that are not settled."""
    store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")
    try:
        return sum(store.read_branch(branch).entries for branch in store.known_branches())
    finally:
        store.close()


def test_quiet_restart(space: Workspace, operator: Operator) -> None:
    """E01: a restart with nothing changed makes no commit, in step with its cursors or without any."""
    space.base()
    for number in range(10):
        space.configmap(f"cm-{number}")
    space.in_git("cm-9")
    space.wait_ready()
    space.quiet(3)
    tip = space.git.tip()
    assert operator.stop() == 0
    operator.start()
    space.wait_ready()
    space.quiet(4)
    assert operator.stop() == 0
    for leftover in (operator.state / "valkey" / "appendonlydir").iterdir():
        leftover.unlink()
    operator.start()
    space.wait_ready()
    space.quiet(6)
    assert space.git.tip() == tip


def test_changes_made_while_down(space: Workspace, operator: Operator) -> None:
    """E02, E03, E05: what was deleted, edited, created and re-created in an outage is in Git after it."""
    space.base()
    for name in ("gone", "keep", "again"):
        space.configmap(name)
    space.in_git("again")
    space.in_git("gone")
    assert operator.stop() == 0
    space.delete("gone")
    for value in "234":
        space.set("keep", value)
    space.delete("again")
    space.configmap("again", {"v": "7"})
    space.configmap("new")
    operator.start()
    space.gone_from_git("gone")
    space.in_git("keep", b'v: "4"')
    space.in_git("again", b'v: "7"')
    space.in_git("new")


def test_sigterm_in_mid_window_pushes_first(space: Workspace, operator: Operator) -> None:
    """E13: the open window is on the remote before the process has ended, cooldown or not."""
    space.base(window="120s")
    space.configmap("a")
    until(lambda: pending(operator) > 0, "the event is in the journal")
    assert operator.stop() == 0
    assert space.git.read(space.file("a")) is not None
    operator.start()


def test_sigkill_in_mid_window_loses_nothing(space: Workspace, operator: Operator) -> None:
    """E15, E16: all killed with -9 in an open window; create, update and delete arrive after the start."""
    space.base()
    for name in ("old", "doomed"):
        space.configmap(name)
    space.in_git("old")
    space.in_git("doomed")
    space.kube.patch(
        f"/apis/configbutler.ai/v1alpha3/namespaces/{space.namespace}/gitproviders/gp",
        {"spec": {"push": {"commitWindow": "8s"}}},
    )
    space.configmap("a")
    space.set("old", "2")
    space.delete("doomed")
    operator.kill()
    operator.start()
    space.in_git("a", seconds=45)
    space.in_git("old", b'v: "2"', seconds=45)
    space.gone_from_git("doomed", seconds=45)
    assert space.git.problems() == ""


def test_each_process_killed_once(space: Workspace, operator: Operator) -> None:
    """Killing any one process with -9 never changes what ends in Git."""
    space.base()
    for number, word in enumerate(("manage.py watch", "celery --quiet -A reverser worker", "beat", "valkey")):
        (pid, *_rest) = operator.pids(word)
        space.configmap(f"before-{number}")
        os.kill(pid, signal.SIGKILL)
        space.configmap(f"after-{number}")
        space.in_git(f"before-{number}", seconds=60)
        space.in_git(f"after-{number}", seconds=60)
    assert space.git.problems() == ""
