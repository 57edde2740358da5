"""How the history database grows, and what a page of the admin costs when it is large."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.bench.options import Options
from tests.bench.report import Report, percentile, timed
from tests.postgresql import postgresql
from tests.valkey import running_valkey

TARGETS = 200
BATCH = 2_000
PAGE_MS = 300.0
PAGES = (
    "/admin/history/commit/",
    "/admin/history/commit/?q=o00042",
    "/admin/history/commit/?q=alice",
    "/admin/history/commit/?q=nothing-is-called-so",
    "/admin/history/targetstate/",
    "/admin/",
)


def run(report: Report, folder: Path, options: Options) -> None:
    """On SQLite, and on PostgreSQL where its programs are installed; each in a process of its own."""
    _measure(report, folder, "SQLite", None, options.commits)
    try:
        with postgresql() as server:
            _measure(report, folder, "PostgreSQL", server.url(server.create_database()), options.commits)
    except pytest.skip.Exception as missing:
        report.left_out["PostgreSQL"] = str(missing)


def _measure(report: Report, folder: Path, name: str, url: str | None, commits: int) -> None:
    with running_valkey() as server:
        environment = dict(
            os.environ,
            REVERSER_STATE_DIR=str(folder),
            REVERSER_REDIS_URL=f"redis://127.0.0.1:{server.port}/0",
        )
        environment.pop("REVERSER_DATABASE_URL", None)
        if url is not None:
            environment["REVERSER_DATABASE_URL"] = url
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.bench.history", str(commits)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    for line in done.stdout.splitlines():
        value, unit, what, note = line.split("\t")
        report.add(f"{name}: {what}", float(value), unit, bar=PAGE_MS if unit == "ms" else None, note=note)


def _fill(count: int) -> None:
    from reverser.history import search
    from reverser.history.models import Commit, CommitObject, TargetState

    now = datetime.now(UTC)
    TargetState.objects.bulk_create(
        TargetState(uid=f"uid-{number}", namespace="shop", name=f"t{number}", provider="gp", branch="main")
        for number in range(TARGETS)
    )
    for start in range(0, count, BATCH):
        commits = Commit.objects.bulk_create(
            Commit(
                outcome=f"w-{number}-0",
                sha=f"{number:040x}",
                provider_namespace="shop",
                provider_name="gp",
                branch="main",
                target_uid="352502f0-244a-4951-914a-f72fc911245f",
                target_namespace="shop",
                target_name=f"t{number % TARGETS}",
                author_name="Alice Example",
                author_email="alice@example.com",
                username="alice@example.com",
                message=f"[UPDATE] v1/configmaps/o{number % 500:05}",
                close_reason="silence",
                changes_total=1,
                first_seen_at=now,
                pushed_at=now - timedelta(seconds=count - number),
            )
            for number in range(start, min(start + BATCH, count))
        )
        objects = [
            CommitObject(
                commit=commit,
                operation="UPDATE",
                version="v1",
                resource="configmaps",
                namespace="shop",
                name=f"o{number % 500:05}",
                path=f"live/shop/configmaps/o{number % 500:05}.yaml",
                outcome="written",
            )
            for number, commit in enumerate(commits, start)
        ]
        CommitObject.objects.bulk_create(objects)
        search.index((commit, [changed]) for commit, changed in zip(commits, objects, strict=True))


def _size(connection: Any) -> int:
    """Bytes of the database on disk."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE")
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(str(connection.settings_dict["NAME"])).stat().st_size


def main(count: int) -> None:
    """Print lines of value, unit, name and note."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    call_command("migrate", interactive=False, verbosity=0)
    before = _size(connection)
    _fill(count)
    grown = (_size(connection) - before) / 2**20
    print(f"{grown}\tMB\tdatabase growth for {count} commits of one object\t")
    client = Client(headers={"host": "localhost"})
    admin = get_user_model().objects.create_superuser("bench", "", "bench")
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    for page in PAGES:
        taken, spent = [], []
        for _ in range(5):
            with timed() as one:
                answer = client.get(page)
            taken.append(one.wall)
            spent.append(one.cpu)
            assert answer.status_code == 200, (page, answer.status_code)
        note = f"own CPU {percentile(spent, 0.5) * 1000:.0f} ms"
        print(f"{percentile(taken, 0.5) * 1000}\tms\tadmin page {page}\t{note}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
