"""The scheduler of beat: the database's, begun only once the database is there.

The library reads its tables while it is being made, before any signal a program could wait in, and ends where
they are missing. Here the health server is opened first and the database waited for, so that processes may
start in any order.
"""

from __future__ import annotations

from django_celery_beat.schedulers import DatabaseScheduler


class WaitingScheduler(DatabaseScheduler):  # type: ignore[misc]
    """``DatabaseScheduler`` that waits for its tables."""

    def setup_schedule(self) -> None:
        """Called once, when the first tick needs the schedule."""
        from reverser.workerprocess import prepare_beat

        prepare_beat()
        super().setup_schedule()
