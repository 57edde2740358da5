"""An installation with replicas: three watchers, three workers, two webs, beat, a store and a cluster."""

from __future__ import annotations

import os
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
from reverser.supervision.valkey import embedded_valkey, wait_for_redis
from tests.e2e.cluster import sandbox_program, wait_for_cluster
from tests.e2e.operator import ROOT, free_port
from tests.soak.plan import REPLICAS


@dataclass(slots=True)
class Fleet:
    """Everything that runs. Faults act on process groups, so no child of a process outlives it."""

    folder: Path
    output: IO[str]
    supervisor: Supervisor
    kubeconfig: Path
    store_url: str = ""
    deaths: list[str] = field(default_factory=list)
    """Processes that ended although nobody had killed them."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, folder: Path, output: IO[str]) -> Fleet:
        """Start all, the product last."""
        kubeconfig = folder / "kubeconfig"
        fleet = cls(folder, output, Supervisor(output=output), kubeconfig)
        try:
            fleet._start()
        except BaseException:
            fleet.stop()
            raise
        return fleet

    def _start(self) -> None:
        self.supervisor.start(sandbox_program(self.folder, self.kubeconfig))
        install_crds(wait_for_cluster(self.kubeconfig))
        state = self.folder / "state"
        state.mkdir()
        valkey = embedded_valkey(state)
        self.store_url = valkey.url
        self.supervisor.start(
            Program("store", valkey.argv, dict(os.environ), log_file=self.folder / "store.log")
        )
        problem = wait_for_redis(valkey.url, seconds=20)
        assert not problem, problem
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
        state = self.folder / f"{role}-{number}"
        for part in ("run", "metrics"):
            (state / part).mkdir(parents=True)
        settings = {
            **{key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")},
            "KUBECONFIG": str(self.kubeconfig),
            "REVERSER_DATABASE_URL": f"sqlite:///{self.folder / 'history.sqlite3'}",
            "REVERSER_DIGEST_KEY_FILE": str(self.folder / "digest-key"),
            "REVERSER_HTTP_ADDR": f"127.0.0.1:{free_port()}",
            "REVERSER_HEALTH_ADDR": "127.0.0.1:0",
            "REVERSER_COMMAND_NAMESPACE": "default",
            "REVERSER_STATE_DIR": str(state),
            "REVERSER_REDIS_URL": self.store_url,
        }
        environment = settings | {
            key: value
            for key, value in child_environment(load_config(settings), self.store_url).items()
            if key not in os.environ and key not in settings
        }
        found = {program.name: program for program in programs(environment, threads=2, state_dir=state)}
        return replace(found[role], name=f"{role}-{number}", log_file=self.folder / f"{role}-{number}.log")

    def _migrate(self, program: Program) -> None:
        argv = [program.argv[0], str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
        subprocess.run(argv, env=dict(program.env), cwd=ROOT, check=True)

    def stop(self) -> None:
        """End all."""
        self.supervisor.stop((), limit_seconds=30)

    def names(self, role: str) -> list[str]:
        """The replicas of a role."""
        return [f"{role}-{number}" for number in range(REPLICAS[role])]

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

    def pause(self, name: str) -> None:
        """SIGSTOP to a process and all it started."""
        os.killpg(self.supervisor.pid(name), signal.SIGSTOP)

    def unpause(self, name: str) -> None:
        """SIGCONT."""
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
        return Store.connect(self.store_url)

    @property
    def cluster_files(self) -> Path:
        """Where the API server keeps its record."""
        return self.folder / "cluster"
