"""What beat says while Redis is away."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from celery.schedules import schedule

from reverser import celery as wired
from reverser.sparing import Sparing


class _Unsent(Scheduler):
    """A scheduler whose broker does not answer."""

    def apply_async(self, *_arguments: Any, **_more: Any) -> Any:
        raise SchedulingError("Couldn't apply scheduled task sweep: Connection refused")


def test_a_task_that_cannot_be_sent_is_a_line_without_a_stack(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q03: an outage costs two lines a minute, however often beat tries; other lines of beat stay."""
    monkeypatch.setattr(wired, "_UNSENT", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    logger = logging.getLogger("celery.beat")
    logger.addFilter(wired._in_one_line)
    try:
        scheduler = _Unsent(app=wired.app, lazy=True)
        for _ in range(50):
            scheduler.apply_entry(ScheduleEntry("sweep", "sweep", schedule=schedule(5), app=wired.app))
        logger.error("beat: Connection error: %s", "refused")
    finally:
        logger.removeFilter(wired._in_one_line)
    lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
    text = "Couldn't apply scheduled task sweep: Connection refused; it is sent again when its time comes"
    assert [record.getMessage() for record in lines] == [text, text, "beat: Connection error: refused"]
    assert not any(record.exc_info for record in lines)
