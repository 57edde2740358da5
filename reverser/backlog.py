"""What waits on each branch, as metrics, read from the journals themselves.

Every worker shows it, and the process that leads the controllers: a worker that wrote a branch yesterday must
not go on saying what waited then, and where no worker is left somebody must still say that changes wait. All
of them show the same, so that the greatest of them is the truth.
"""

from __future__ import annotations

from collections.abc import Mapping

from reverser.processmetrics import OLDEST_UNPUSHED, QUEUE_DEPTH
from reverser.store.model import Backlog, BranchKey


def show_backlog(branch: BranchKey, backlog: Backlog) -> None:
    """Show what one branch has waiting."""
    labels = (branch.namespace, branch.provider, branch.branch)
    QUEUE_DEPTH.labels(*labels).set(backlog.entries)
    OLDEST_UNPUSHED.labels(*labels).set(backlog.oldest_ms / 1000)


class Backlogs:
    """What this process shows, so that nothing is left of branches that are forgotten."""

    def __init__(self) -> None:
        self._shown: set[BranchKey] = set()

    def show(self, found: Mapping[BranchKey, Backlog]) -> None:
        """Show every branch of ``found``; what was shown and is not in it has nothing waiting."""
        for branch in self._shown - set(found):
            show_backlog(branch, Backlog())
        for branch, backlog in found.items():
            show_backlog(branch, backlog)
        self._shown = set(found)
