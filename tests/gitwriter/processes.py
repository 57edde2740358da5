"""Real processes that write the journal of a test's world: whole workers, and single runs that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from reverser.store import Store
from tests.loopback import serving

from .conftest import World

ROOT = Path(__file__).parents[2]
WORKER = """
import json, sys
from gitwriter import lease
from gitwriter.runtime import WriterRuntime
from reverser import workerprocess
given = json.loads(sys.argv[1])
lease.LEASE_MS = given.get("lease_ms", lease.LEASE_MS)
lease.RENEW_SECONDS = lease.LEASE_MS / 4000
WriterRuntime.begin_shutdown.__kwdefaults__["grace"] = given.get("grace", 18.0)
workerprocess.LIMIT_SECONDS = given.get("limit", 23.0)
from reverser.celery import app
app.worker_main(["--quiet", "worker", "--pool", "threads", "--concurrency", "2"])
"""
RUN = """
import json, os, signal, sys
from gitwriter.git.repository import BareRepository
from gitwriter.runtime import WriterRuntime
from reverser.config import load_config
from reverser.kube.sync import Kube
from reverser.store import Store
from reverser.store.model import BranchKey
given = json.loads(sys.argv[1])
owner, name = {"Store": Store, "BareRepository": BareRepository}[given["owner"]], given["name"]
step = owner.__dict__[name]
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def last(self, *arguments, **more):
    if given["before"]:
        die()
    step.__get__(self, owner)(*arguments, **more)
    die()
setattr(owner, name, last)
config = load_config(os.environ)
store = Store.connect(os.environ["REVERSER_REDIS_URL"])
WriterRuntime(store=store, kube=Kube.connect(), config=config).write(BranchKey(*given["branch"]))
"""


@contextmanager
def api_server(world: World) -> Iterator[int]:
    """The world's cluster on a port of the loopback."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = world.cluster.objects.get(self.path)
            body = json.dumps(found or {"kind": "Status", "reason": "NotFound", "code": 404}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with serving(Answer) as port:
        yield port


def environment(folder: Path, redis_url: str, port: int) -> dict[str, str]:
    """What a process in ``folder`` needs to see the API server at ``port``."""
    folder.mkdir(exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: k, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
    )
    kept = {key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")}
    return kept | {
        "KUBECONFIG": str(kubeconfig),
        "REVERSER_STATE_DIR": str(folder / "state"),
        "REVERSER_REDIS_URL": redis_url,
        "REVERSER_HEALTH_ADDR": "127.0.0.1:0",
        "DJANGO_SETTINGS_MODULE": "reverser.settings",
    }


@contextmanager
def worker(folder: Path, redis_url: str, port: int, **given: float) -> Iterator[subprocess.Popen[bytes]]:
    """A Celery worker for the time of a block; ``given`` are durations (see ``WORKER``)."""
    variables = environment(folder, redis_url, port)
    (folder / "state").mkdir()
    command = [sys.executable, "-c", WORKER, json.dumps(given)]
    process = subprocess.Popen(command, cwd=ROOT, env=variables)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def killed_run(
    world: World, folder: Path, redis_url: str, *, port: int, owner: type, name: str, before: bool
) -> int:
    """One run of a writer in a process that is killed right before or after it first calls a method; its
    exit code.
    """
    given = {"owner": owner.__name__, "name": name, "before": before}
    branch = [world.branch.namespace, world.branch.provider, world.branch.branch]
    command = [sys.executable, "-c", RUN, json.dumps(given | {"branch": branch})]
    variables = environment(folder, redis_url, port)
    return subprocess.run(command, cwd=ROOT, env=variables, timeout=120).returncode


def holders(store: Store) -> list[int]:
    """The processes that hold the lease of a branch now."""
    from reverser.store.model import LeaseKind

    return [int(holder.rpartition("/")[2]) for holder in store.lease_holders(LeaseKind.BRANCH).values()]
