"""``manage.py prepare_database``: wait for the database and bring its tables up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import DatabaseError, OperationalError

RETRY_SECONDS = 1.0
# Any number will do, as long as all replicas use the same.
_LOCK = 7_719_001
T = TypeVar("T")


class Command(BaseCommand):
    """Migrate, once the database answers, one replica at a time."""

    help = (
        "Wait until the history database answers, then create or update its tables. Safe to run from several "
        "replicas at once: one migrates, the others wait and find nothing to do."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """How long to wait."""
        parser.add_argument(
            "--wait", type=float, default=0.0, metavar="SECONDS", help="give up after this long; 0 = never"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Wait, migrate, exit. Raises CommandError when the wait is over."""
        answered = _Patience(self.stderr.write, options["wait"]).answered
        answered(connection.ensure_connection)
        with _alone(answered):
            answered(connection.ensure_connection)
            call_command("migrate", interactive=False, verbosity=options["verbosity"])


class _Patience:
    """Repeats what the database does not answer: it may be away, or have no connection to spare."""

    def __init__(self, tell: Callable[[str], Any], seconds: float) -> None:
        self._tell = tell
        self._ends = time.monotonic() + seconds if seconds else float("inf")
        self._told = False

    def answered(self, ask: Callable[[], T]) -> T:
        """What ``ask`` returns in the end. Raises CommandError when the wait is over."""
        while True:
            try:
                return ask()
            except OperationalError as error:
                connection.close()
                remedy = "check REVERSER_DATABASE_URL, that the server runs, and its limit of connections"
                if time.monotonic() >= self._ends:
                    raise CommandError(f"the database does not answer; {remedy}") from error
                if not self._told:
                    self._tell(f"waiting for the database; {remedy}")
                    self._told = True
                time.sleep(RETRY_SECONDS)


@contextmanager
def _alone(answered: Callable[[Callable[[], bool]], bool] = lambda ask: ask()) -> Iterator[None]:
    """Hold PostgreSQL's advisory lock; SQLite serves one machine, where `up` migrates before it starts.

    It belongs to a transaction on a connection of its own: a pooler between us and the server gives each
    transaction another session, so a lock of a session would stay behind in one that nobody can name. Who
    waits keeps no session, or those that wait would leave none to who migrates in a pool of few.
    """
    if connection.vendor != "postgresql":
        yield
        return
    while True:
        connection.close()
        holder = connection.copy()
        try:
            if answered(partial(_is_first, holder)):
                yield
                with suppress(DatabaseError):  # it may be gone, and the lock with it
                    holder.rollback()
                return
        finally:
            holder.close()
        time.sleep(RETRY_SECONDS)


def _is_first(holder: BaseDatabaseWrapper) -> bool:
    """Whether nobody else migrates; then the lock is held until the transaction of ``holder`` ends."""
    holder.close()
    holder.set_autocommit(False)
    with holder.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return bool(cursor.fetchone()[0])
