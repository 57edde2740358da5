"""Periodic and housekeeping tasks. Thin: each calls one function elsewhere."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from celery import shared_task

from reverser.consumption import CONSUMPTION

logger = logging.getLogger(__name__)


@shared_task(name="reverser.prove_consumption", ignore_result=True)
def prove_consumption() -> None:
    """Runs in the worker to whose queue it was sent; the watchdog checks the time it notes."""
    CONSUMPTION.note()


@shared_task(name="reverser.sweep_journals", ignore_result=True)
def sweep_journals() -> None:
    """Wake every branch that has entries but no due time: the safety net for lost wake-ups."""
    from reverser.wiring import store

    woken = store().sweep_journals()
    if woken:
        logger.info("woke branches whose journal was not drained", extra={"branches": woken})


@shared_task(name="reverser.forget_history", ignore_result=True)
def forget_history() -> None:
    """Delete history rows past their retention, and expired sessions.

    The rows were stamped by Redis' clock. Deleted is what is too old by that clock and by this process's own:
    one that is years ahead must not empty the history.
    """
    from django.core.management import call_command

    from reverser.history.projector import forget_before, retention_limit
    from reverser.wiring import config, store

    call_command("clearsessions")
    now = min(datetime.now(tz=UTC), datetime.fromtimestamp(store().time_ms() / 1000, tz=UTC))
    deleted = forget_before(retention_limit(now, config().history_retention))
    if deleted:
        logger.info("deleted old history", extra={"rows": deleted})
