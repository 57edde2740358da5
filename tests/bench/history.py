"""How the history database grows, and what every page and every list costs when all is large.

There are as many branches with waiting changes and as many streams as a large installation has; what web
keeps for a moment is forgotten before each request, and the cluster that is asked for rules and rights is a
sandbox in this process, whose work is part of the figures.
"""

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
STREAMS = 5
PAGES = (
    "/admin/",
    "/admin/?q=t1&page=2",
    "/admin/history/commit/",
    "/admin/history/commit/?q=o00042",
    "/admin/history/commit/?q=alice",
    "/admin/history/commit/?q=nothing-is-called-so",
    "/admin/history/commit/?namespace=shop&asked=yes",
    "/admin/history/commit/{commit}/change/",
    "/admin/history/commit/{commit}/diff/?view=side",
    "/admin/history/targetstate/",
    "/admin/history/targetstate/{target}/change/",
    "/admin/history/targetstate/{target}/do/replay/",
    "/admin/history/saverequest/",
    "/admin/history/saverequest/?q=spring&outcome=pushed",
    "/admin/history/saverequest/{request}/change/",
    "/admin/history/incident/",
    "/admin/history/incident/{incident}/change/",
    "/admin/branches/",
    "/admin/branches/{branch}/",
    "/admin/admin/logentry/",
    "/api/v1/gittargets?limit=200",
    "/api/v1/gittargets/shop/t0",
    "/api/v1/streams?limit=200",
    "/api/v1/commits?limit=200",
    "/api/v1/commits?author=alice@example.com&order=-changes",
    "/api/v1/commits?object=o00042",
    "/api/v1/commits?search=o00042",
    "/api/v1/commits/{sha}",
    "/api/v1/commitrequests?limit=200",
    "/api/v1/branches?limit=200",
    "/api/v1/gitproviders",
    "/api/v1/rules",
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
    state = folder / name
    state.mkdir()
    with running_valkey() as server:
        environment = dict(
            os.environ,
            REVERSER_STATE_DIR=str(state),
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
    from reverser.history.models import Commit, CommitObject, Incident, SaveRequest, TargetState
    from tests.dashboard.world import conditions

    now = datetime.now(UTC)
    TargetState.objects.bulk_create(
        TargetState(
            uid=f"uid-{number}",
            namespace="shop",
            name=f"t{number}",
            provider="gp",
            branch=f"env/{number}",
            conditions=conditions(),
        )
        for number in range(TARGETS)
    )
    for start in range(0, count, BATCH):
        commits = Commit.objects.bulk_create(
            Commit(
                outcome=f"w-{number}-0",
                sha=f"{number:040x}",
                provider_namespace="shop",
                provider_name="gp",
                branch=f"env/{number % TARGETS}",
                target_uid="352502f0-244a-4951-914a-f72fc911245f",
                target_namespace="shop",
                target_name=f"t{number % TARGETS}",
                author_name="Alice Example",
                author_email="alice@example.com",
                username="alice@example.com",
                message=f"[UPDATE] v1/configmaps/o{number % 500:05}",
                close_reason="timer",
                request_uid=f"request-{number}" if number % 10 == 0 else "",
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
    for start in range(0, count // 10, BATCH):
        SaveRequest.objects.bulk_create(
            SaveRequest(
                uid=f"request-{number * 10}",
                namespace="shop",
                name=f"save-{number}",
                target_name=f"t{number % TARGETS}",
                submitter="alice@example.com",
                message="Menu for spring",
                outcome="pushed",
                requested_at=now,
                finished_at=now,
            )
            for number in range(start, start + BATCH)
        )
        Incident.objects.bulk_create(
            Incident(
                outcome=f"i-{number}",
                kind="refused",
                provider_namespace="shop",
                provider_name="gp",
                branch="main",
                target_uid=f"uid-{number % TARGETS}",
                target_namespace="shop",
                target_name=f"t{number % TARGETS}",
                reason="UnsupportedContent",
                detail="Git path refused at x.yaml: it is no manifest; remove it",
                happened_at=now,
            )
            for number in range(start, start + BATCH)
        )


def _fill_store() -> None:
    """A change waits for each branch, and each target has some streams."""
    from reverser.history.models import TargetState
    from reverser.store.model import Scope, StreamRecord, StreamState, TypeRef
    from reverser.wiring import store
    from tests.dashboard import world

    for row in TargetState.objects.all():
        world.pending(store(), row, b"{}")
        for number in range(STREAMS):
            kind = TypeRef("", "v1", f"type{number}", f"Type{number}", True)
            scope = Scope(row.uid, f"type{number}", "shop")
            store().write_stream(StreamRecord(scope, kind, StreamState.STREAMING, "Streaming"))


def _clone(folder: Path, branch: str) -> str:
    """A clone of a branch where web looks for it, with one commit of twenty files; its id."""
    clone = folder / "workers" / "shop" / "gp" / branch / "repos" / "abc"
    tree = folder / "tree"
    tree.mkdir(parents=True)
    clone.parent.mkdir(parents=True)
    git = ["git", "-C", str(tree), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", "init", "-q", "--separate-git-dir", str(clone), str(tree)], check=True)
    for word in ("one", "two"):
        for number in range(20):
            lines = (f"key{line}: {word if line % 20 == 0 else line}\n" for line in range(200))
            (tree / f"{number}.yaml").write_text("".join(lines))
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", word], check=True)
    return subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


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
    from django.core.management import call_command
    from django.db import connection

    from reverser.kube.sync import Kube
    from reverser.sandbox.thread import SandboxServer
    from tests.dashboard import world

    call_command("migrate", interactive=False, verbosity=0)
    before = _size(connection)
    _fill(count)
    grown = (_size(connection) - before) / 2**20
    print(f"{grown}\tMB\tdatabase growth for {count} commits of one object\t")
    _fill_store()
    with SandboxServer(record=False) as sandbox:
        os.environ["KUBECONFIG"] = str(sandbox.kubeconfig_path)
        world.install(Kube.connect(str(sandbox.kubeconfig_path)))
        _pages()


def _pages() -> None:
    from django.contrib.auth import get_user_model
    from django.test import Client

    from reverser.dashboard.readings import READING
    from reverser.history.models import Commit, Incident, SaveRequest, TargetState
    from reverser.rest import access
    from tests.dashboard import world

    target = TargetState.objects.order_by("id")[0]
    commit = Commit.objects.filter(branch=target.branch).order_by("-id")[0]
    commit.sha = _clone(Path(os.environ["REVERSER_STATE_DIR"]), commit.branch)
    commit.save()
    names = {
        "target": target.pk,
        "commit": commit.pk,
        "sha": commit.sha,
        "request": SaveRequest.objects.order_by("id")[0].pk,
        "incident": Incident.objects.order_by("id")[0].pk,
        "branch": world.key(target).id,
    }
    client = Client(headers={"host": "localhost"})
    admin = get_user_model().objects.create_superuser("bench", "", "bench")
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    for page in PAGES:
        taken, spent = [], []
        for _ in range(5):
            READING.clear()
            access.ACCESS.clear()
            with timed() as one:
                answer = client.get(page.format(**names))
            taken.append(one.wall)
            spent.append(one.cpu)
            assert answer.status_code == 200, (page, answer.status_code)
            assert b"git show" not in answer.content or "diff" not in page
        note = f"own CPU {percentile(spent, 0.5) * 1000:.0f} ms"
        where = "REST" if page.startswith("/api") else "admin page"
        print(f"{percentile(taken, 0.5) * 1000}\tms\t{where} {page}\t{note}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
