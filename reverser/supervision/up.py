"""``manage.py up``: every process of the product on one machine.

Start-up order: lock the state directory, run every check, prepare the store and the database, and only then
start the processes. ``ready`` is printed once every process is ready. Stop order: the watcher (its buffers go
to the journal) together with beat and web, then the worker (windows closed, one last push), and the store
last.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from reverser.config import Config
from reverser.errors import ReverserError, SettingsInvalid, TransientError
from reverser.health import announce_path
from reverser.kube.sync import Kube
from reverser.metrics import forget_process
from reverser.quantities import Address, parse_address
from reverser.supervision import preflight
from reverser.supervision.install import ensure_namespace, install_crds
from reverser.supervision.processes import Output, Program, Supervisor
from reverser.supervision.product import (
    Login,
    child_environment,
    prepare_database,
    prepare_folders,
    programs,
)
from reverser.supervision.valkey import embedded_valkey, wait_for_redis

T = TypeVar("T")

STOP_STAGES = (("watcher", "beat", "web"), ("worker",))
TERM_LIMIT_SECONDS = 24.0
INTERRUPT_LIMIT_SECONDS = 7.0
"""Ctrl-C is over within ten seconds, on a busy machine too."""
READY_LIMIT_SECONDS = 90.0
VALKEY_START_SECONDS = 20.0
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""To processes of our own no proxy of the environment leads."""


class Interrupted(Exception):
    """The run was asked to stop before it was complete."""


def _unprepared(error: ReverserError) -> str:
    return f"KUBECONFIG: the cluster cannot be prepared: {error}"


def _out_of_order(state_dir: Path, error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return (
        f"{where}{(error.strerror or str(error)).lower()}; see to the space and the rights of the state "
        f"directory {state_dir}, or choose another with REVERSER_STATE_DIR or --state-dir"
    )


def _last_words(program: Program) -> str:
    """The last line that a program left in its log file, and where to read on."""
    if program.log_file is None:
        return "see its output above"
    try:
        lines = program.log_file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    words = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{words} (log: {program.log_file})"


class Up:
    """One run of all processes. ``run`` returns the exit code."""

    def __init__(
        self,
        config: Config,
        *,
        install: bool,
        say: Callable[[str], None],
        extra: Callable[[], Sequence[Program]] | None = None,
        before_ready: Callable[[Kube], None] | None = None,
        on_ready: Callable[[Up], int | None] | None = None,
        output: Output | None = None,
    ) -> None:
        """``extra`` makes the programs that are started first, once the state directory is taken;
        ``before_ready`` runs before the product's processes start; ``on_ready`` may run a story and return
        an exit code that ends the run; ``output`` takes what the processes print (default: stderr)."""
        self.config = config
        self.install = install
        self.say = say
        self.extra = extra
        self.before_ready = before_ready
        self.on_ready = on_ready
        self.supervisor = Supervisor(output=output or sys.stderr)
        self.login: Login | None = None
        self._ending = False
        self._limit = TERM_LIMIT_SECONDS

    def run(self) -> int:
        """Start everything and stay until told to end. Raises SettingsInvalid before anything is started."""
        with preflight.owned_state_dir(self.config.state_dir) as lock:
            self.supervisor.inherit = (lock,)
            self._handle_signals()
            try:
                self._start()
                return self._stay()
            except Interrupted:
                return 0
            except OSError as error:
                raise SettingsInvalid([_out_of_order(self.config.state_dir, error)]) from error
            finally:
                self.supervisor.stop(STOP_STAGES, limit_seconds=self._limit)

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to end."""
        return self._ending

    def request_stop(self, *, limit_seconds: float) -> None:
        """End the run from another thread or a signal handler.

        No lock is taken: a second signal in the middle of the first would wait for itself.
        """
        self._limit = limit_seconds
        self._ending = True

    def _handle_signals(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.request_stop(limit_seconds=TERM_LIMIT_SECONDS))
        signal.signal(signal.SIGINT, lambda *_: self.request_stop(limit_seconds=INTERRUPT_LIMIT_SECONDS))

    def _start(self) -> None:
        state = self.config.state_dir
        self._refuse_what_cannot_work()
        kube = None
        if self.extra is None:
            kube = self._connect(())
            self._look_at_cluster(kube)
        prepare_folders(state)
        if kube is None:
            kube = self._connect(self._start_cluster())
        redis_url = self._redis(state)
        self.login = prepare_database(state)
        self._prepare_cluster(kube)
        environment = child_environment(self.config, redis_url)
        for program in programs(environment, threads=self.config.worker_threads, state_dir=state):
            self._go_on()
            self.supervisor.start(program)

    def _refuse_what_cannot_work(self) -> None:
        """Report every problem that can be found before anything is created or started, all at once."""
        found = [
            preflight.space_problem(self.config.state_dir),
            preflight.git_problem(),
            *preflight.listener_problems(self.config),
        ]
        absent = preflight.redis_problem(self.config.redis_url) if self.config.redis_url else ""
        waits = bool(absent) and self.extra is None and preflight.redis_may_come(self.config.redis_url)
        if not waits:
            found.append(absent)
        problems = [problem for problem in found if problem]
        if problems:
            raise SettingsInvalid(problems)
        if waits:
            self.say(f"{absent}; everything starts and waits for it")

    def _start_cluster(self) -> tuple[Program, ...]:
        started = tuple(self.extra()) if self.extra is not None else ()
        for program in started:
            self.supervisor.start(program)
        return started

    def _go_on(self) -> None:
        if self.stopping:
            raise Interrupted

    def _connect(self, extra: Sequence[Program]) -> Kube:
        kubeconfig = os.environ.get("KUBECONFIG") or None
        deadline = time.monotonic() + (READY_LIMIT_SECONDS if extra else 0)
        while True:
            problem = preflight.cluster_problem(lambda: Kube.connect(kubeconfig))
            if not problem:
                return Kube.connect(kubeconfig)
            self._go_on()
            for program in extra:
                if self.supervisor.ended(program.name):
                    raise SettingsInvalid(
                        [f"the demo's {program.name} did not start; {_last_words(program)}"]
                    )
            if time.monotonic() > deadline:
                raise SettingsInvalid([problem])
            time.sleep(0.1)

    def _redis(self, state: Path) -> str:
        if self.config.redis_url:
            return self.config.redis_url
        embedded = embedded_valkey(state)
        program = Program(
            "valkey", embedded.argv, dict(os.environ), stop_seconds=5, log_file=state / "valkey" / "log"
        )
        self.supervisor.start(program)
        deadline = time.monotonic() + VALKEY_START_SECONDS
        while reason := wait_for_redis(embedded.url, seconds=0):
            self._go_on()
            if self.supervisor.ended("valkey") or time.monotonic() > deadline:
                raise SettingsInvalid(
                    [f"the embedded Valkey did not start ({reason}); {_last_words(program)}"]
                )
            time.sleep(0.05)
        return embedded.url

    def _look_at_cluster(self, kube: Kube) -> None:
        """Nothing is started for a cluster that lacks the custom resources."""
        if self.install:
            return
        missing = self._patiently(lambda: preflight.missing_crds(kube))
        if missing:
            raise SettingsInvalid(
                [
                    f"the cluster lacks {', '.join(missing)}; run again with --install-crds, or "
                    "kubectl apply -f deploy/crds"
                ]
            )

    def _prepare_cluster(self, kube: Kube) -> None:
        if self.install:
            self._patiently(lambda: install_crds(kube))
            self._patiently(lambda: ensure_namespace(kube, self.config.command_namespace))
        if self.before_ready is not None:
            before_ready = self.before_ready
            self._patiently(lambda: before_ready(kube))

    def _patiently(self, step: Callable[[], T]) -> T:
        """Repeat a step for which the cluster may be too busy; it has answered before. Raises SettingsInvalid
        for an error that will not pass.
        """
        told = False
        while True:
            try:
                return step()
            except TransientError as error:
                if self.extra is not None:
                    raise SettingsInvalid([_unprepared(error)]) from error
                if not told:
                    self.say(f"waiting for the cluster: {error}")
                    told = True
            except ReverserError as error:
                raise SettingsInvalid([_unprepared(error)]) from error
            self._go_on()
            time.sleep(1)

    def _stay(self) -> int:
        deadline = time.monotonic() + READY_LIMIT_SECONDS
        announced = False
        while not self.stopping:
            time.sleep(0.1)
            for name in self.supervisor.check():
                forget_process(self.supervisor.pid(name), self.config.state_dir / "metrics")
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

    @property
    def web_address(self) -> Address:
        """Where web answers: the setting, with the port that was found where it names none."""
        address = self.config.http_addr
        if address.port:
            return address
        try:
            return parse_address(announce_path(self.config.state_dir, "web").read_text(encoding="ascii"))
        except FileNotFoundError:
            return address

    def _probe(self, name: str) -> str:
        if name == "web":
            address = self.web_address
            if not address.port:
                return "starting"
            host = address.host if address.host not in {"", "0.0.0.0", "::"} else "127.0.0.1"  # noqa: S104
            where = str(replace(address, host=host))
        else:
            try:
                where = announce_path(self.config.state_dir, name).read_text(encoding="ascii")
            except FileNotFoundError:
                return "starting"
        request = urllib.request.Request(f"http://{where}/readyz", headers={"Host": "localhost"})
        try:
            with _DIRECTLY.open(request, timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read(400).decode("utf-8", "replace").strip()
        except OSError as error:
            return str(error)
