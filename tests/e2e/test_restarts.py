"""What a restart, a crash or a lost Redis may change in Git: nothing."""

from __future__ import annotations

import os
import signal
import threading

from reverser.store import Store
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

WATCHER, WORKER = "manage.py watch", "celery --quiet -A reverser worker"
BEAT, VALKEY = "celery --quiet -A reverser beat", "valkey-server"


def forget_redis(operator: Operator) -> None:
    """The stopped installation's Redis starts empty."""
    for leftover in (operator.state / "valkey" / "appendonlydir").iterdir():
        leftover.unlink()


def pending(operator: Operator) -> int:
    """Journal entries of the installation that are not settled."""
    store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")
    try:
        return sum(store.read_branch(branch).entries for branch in store.known_branches())
    finally:
        store.close()


def test_quiet_restart(space: Workspace, operator: Operator) -> None:
    """E01, J07, P01: a restart with nothing changed makes no commit, in step with its cursors or without any,
    odd names included. Sealed Secrets are sealed anew only where Redis forgot what they hold. A resume is
    counted as such, a replay too.
    """
    roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "scope": "Cluster"}
    age = {"enabled": True, "recipients": {"extractFromSecret": True, "generateWhenMissing": True}}
    space.base(
        rules=[{**CONFIGMAPS, "resources": ["configmaps", "secrets"]}],
        encryption={"provider": "sops", "secretRef": {"name": "age"}, "age": age},
    )
    space.cluster_rule([roles])
    for number in range(10):
        space.configmap(f"cm-{number}")
    for number in range(3):
        body = {"metadata": {"name": f"safe-{number}"}, "stringData": {"pin": f"{number}"}}
        space.kube.create(space.path("secrets"), {"apiVersion": "v1", "kind": "Secret", **body})
    space.in_git("cm-9")
    space.in_git("safe-2", resource="secrets", suffix=".sops.yaml")
    folder = "live/_cluster/rbac.authorization.k8s.io/clusterroles"
    count = len(space.kube.list("/apis/rbac.authorization.k8s.io/v1/clusterroles").items)
    until(lambda: len(space.git.files(folder)) == count, "every cluster role is in Git")
    assert any(":" in file for file in space.git.files(folder))
    space.wait_ready()
    space.quiet(3)
    tip, before = space.git.tip(), len(space.git.log())

    def reconciled(trigger: str) -> float:
        name = "gitopsreverser_target_reconcile_completed_total"
        return operator.metric(name, gittarget_namespace=space.namespace, trigger=trigger)

    assert operator.stop() == 0
    operator.start()
    space.wait_ready()
    space.quiet(3)
    until(lambda: reconciled("cursor_resume") == 3, "every stream resumes")
    assert reconciled("type_reconcile") == 0
    assert space.git.tip() == tip
    assert operator.stop() == 0
    forget_redis(operator)
    operator.start()
    space.wait_ready()
    until(lambda: reconciled("type_reconcile") == 3, "every stream replays")
    until(lambda: pending(operator) == 0, "everything is settled")
    space.quiet(3)
    changed = space.git._git("diff", "--name-only", tip, "main").stdout.decode().split()
    assert all(file.endswith(".sops.yaml") for file in changed), changed
    assert len(space.git.log()) <= before + 1


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
    space.in_git("a", seconds=90)
    space.in_git("old", b'v: "2"', seconds=90)
    space.gone_from_git("doomed", seconds=90)
    assert space.git.problems() == ""


def test_each_process_killed_once(space: Workspace, operator: Operator) -> None:
    """Q08, D10: while somebody counts, each process is killed with -9, and then all at once: every value is
    one commit, in order, and nothing written beside it is missing.
    """
    space.base(window="0s")
    space.configmap("counter")
    space.in_git("counter")
    enough, reached = threading.Event(), [1]

    def count() -> None:
        while not enough.wait(0.1):
            space.set("counter", str(reached[0] + 1))
            reached[0] += 1

    writer = threading.Thread(target=count)
    writer.start()
    try:
        for number, word in enumerate((WATCHER, WORKER, BEAT, VALKEY)):
            (pid, *_rest) = operator.pids(word)
            space.configmap(f"before-{number}")
            os.kill(pid, signal.SIGKILL)
            space.configmap(f"after-{number}")
            space.in_git(f"before-{number}", seconds=120)
            space.in_git(f"after-{number}", seconds=120)
        for name in ("gitopsreverser_controllers_leading", "gitopsreverser_redis_up"):
            until(lambda name=name: operator.metric(name) == 1, f"{name} tells of who lives", 120)
        operator.kill()
        operator.start()
    finally:
        enough.set()
        writer.join()
    space.counted_to("counter", reached[0], complete=True)
    assert space.git.problems() == ""
