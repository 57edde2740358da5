"""What it costs to lose state: docs/upgrade.md says it, this shows it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.e2e.operator import Operator
from tests.e2e.test_restarts import forget_redis, pending
from tests.e2e.workspace import Workspace, until

DATABASE = ("history.sqlite3", "history.sqlite3-wal", "history.sqlite3-shm")


def lose_clones_and_database(operator: Operator) -> None:
    """What can be made anew: Redis still knows what is in Git."""
    shutil.rmtree(operator.state / "workers")
    for name in DATABASE:
        (operator.state / name).unlink(missing_ok=True)


def lose_everything(operator: Operator) -> None:
    """All of it at once, the digest key included."""
    lose_clones_and_database(operator)
    forget_redis(operator)
    (operator.state / "digest-key").unlink(missing_ok=True)


@pytest.mark.parametrize("lose", [lose_clones_and_database, lose_everything])
def test_a_loss_makes_no_commit(
    lose: Callable[[Operator], None], space: Workspace, operator: Operator
) -> None:
    """E20, E23: with clones and database, or all state, lost the tree is compared and left as it is; the next
    change arrives.
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
