"""How a branch fares: its recorded health, its gauges, and how long it waits after a failure.

The record is what the status of a provider's branch and the admin show; it says since when the branch has not
been written and why. One line is logged per failure.
"""

from __future__ import annotations

import logging
import random
import time

from gitwriter.backoff import transient_delay
from gitwriter.memory import BranchMemory
from reverser.backlog import show_backlog
from reverser.errors import StalledError, TransientError
from reverser.store import Store
from reverser.store.model import Backlog, BranchHealth, BranchRecord

logger = logging.getLogger(__name__)

BLOCKED_RECHECK_SECONDS = 15.0


class HealthRecorder:
    """Keeps the health of one branch, in the store and in the memory of its process."""

    def __init__(self, store: Store, memory: BranchMemory) -> None:
        self._store = store
        self._memory = memory
        self._branch = memory.branch

    def healthy(self) -> None:
        """An attempt went through; a branch with windows that the remote refuses stays unhealthy."""
        memory = self._memory
        memory.attempts, memory.retry_at = 0, 0.0
        if memory.offenders:
            return
        memory.refusals = 0
        before = self._store.read_branch_health(self._branch)
        if before is None or not before.ok:
            self._store.write_branch_health(
                self._branch, BranchHealth(ok=True, since_ms=self._store.time_ms())
            )

    def failed(self, error: TransientError, now: int) -> int:
        """The branch waits, longer with each failure in a row. Returns when it is due (Redis clock, ms)."""
        delay = transient_delay(
            self._memory.attempts,
            jitter=random.random(),  # noqa: S311 - spreads retries, no security
            asked=error.retry_after,
        )
        return self._wait(type(error).__name__, str(error), delay, now)

    def stalled(self, error: StalledError, now: int) -> int:
        """The branch waits for somebody to act. Returns when it is looked at again (Redis clock, ms)."""
        return self._wait(error.reason, str(error), BLOCKED_RECHECK_SECONDS, now)

    def _wait(self, reason: str, message: str, delay: float, now: int) -> int:
        memory = self._memory
        memory.attempts += 1
        memory.retry_at = time.monotonic() + delay
        self.report(now)
        self.note_failure(reason, message, attempts=memory.attempts, delay=delay, now=now)
        return now + int(delay * 1000)

    def note_failure(self, reason: str, message: str, *, attempts: int, delay: float, now: int) -> None:
        """Record the failure for the status of the branch, and log one line. ``delay`` is in seconds."""
        before = self._store.read_branch_health(self._branch)
        since = before.since_ms if before is not None and not before.ok else now
        self._store.write_branch_health(
            self._branch,
            BranchHealth(ok=False, reason=reason, message=message, since_ms=since, attempts=attempts),
        )
        logger.warning(
            "the branch cannot be written now",
            extra={
                "branch": str(self._branch),
                "reason": reason,
                "detail": message,
                "retry_seconds": round(delay, 1),
            },
        )

    def report(self, now: int) -> BranchRecord:
        """Set the gauges of the branch. Returns its record, which they were taken from."""
        record = self._store.read_branch(self._branch)
        oldest = int(self._memory.listed[0].split("-")[0]) if self._memory.listed and record.entries else now
        show_backlog(self._branch, Backlog(record.entries, max(now - oldest, 0)))
        return record
