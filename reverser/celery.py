"""The Celery application: a worker is a branch writer.

Start it with ``celery -A reverser worker --pool threads``. Tasks are hints (J10): whatever is lost,
doubled or reordered, the journal still says what is to be written. Two worker steps are added here:
the dispatcher, which turns due branches into tasks, and the watchdog, which ends a worker that has
stopped consuming (J11).
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import Celery, signals
from celery.apps.worker import install_worker_term_handler  # type: ignore[attr-defined]
from celery.beat import SchedulingError
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from celery.worker.consumer import Gossip, Mingle
from django.conf import settings
from django.db.utils import DatabaseError
from kombu.transport.virtual import Channel

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")

from reverser.dispatch import DispatchStep, WatchdogStep
from reverser.errors import SettingsInvalid
from reverser.sparing import Sparing
from reverser.trust.coredump import forbid_core_dumps

logger = logging.getLogger(__name__)

# Tasks carry three names and no pickles, so running as root in a container is safe.
warnings.filterwarnings("ignore", category=SecurityWarning)

_OUTAGE = Sparing(lines=2, seconds=60)
_ANSWERING = ("celery.worker.request", "celery.worker.consumer.consumer")
"""Who takes a hint answers the broker in the name of one of these."""
_CHATTY = ("celery.apps.worker", "celery.worker.consumer", "celery.bootsteps", "celery.beat")

forbid_core_dumps()

# A hint that is not restored is sent again within seconds; restoring one over a connection that is lost ends
# the whole worker with an AttributeError.
Channel.do_restore = False


def _while_connected(answer: Callable[..., None]) -> Callable[..., None]:
    """Drop an answer to a hint whose connection was lost meanwhile: it would end the worker in the same way,
    and nobody waits for it.
    """

    @wraps(answer)
    def answered(channel: Channel, *arguments: Any, **more: Any) -> None:
        if channel.connection is not None:
            answer(channel, *arguments, **more)

    return answered


for _name in ("basic_ack", "basic_reject"):
    setattr(Channel, _name, _while_connected(getattr(Channel, _name)))
# Workers have nothing to tell each other: the journal and its leases say all. When Redis goes away while they
# talk, each prints stacks; so they do not begin, also without the flags that forbid it.
Gossip.compatible_transports = set()
Mingle.compatible_transports = set()


def _check_settings() -> None:
    """Say what is wrong with the settings as ``manage.py`` does, not by a stack of Celery's command line."""
    try:
        _ = settings.CONFIG
    except SettingsInvalid as error:
        for problem in error.problems:
            sys.stderr.write(f"error: {problem}\n")
        sys.exit(2)


_check_settings()
app = Celery("reverser")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["reverser", "gitwriter"])
app.steps["consumer"].add(DispatchStep)
app.steps["consumer"].add(WatchdogStep)


@signals.worker_init.connect
def _prepare_worker(**_arguments: Any) -> None:
    """Give the writer its edges and open the health server before the first task."""
    from reverser.workerprocess import prepare

    prepare()


@signals.worker_ready.connect
def _end_quietly(sender: Any, **_arguments: Any) -> None:
    """SIGTERM as Celery handles it, without its line on standard output, which is not a log line."""
    install_worker_term_handler(sender.controller, verbose=False)


@signals.worker_ready.connect
def _without_advice(**_arguments: Any) -> None:
    """Each lost connection would tell of a setting that does not concern tasks which may be repeated. Celery
    turns these warnings on while it starts, so they are turned off once it has.
    """
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)


@signals.worker_shutting_down.connect
def _begin_shutdown(**_arguments: Any) -> None:
    """Running writers close their windows and end."""
    from reverser.workerprocess import begin_shutdown

    begin_shutdown()


@signals.worker_shutdown.connect
def _drain_worker(**_arguments: Any) -> None:
    """Branches with an open window are written once more."""
    from reverser.workerprocess import drain

    drain()


@signals.setup_logging.connect
def _keep_logging(**_arguments: Any) -> None:
    """Logging is configured by the settings; Celery must not replace it.

    What Celery logs about its own start and stop is of no use to an operator, and a failed task's traceback
    is needed only once.
    """
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("celery.app.trace").addFilter(_once)
    for name in ("celery.beat", "django_celery_beat.schedulers"):
        logging.getLogger(name).addFilter(_in_one_line)
    for name in _ANSWERING:
        logging.getLogger(name).addFilter(_unanswered)


def _once(record: logging.LogRecord) -> bool:
    """Drop the copy of the traceback that Celery adds to the fields of a record."""
    record.__dict__.pop("data", None)
    return True


def _in_one_line(record: logging.LogRecord) -> bool:
    """What beat cannot do during an outage is one line, and seldom: Celery logs stacks at each attempt, each
    few seconds where Redis is away and each second where the database is.
    """
    cause = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if isinstance(cause, SchedulingError):
        text = "%s; it is sent again when its time comes"
    elif isinstance(cause, DatabaseError):
        text = "the schedule cannot be read, the one that is known goes on: %s"
    else:
        return True
    record.msg, record.args, record.exc_info = text, (str(cause).rstrip("."),), None
    return _OUTAGE.left(text) > 0


def _unanswered(record: logging.LogRecord) -> bool:
    """A hint that the broker takes no answer to (its disk is full, it fails over) is one line, and seldom:
    kombu logs a stack for each as if it were critical, and nothing depends on a hint.
    """
    cause = record.args[1] if isinstance(record.args, tuple) and len(record.args) == 2 else None
    if record.levelno != logging.CRITICAL or not isinstance(cause, Exception):
        return True
    text = "the broker took no answer to a hint, which may come again: %s"
    record.msg, record.args, record.exc_info = text, (str(cause).rstrip("."),), None
    record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return _OUTAGE.left(text) > 0
