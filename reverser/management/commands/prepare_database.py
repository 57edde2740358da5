"""``manage.py prepare_database``: wait for the database and bring its tables up to date."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.utils import DatabaseError, OperationalError

RETRY_SECONDS = 1.0
# Any number will do, as long as all replicas use the same.
_LOCK = 7_719_001


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
        deadline = time.monotonic() + options["wait"] if options["wait"] else float("inf")
        told = False
        while True:
            try:
                connection.ensure_connection()
                break
            except OperationalError as error:
                connection.close()
                remedy = "check REVERSER_DATABASE_URL and that the server runs"
                if time.monotonic() >= deadline:
                    raise CommandError(f"the database does not answer; {remedy}") from error
                if not told:
                    self.stderr.write(f"waiting for the database; {remedy}")
                    told = True
                time.sleep(RETRY_SECONDS)
        with _alone():
            call_command("migrate", interactive=False, verbosity=options["verbosity"])


@contextmanager
def _alone() -> Iterator[None]:
    """Hold PostgreSQL's advisory lock; SQLite serves one machine, where `up` migrates before it starts.

    It belongs to a transaction on a connection of its own: a pooler between us and the server gives each
    transaction another session, so a lock of a session would stay behind in one that nobody can name.
    """
    if connection.vendor != "postgresql":
        yield
        return
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield
        with suppress(DatabaseError):  # it may be gone, and the lock with it
            holder.rollback()
    finally:
        holder.close()
