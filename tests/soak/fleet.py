"""An installation with replicas: three watchers, three workers, two webs, beat, a store and a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from reverser.config import load_config
from reverser.kube.sync import Kube
from reverser.store import Store
from reverser.supervision.install import install_crds
from reverser.supervision.processes import Program, Supervisor
from reverser.supervision.product import child_environment, programs
from tests.e2e.cluster import sandbox_program, wait_for_cluster
from tests.e2e.operator import ROOT
from tests.ports import free_port
from tests.soak.machine import Machine, age
from tests.soak.plan import REPLICAS, STORE
from tests.soak.stores import SERVERS, Stores
from tests.soak.trust import Trust

STARTED_SECONDS = 30.0


@dataclass(slots=True)
class Fleet:
    """Everything that runs. Faults act on process groups, so no child of a process outlives it."""

    folder: Path
    output: IO[str]
    supervisor: Supervisor
    kubeconfig: Path
    """The administrator's."""
    machine: Machine
    trust: Trust
    ports: dict[str, tuple[int, int]]
    """Audit and admission port of each web."""
    stores: Stores
    deaths: list[str] = field(default_factory=list)
    """Processes that ended although nobody had killed them."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, folder: Path, output: IO[str]) -> Fleet:
        """Start all, the product last."""
        kubeconfig = folder / "kubeconfig"
        ports = {f"web-{number}": (free_port(), free_port()) for number in range(REPLICAS["web"])}
        trust = Trust(folder, *zip(*ports.values(), strict=True))
        machine = Machine(folder)
        stores = Stores(folder, {name: folder / f"{name}-state" for name in SERVERS})
        fleet = cls(folder, output, Supervisor(output=output), kubeconfig, machine, trust, ports, stores)
        try:
            fleet._start()
        except BaseException:
            fleet.stop()
            raise
        return fleet

    def _start(self) -> None:
        token = self._new_token()
        sandbox = sandbox_program(
            self.folder,
            self.kubeconfig,
            "--audit-webhook",
            self.trust.url,
            "--audit-batch-max-wait",
            "0.2",
            "--token-file",
            str(self.folder / "tokens.csv"),
        )
        self.supervisor.start(sandbox)
        install_crds(wait_for_cluster(self.kubeconfig))
        self._use_token(token)
        for name in SERVERS:
            self.machine.small_disk(self.state_dir(name))
        environment = {**os.environ, **self.machine.environment(STORE)}
        for program in (*self.stores.servers(environment), *self.stores.sentinels(os.environ)):
            self.supervisor.start(program)
        self.stores.wait_in_step()
        first = True
        for role, count in REPLICAS.items():
            for number in range(count):
                program = self._program(role, number)
                if first:
                    self._migrate(program)
                    first = False
                self.supervisor.start(program)

    def _program(self, role: str, number: int) -> Program:
        """A replica with a state directory of its own: clones are one process's."""
        name = f"{role}-{number}"
        state = self.state_dir(name)
        self.machine.small_disk(state)
        for part in ("run", "metrics"):
            (state / part).mkdir()
        audit, admission = self.ports.get(name, (0, 0))
        settings = {
            **{key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")},
            **self.machine.environment(name),
            "KUBECONFIG": str(self.operator_kubeconfig),
            "REVERSER_AUDIT_ADDR": f"127.0.0.1:{audit}",
            "REVERSER_AUDIT_CERT_DIR": str(self.trust.certificates),
            "REVERSER_AUDIT_CLIENT_CA": str(self.trust.certificates / "ca.crt"),
            "REVERSER_ADMISSION_ADDR": f"127.0.0.1:{admission}",
            "REVERSER_ADMISSION_CERT_DIR": str(self.trust.certificates),
            "REVERSER_DATABASE_URL": f"sqlite:///{self.folder / 'history.sqlite3'}",
            "REVERSER_DIGEST_KEY_FILE": str(self.folder / "digest-key"),
            "REVERSER_HTTP_ADDR": f"127.0.0.1:{free_port()}",
            "REVERSER_HEALTH_ADDR": "127.0.0.1:0",
            "REVERSER_COMMAND_NAMESPACE": "default",
            "REVERSER_STATE_DIR": str(state),
            "REVERSER_REDIS_URL": self.stores.url,
        }
        environment = settings | {
            key: value
            for key, value in child_environment(load_config(settings), self.stores.url).items()
            if key not in os.environ and key not in settings
        }
        found = {program.name: program for program in programs(environment, threads=2, state_dir=state)}
        return replace(found[role], name=name, log_file=self.folder / f"{name}.log")

    def _migrate(self, program: Program) -> None:
        argv = [program.argv[0], str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
        subprocess.run(argv, env=dict(program.env), cwd=ROOT, check=True)

    def stop(self) -> None:
        """End all."""
        self.supervisor.stop((), limit_seconds=30)
        self.trust.close()
        self.machine.close()

    def state_dir(self, name: str) -> Path:
        """Where a process keeps its state, on a small disk of its own."""
        return self.folder / f"{name}-state"

    @property
    def operator_kubeconfig(self) -> Path:
        """The product's, with a token that is replaced now and then."""
        return self.folder / "operator.kubeconfig"

    def _new_token(self) -> str:
        token = secrets.token_urlsafe(24)
        (self.folder / "tokens.csv").write_text(f'{token},operator,1,"system:masters"\n', encoding="ascii")
        return token

    def _use_token(self, token: str) -> None:
        config = json.loads(self.kubeconfig.read_bytes())
        config["users"][0]["user"] = {"token": token}
        new = self.operator_kubeconfig.with_suffix(".next")
        new.write_text(json.dumps(config), encoding="utf-8")
        new.replace(self.operator_kubeconfig)

    @contextmanager
    def new_token(self) -> Iterator[None]:
        """The API server ends, and starts again with another token for the operator; the old one is void."""
        with self.killed("sandbox"):
            yield
            token = self._new_token()
        wait_for_cluster(self.kubeconfig)
        time.sleep(2.0)  # the operator meets the refusal before it has the new token
        self._use_token(token)

    @property
    def replicas(self) -> list[str]:
        """All processes of the product."""
        return [name for role in REPLICAS for name in self.names(role)]

    def names(self, role: str) -> list[str]:
        """The replicas of a role."""
        return [f"{role}-{number}" for number in range(REPLICAS[role])]

    def meant(self, target: str) -> list[str]:
        """The processes that a fault's target names: those of a role, the store's primary, or one."""
        if target == STORE:
            return [self.stores.primary]
        return self.names(target) if target in REPLICAS else [target]

    def has_come_up(self, name: str) -> bool:
        """Whether a process is older than a start takes, on a busy machine as well."""
        return age(self.supervisor.pid(name)) > STARTED_SECONDS

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all it started, and start it again at once."""
        with self.killed(name):
            pass

    @contextmanager
    def killed(self, name: str) -> Iterator[None]:
        """SIGKILL to a process and all it started; it is started again after the block."""
        with self._lock:
            os.killpg(self.supervisor.pid(name), signal.SIGKILL)
            while not self.supervisor.ended(name):
                time.sleep(0.01)
            try:
                yield
            finally:
                self.supervisor.resume(name)

    def take_down(self, name: str) -> None:
        """SIGKILL to a process and all it started; it stays down until ``bring_up``."""
        with self._lock:
            os.killpg(self.supervisor.pid(name), signal.SIGKILL)
            while not self.supervisor.ended(name):
                time.sleep(0.01)
            self.supervisor.hold(name)

    def bring_up(self, name: str) -> None:
        """Start again what was taken down."""
        with self._lock:
            self.supervisor.resume(name)

    def pause(self, name: str) -> None:
        """SIGSTOP to a process and all it started; one that was killed just now is left alone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.supervisor.pid(name), signal.SIGSTOP)

    def unpause(self, name: str) -> None:
        """SIGCONT."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.supervisor.pid(name), signal.SIGCONT)

    def check(self) -> None:
        """Start again what ended by itself, and count it."""
        with self._lock:
            self.deaths += self.supervisor.check()

    def kube(self) -> Kube:
        """A client."""
        return wait_for_cluster(self.kubeconfig)

    def store(self) -> Store:
        """A client of the store."""
        return Store.connect(self.stores.url)

    @property
    def cluster_files(self) -> Path:
        """Where the API server keeps its record."""
        return self.folder / "cluster"
