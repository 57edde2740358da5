"""What it costs to lose state: docs/upgrade.md says it, this shows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.e2e.operator import Operator
from tests.e2e.test_restarts import forget_redis, pending
from tests.e2e.workspace import Workspace, until

DATABASE = ("history.sqlite3", "history.sqlite3-wal", "history.sqlite3-shm")


def lose_clones(operator: Operator) -> None:
    """The clones, and the index of what they hold."""
    shutil.rmtree(operator.state / "workers")


def lose_database(operator: Operator) -> None:
    """The history, and who may log in."""
    for name in DATABASE:
        (operator.state / name).unlink(missing_ok=True)


def lose_everything(operator: Operator) -> None:
    """All of it at once, the digest key included."""
    lose_clones(operator)
    lose_database(operator)
    forget_redis(operator)
    (operator.state / "digest-key").unlink(missing_ok=True)


@pytest.mark.parametrize("lose", [lose_clones, lose_database, forget_redis, lose_everything])
def test_a_loss_makes_no_commit(
    lose: Callable[[Operator], None], space: Workspace, operator: Operator
) -> None:
    """E20, E23: with clones, database or Redis lost, each alone and all at once, the tree is compared and
    left as it is; the next change arrives.
    """
    space.base()
    space.configmap("kept")
    space.in_git("kept")
    space.wait_ready()
    until(lambda: pending(operator) == 0, "everything is settled")
    tip = space.git.tip()
    assert operator.stop() == 0
    lose(operator)
    operator.start()
    space.wait_ready()
    until(lambda: pending(operator) == 0, "everything is settled")
    space.quiet(2)
    assert space.git.tip() == tip
    space.set("kept", "2")
    space.in_git("kept", b'v: "2"')
    assert space.git.problems() == ""


def bundle(space: Workspace, **values: str) -> str:
    """One file of several ConfigMaps, as a person would write it."""
    documents = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}  # {name}\n"
        f'  namespace: {space.namespace}\ndata:\n  v: "{value}"  # of {name}\n'
        for name, value in values.items()
    )
    return "---\n".join(documents)


def test_redis_lost_while_one_file_of_several_objects_changes(space: Workspace, operator: Operator) -> None:
    """L10: of four documents of one file one was deleted and one changed while nothing ran and Redis was
    lost, and another changes while it starts: one or two commits, and each document is right, its comments
    kept.
    """
    before = dict.fromkeys("abcd", "1")
    for name in before:
        space.configmap(name)
    space.seed({"live/all.yaml": bundle(space, **before)})
    space.base(window="0s")
    space.wait_ready()
    until(lambda: pending(operator) == 0, "everything is settled")
    count = len(space.git.log())
    assert count == 1, space.subjects()
    assert operator.stop() == 0
    space.delete("a")
    space.set("c", "2")
    forget_redis(operator)
    operator.start(wait=False)
    space.set("d", "2")
    operator.wait_ready()
    wanted = bundle(space, b="1", c="2", d="2").encode()
    until(
        lambda: space.git.read("live/all.yaml") == wanted, f"{space.git.read('live/all.yaml')!r} is right", 60
    )
    space.wait_ready()
    until(lambda: pending(operator) == 0, "everything is settled")
    space.quiet(2)
    assert [path for path in space.git.files("live") if path.endswith(".yaml")] == ["live/all.yaml"]
    assert len(space.git.log()) - count in {1, 2}, space.subjects()
    assert space.git.problems() == ""
