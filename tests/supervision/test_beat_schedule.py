"""The periodic tasks stay, whatever becomes of their rows."""

from __future__ import annotations

import pytest
from django.db import connection
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from reverser.beat import WaitingScheduler
from reverser.celery import app
from reverser.schedule import SCHEDULE, ensure_schedule


class _Made(WaitingScheduler):
    """A scheduler whose start is over."""

    def setup_schedule(self) -> None:
        """Nothing is waited for."""


def names(scheduler: WaitingScheduler) -> set[str]:
    """What it would send."""
    return set(scheduler.all_as_schedule())


@pytest.mark.django_db
def test_rows_that_an_empty_database_lacks_are_made_anew() -> None:
    """A database that was lost and came back empty under a running beat has the tasks again at its next
    look; afterwards nothing changes by itself.
    """
    ensure_schedule()
    scheduler = _Made(app=app, lazy=True)
    scheduler.schedule_changed()
    assert not scheduler.schedule_changed()
    PeriodicTask.objects.all().delete()
    PeriodicTasks.objects.all().delete()
    assert scheduler.schedule_changed()
    assert names(scheduler) >= set(SCHEDULE)
    scheduler.schedule_changed()
    assert not scheduler.schedule_changed()


@pytest.mark.django_db
def test_tables_that_are_not_there_change_nothing() -> None:
    """Between the loss and the migration the schedule that is known goes on."""
    ensure_schedule()
    scheduler = _Made(app=app, lazy=True)
    scheduler.schedule_changed()
    PeriodicTasks.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_celery_beat_periodictask RENAME TO away")
    assert not scheduler.schedule_changed()
