"""What beat says while Redis or the database is away."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from celery.schedules import schedule
from django.db.utils import OperationalError

from reverser import celery as wired
from reverser.sparing import Sparing
from tests.e2e.operator import ROOT


class _Unsent(Scheduler):
    """A scheduler whose broker does not answer."""

    def apply_async(self, *_arguments: Any, **_more: Any) -> Any:
        raise SchedulingError("Couldn't apply scheduled task sweep: Connection refused")


def test_a_task_that_cannot_be_sent_is_a_line_without_a_stack(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q03: an outage costs two lines a minute, however often beat tries; other lines of beat stay."""
    monkeypatch.setattr(wired, "_OUTAGE", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    logger = logging.getLogger("celery.beat")
    logger.addFilter(wired._in_one_line)
    try:
        scheduler = _Unsent(app=wired.app, lazy=True)
        for _ in range(50):
            scheduler.apply_entry(ScheduleEntry("sweep", "sweep", schedule=schedule(5), app=wired.app))
        logger.error("beat: Connection error: %s", "refused")
    finally:
        logger.removeFilter(wired._in_one_line)
    lines = [one for one in caplog.records if one.name == logger.name and one.levelno >= logging.ERROR]
    text = "Couldn't apply scheduled task sweep: Connection refused; it is sent again when its time comes"
    assert [record.getMessage() for record in lines] == [text, text, "beat: Connection error: refused"]
    assert not any(record.exc_info for record in lines)


def test_a_database_that_is_away_is_a_line_without_a_stack(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q03: the scheduler asks each second whether its tables changed; that costs two lines a minute."""
    monkeypatch.setattr(wired, "_OUTAGE", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    logger = logging.getLogger("django_celery_beat.schedulers")
    logger.addFilter(wired._in_one_line)
    try:
        for _ in range(50):
            try:
                raise OperationalError("connection refused")
            except OperationalError as error:
                logger.exception("Database gave error: %r", error)
    finally:
        logger.removeFilter(wired._in_one_line)
    text = "the schedule cannot be read, the one that is known goes on: connection refused"
    told = [record for record in caplog.records if record.name == logger.name]
    assert [record.getMessage() for record in told] == [text, text]
    assert not any(record.exc_info for record in told)


def test_the_filter_stands_where_beat_logs() -> None:
    """The loggers that Celery and its scheduler use have it once logging is set up."""
    wired._keep_logging()
    try:
        for name in ("celery.beat", "django_celery_beat.schedulers"):
            assert wired._in_one_line in logging.getLogger(name).filters, name
    finally:
        for name in ("celery.beat", "django_celery_beat.schedulers"):
            logging.getLogger(name).removeFilter(wired._in_one_line)


def test_unusable_settings_are_told_like_those_of_every_command(tmp_path: Path) -> None:
    """A worker or beat that cannot read a setting ends with 2 and a line for each problem, no stack."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("REVERSER_")},
        "REVERSER_REDIS_URL_FILE": str(tmp_path / "absent"),
        "REVERSER_WORKER_THREADS": "many",
    }
    done = subprocess.run(
        [sys.executable, "-m", "celery", "--quiet", "-A", "reverser", "worker", "--pool", "threads"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("error: REVERSER_") for line in lines), done.stderr
