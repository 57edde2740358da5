"""``manage.py up``: every process of the product on one machine.

Order of a start: the state directory is taken, everything that can be checked is checked, the store and
the database are made ready, and only then are processes started. ``ready`` is printed once every process
says so. Order of a stop: watcher (its buffers go to the journal), worker (windows closed, one last push),
beat, web, and the store at the very end.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reverser.config import Config, variable_name
from reverser.errors import ReverserError, SettingsInvalid
from reverser.health import announce_path
from reverser.kube.sync import Kube
from reverser.supervision import preflight
from reverser.supervision.install import ensure_namespace, install_crds
from reverser.supervision.processes import Program, Supervisor
from reverser.supervision.valkey import embedded_valkey, wait_for_redis

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parent.parent.parent
STOP_ORDER = ("watcher", "worker", "beat", "web")
TERM_LIMIT_SECONDS = 32.0
INTERRUPT_LIMIT_SECONDS = 9.5
READY_LIMIT_SECONDS = 90.0
VALKEY_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Login:
    """The generated administrator of a first start."""

    username: str
    password: str


def child_environment(config: Config, redis_url: str) -> dict[str, str]:
    """The environment of the children: the parent's, with every address made explicit."""
    environment = dict(os.environ)
    environment[variable_name("redis_url")] = redis_url
    environment[variable_name("state_dir")] = str(config.state_dir)
    environment.setdefault(variable_name("health_addr"), "127.0.0.1:0")
    environment.setdefault(variable_name("digest_key_file"), str(config.state_dir / "digest-key"))
    environment["PROMETHEUS_MULTIPROC_DIR"] = str(config.state_dir / "metrics")
    environment["DJANGO_SETTINGS_MODULE"] = "reverser.settings"
    environment["PYTHONUNBUFFERED"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(ROOT), environment.get("PYTHONPATH", "")) if part
    )
    return environment


def programs(environment: dict[str, str], *, threads: int, state_dir: Path) -> list[Program]:
    """The four processes of the product."""
    python = sys.executable
    manage = str(ROOT / "manage.py")
    celery = (python, "-m", "celery", "--quiet", "-A", "reverser")
    worker = (
        *celery,
        "worker",
        "--pool",
        "threads",
        "--concurrency",
        str(threads),
        "--hostname",
        f"worker-{secrets.token_hex(3)}@%h",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    )
    beat = (*celery, "beat", "--pidfile", str(state_dir / "run" / "beat.pid"))
    return [
        Program("web", (python, manage, "serve"), environment, stop_seconds=5),
        Program("worker", worker, environment, stop_seconds=25),
        Program("watcher", (python, manage, "watch"), environment, stop_seconds=10),
        Program("beat", beat, environment, stop_seconds=5),
    ]


def _prepare_folders(state_dir: Path) -> None:
    for name in ("run", "metrics"):
        shutil.rmtree(state_dir / name, ignore_errors=True)
        (state_dir / name).mkdir(parents=True)


def _migrate() -> None:
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)


def ensure_login(state_dir: Path) -> Login | None:
    """Create an administrator with a generated password where there is none yet.

    The password is kept in ``admin-password`` in the state directory, readable by the owner alone.
    """
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    path = state_dir / "admin-password"
    if users.filter(is_superuser=True).exists():
        return Login("admin", path.read_text(encoding="ascii")) if path.exists() else None
    password = secrets.token_urlsafe(12)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(password, encoding="ascii")
    users.create_superuser("admin", "", password)
    return Login("admin", password)


class Up:
    """One run of all processes. ``run`` returns the exit code."""

    def __init__(
        self,
        config: Config,
        *,
        install: bool,
        say: Callable[[str], None],
        extra: Sequence[Program] = (),
        before_ready: Callable[[Kube], None] | None = None,
        on_ready: Callable[[Up], int | None] | None = None,
    ) -> None:
        """``extra`` programs are started first; ``before_ready`` runs before the product's processes start;
        ``on_ready`` may run a story and return an exit code that ends the run."""
        self.config = config
        self.install = install
        self.say = say
        self.extra = tuple(extra)
        self.before_ready = before_ready
        self.on_ready = on_ready
        self.supervisor = Supervisor()
        self.login: Login | None = None
        self._stop = threading.Event()
        self._limit = TERM_LIMIT_SECONDS

    def run(self) -> int:
        """Start everything and stay until told to end. Raises SettingsInvalid before anything is started."""
        with preflight.owned_state_dir(self.config.state_dir):
            self._handle_signals()
            try:
                self._start()
                if self._stop.is_set():
                    return 0
                return self._stay()
            finally:
                self.supervisor.stop(STOP_ORDER, limit_seconds=self._limit)

    def request_stop(self, *, limit_seconds: float) -> None:
        """End the run from another thread or a signal handler."""
        self._limit = limit_seconds
        self._stop.set()

    def _handle_signals(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.request_stop(limit_seconds=TERM_LIMIT_SECONDS))
        signal.signal(signal.SIGINT, lambda *_: self.request_stop(limit_seconds=INTERRUPT_LIMIT_SECONDS))

    def _start(self) -> None:
        state = self.config.state_dir
        problems = preflight.listener_problems(self.config)
        if problems:
            raise SettingsInvalid(problems)
        _prepare_folders(state)
        for program in self.extra:
            self.supervisor.start(program)
        kube = self._connect()
        redis_url = self._redis(state)
        _migrate()
        self.login = ensure_login(state)
        self._prepare_cluster(kube)
        if self.before_ready is not None:
            self.before_ready(kube)
        environment = child_environment(self.config, redis_url)
        for program in programs(environment, threads=self.config.worker_threads, state_dir=state):
            self.supervisor.start(program)

    def _connect(self) -> Kube:
        kubeconfig = os.environ.get("KUBECONFIG") or None
        if not self.extra:
            problem = preflight.cluster_problem(lambda: Kube.connect(kubeconfig))
            if problem:
                raise SettingsInvalid([problem])
            return Kube.connect(kubeconfig)
        deadline = time.monotonic() + READY_LIMIT_SECONDS
        while True:
            problem = preflight.cluster_problem(lambda: Kube.connect(kubeconfig))
            if not problem:
                return Kube.connect(kubeconfig)
            if time.monotonic() > deadline or self._stop.wait(0.2):
                raise SettingsInvalid([problem])

    def _redis(self, state: Path) -> str:
        if self.config.redis_url:
            problem = preflight.redis_problem(self.config.redis_url)
            if problem:
                raise SettingsInvalid([problem])
            return self.config.redis_url
        embedded = embedded_valkey(state)
        self.supervisor.start(
            Program(
                "valkey", embedded.argv, dict(os.environ), stop_seconds=5, log_file=state / "valkey" / "log"
            )
        )
        reason = wait_for_redis(embedded.url, seconds=VALKEY_START_SECONDS)
        if reason:
            raise SettingsInvalid(
                [f"the embedded Valkey did not start ({reason}); see {state / 'valkey' / 'log'}"]
            )
        return embedded.url

    def _prepare_cluster(self, kube: Kube) -> None:
        try:
            if self.install:
                install_crds(kube)
                ensure_namespace(kube, self.config.command_namespace)
                return
            missing = preflight.missing_crds(kube)
        except ReverserError as error:
            raise SettingsInvalid(
                [f"KUBECONFIG: the custom resources cannot be prepared: {error}"]
            ) from error
        if missing:
            raise SettingsInvalid(
                [
                    f"the cluster lacks {', '.join(missing)}; run again with --install-crds, or "
                    "kubectl apply -f deploy/crds"
                ]
            )

    def _stay(self) -> int:
        deadline = time.monotonic() + READY_LIMIT_SECONDS
        announced = False
        while not self._stop.wait(0.2):
            self.supervisor.check()
            if announced:
                continue
            waiting = self.not_ready()
            if not waiting:
                announced = True
                self.say("ready")
                if self.on_ready is not None:
                    code = self.on_ready(self)
                    if code is not None:
                        return code
            elif time.monotonic() > deadline:
                deadline = float("inf")
                self.say(f"still waiting for {waiting}")
        return 0

    def not_ready(self) -> str:
        """The first process that is not ready, with its reason, or an empty text."""
        for name in ("web", "watcher", "worker", "beat"):
            reason = self._probe(name)
            if reason:
                return f"{name}: {reason}"
        return ""

    def _probe(self, name: str) -> str:
        if name == "web":
            address = self.config.http_addr
            host = address.host if address.host not in {"", "0.0.0.0", "::"} else "127.0.0.1"  # noqa: S104
            where = str(replace(address, host=host))
        else:
            try:
                where = announce_path(self.config.state_dir, name).read_text(encoding="ascii")
            except FileNotFoundError:
                return "starting"
        request = urllib.request.Request(f"http://{where}/readyz", headers={"Host": "localhost"})
        try:
            with urllib.request.urlopen(request, timeout=5):  # noqa: S310 - an address of our own
                return ""
        except urllib.error.HTTPError as error:
            return error.read(400).decode("utf-8", "replace").strip()
        except OSError as error:
            return str(error)


def describe_login(login: Login | None) -> str:
    """One line that tells how to log in."""
    if login is None:
        return "log in with an account that you have created"
    return f"log in as {json.dumps(login.username)} with password {json.dumps(login.password)}"
