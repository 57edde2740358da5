"""The scheduler of beat: the database's, begun only once the database is there.

The library's scheduler reads its tables in its constructor, before any signal in which a program could wait,
and fails where they are missing. Here the health server is opened first and the database waited for, so that
processes may start in any order.

On a signal Celery saves the schedule, for which it makes another scheduler while this one is still waiting.
So a signal that comes meanwhile ends the process at once: there is nothing to save yet.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from django.db.utils import DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler


class WaitingScheduler(DatabaseScheduler):  # type: ignore[misc]
    """``DatabaseScheduler`` that waits for its tables."""

    def setup_schedule(self) -> None:
        """Called while the scheduler is made; by a second one too, where a signal comes at its very end."""
        from reverser.workerprocess import prepare_beat

        with _ended_by_signals():
            prepare_beat()
            super().setup_schedule()

    def schedule_changed(self) -> bool:
        """Whether the rows changed. Where a database that came back empty has lost them they are made anew:
        nobody would notice that the safety net of lost wake-ups is gone.
        """
        from reverser.schedule import ensure_schedule

        changed = bool(super().schedule_changed())
        if self._last_timestamp is not None:
            return changed
        try:
            ensure_schedule()
        except DatabaseError:
            return changed  # the tables are not there yet
        return True


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """During the block SIGTERM and SIGINT end the process; their handlers are restored after it."""
    known = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in known.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit
