"""The periodic tasks, as rows of django-celery-beat."""

from __future__ import annotations

from django_celery_beat.models import IntervalSchedule, PeriodicTask

_SECONDS = IntervalSchedule.SECONDS
SCHEDULE = {
    "sweep journals": ("reverser.sweep_journals", 2),
    "forget old history": ("reverser.forget_history", 3600),
}


def ensure_schedule() -> None:
    """Create or correct the rows; the flag ``enabled`` is left as people set it."""
    for name, (task, seconds) in SCHEDULE.items():
        interval, _created = IntervalSchedule.objects.get_or_create(every=seconds, period=_SECONDS)
        PeriodicTask.objects.update_or_create(
            name=name,
            defaults={"task": task, "interval": interval, "expire_seconds": max(seconds * 2, 30)},
        )
