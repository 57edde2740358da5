"""What beat and workers say while Redis or the database is away."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from celery.exceptions import CPendingDeprecationWarning
from celery.schedules import schedule
from celery.signals import worker_ready
from django.db.utils import OperationalError
from kombu.message import Message

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


class _FullDisk:
    """A channel of a broker that takes no answers."""

    no_ack_consumers = None

    def basic_ack(self, tag: str, multiple: bool = False) -> None:
        raise ConnectionError("MISCONF Errors writing to the AOF file: No space left on device.")

    def basic_reject(self, tag: str, requeue: bool = False) -> None:
        self.basic_ack(tag)


@pytest.mark.parametrize("name", wired._ANSWERING)
def test_an_answer_that_the_broker_does_not_take_is_a_line_without_a_stack(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q03: kombu calls it critical and adds a stack; a hint is worth neither, twice a minute at most."""
    monkeypatch.setattr(wired, "_OUTAGE", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    logger = logging.getLogger(name)
    logger.addFilter(wired._unanswered)
    try:
        for number in range(20):
            Message(channel=_FullDisk(), delivery_tag=f"a{number}").ack_log_error(logger, (ConnectionError,))
            Message(channel=_FullDisk(), delivery_tag=f"r{number}").reject_log_error(
                logger, (ConnectionError,)
            )
        logger.critical("Something else: %s", "so")
    finally:
        logger.removeFilter(wired._unanswered)
    text = (
        "the broker took no answer to a hint, which may come again: "
        "MISCONF Errors writing to the AOF file: No space left on device"
    )
    told = [(record.getMessage(), record.levelname, record.exc_info) for record in caplog.records]
    assert told == [(text, "WARNING", None)] * 2 + [("Something else: so", "CRITICAL", None)]


def test_advice_on_a_setting_is_not_repeated_at_each_lost_connection() -> None:
    """Celery turns its warnings on while a worker starts; once it is ready they are off."""
    assert wired._without_advice in [reference() for _key, reference in worker_ready.receivers]
    with warnings.catch_warnings(record=True) as told:
        warnings.filterwarnings("always", category=CPendingDeprecationWarning)
        wired._without_advice()
        warnings.warn("tasks will not be cancelled", CPendingDeprecationWarning, stacklevel=1)
    assert told == []


def test_the_filters_stand_where_celery_logs() -> None:
    """The loggers that Celery and its scheduler use have them once logging is set up."""
    places = [("celery.beat", wired._in_one_line), ("django_celery_beat.schedulers", wired._in_one_line)]
    places += [(name, wired._unanswered) for name in wired._ANSWERING]
    wired._keep_logging()
    try:
        for name, filtered in places:
            assert filtered in logging.getLogger(name).filters, name
    finally:
        for name, filtered in places:
            logging.getLogger(name).removeFilter(filtered)


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
