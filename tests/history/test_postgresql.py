"""History, pages and REST on PostgreSQL: the same tests, and what only a database server can show.

The server is the tests' own, see ``tests/postgresql.py``. Suites run in a process of their own, because
a process has one database.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.postgresql import PostgreSQL, postgresql

ROOT = Path(__file__).resolve().parents[2]
SUITE = (
    "tests/history/test_projector.py",
    "tests/history/test_search.py",
    "tests/dashboard/test_pages.py",
    "tests/dashboard/test_oidc.py",
    "tests/rest/test_api.py",
    "tests/rest/test_events.py",
    "tests/rest/test_saving.py",
)
# Of the others what asks the database for more than a row.
CHOSEN = "history or pages or login or account or groups or commits or cursor or one_object or gone"
PROCESSES = 3

# One server for all of these, so one test process.
pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    """A PostgreSQL of this test process."""
    with postgresql() as found:
        yield found


@pytest.fixture
def environment(server: PostgreSQL, tmp_path: Path) -> dict[str, str]:
    """For processes of the product whose history is in a new and empty database."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "REVERSER_DATABASE_URL": server.url(server.create_database()),
        "REVERSER_STATE_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "reverser.settings",
    }


def _run(environment: dict[str, str], *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ended(children: list[subprocess.Popen[str]]) -> list[str]:
    told = [child.communicate(timeout=560)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children), "\n".join(told)[-6000:]
    return told


def test_suite(environment: dict[str, str]) -> None:
    """Whatever holds on SQLite."""
    _ended(
        [
            _run(
                environment,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--create-db",
                *(["--randomly-seed=1"] if needs.everything() else []),
                "-k",
                CHOSEN,
                *SUITE,
            )
        ]
    )


def test_replicas_migrate_at_once(environment: dict[str, str], server: PostgreSQL) -> None:
    """Several processes start on an empty database at the same moment: each ends well, and each migration
    was applied once.
    """
    _ended([_run(environment, "manage.py", "prepare_database", "--wait", "300") for _ in range(PROCESSES)])

    _ended([_run(environment, "manage.py", "migrate", "--check")])
    name = environment["REVERSER_DATABASE_URL"].rsplit("/", 1)[1]
    with server.connect(name) as connection:
        twice = connection.execute(
            "SELECT app, name FROM django_migrations GROUP BY app, name HAVING COUNT(*) > 1"
        ).fetchall()
        groups = connection.execute("SELECT name FROM auth_group ORDER BY name").fetchall()
    assert twice == []
    assert groups == [("operator",), ("viewer",)]


LOCKED = """
import django
django.setup()
from django.db import connection
from reverser.management.commands.prepare_database import _alone
with _alone(), connection.cursor() as cursor:
    cursor.execute(
        "SELECT state FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory'"
        " AND datname = current_database()"
    )
    assert cursor.fetchall() == [("idle in transaction",)]
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                   " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
    assert cursor.fetchall() == [(0,)]
"""


def test_the_lock_of_a_migration_belongs_to_a_transaction(environment: dict[str, str]) -> None:
    """Behind a pooler that gives each transaction another session none keeps the lock."""
    _ended([_run(environment, "-c", LOCKED)])


def test_replicas_migrate_where_connections_are_few(environment: dict[str, str], server: PostgreSQL) -> None:
    """Who waits for another's migration holds no connection that the other needs, and asks again where none
    is free.
    """
    name = environment["REVERSER_DATABASE_URL"].rsplit("/", 1)[1]
    with server.connect(name) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 2")
        connection.execute(f"GRANT ALL ON SCHEMA public TO {name}")
    poor = {**environment, "REVERSER_DATABASE_URL": server.url(name).replace("//reverser@", f"//{name}@")}
    _ended([_run(poor, "manage.py", "prepare_database", "--wait", "300") for _ in range(PROCESSES)])
    _ended([_run(poor, "manage.py", "migrate", "--check")])


PROJECT = """
import sys, time
import django
django.setup()
from reverser.history.models import Commit
from reverser.history.projector import project_outcomes
from tests.history.test_projector import Source, outcome
source = Source(*(outcome(number) for number in range(400)))
# All begin together.
time.sleep(max(0.0, float(sys.argv[1]) - time.time()))
ends = time.monotonic() + 240
while Commit.objects.count() < 400 and time.monotonic() < ends:
    project_outcomes(source, count=7)
"""


def test_several_project_at_once(environment: dict[str, str], server: PostgreSQL) -> None:
    """Replicas that both believe to lead write each outcome once, and leave nothing out."""
    import time

    _ended([_run(environment, "manage.py", "prepare_database")])

    begin = str(time.time() + 5)
    _ended([_run(environment, "-c", PROJECT, begin) for _ in range(PROCESSES)])

    name = environment["REVERSER_DATABASE_URL"].rsplit("/", 1)[1]
    with server.connect(name) as connection:
        rows = [
            connection.execute(f"SELECT COUNT(*), COUNT(DISTINCT {column}) FROM {table}").fetchone()
            for table, column in (
                ("history_commit", "outcome"),
                ("history_commitobject", "commit_id"),
                ("history_committext", "commit_id"),
            )
        ]
        position = connection.execute("SELECT position FROM history_projectorposition").fetchall()
    assert rows == [(400, 400)] * 3
    assert position == [("400-0",)]
