"""``manage.py up`` as a process under test."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
READY_SECONDS = 180.0
STOP_SECONDS = 90.0


class Operator:
    """One installation: its state directory, its environment, and the running supervisor."""

    def __init__(self, state: Path, kubeconfig: Path, **settings: str) -> None:
        self.state = state
        self.http = f"127.0.0.1:{free_port()}"
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")
        } | {
            "KUBECONFIG": str(kubeconfig),
            "REVERSER_STATE_DIR": str(state),
            "REVERSER_HTTP_ADDR": self.http,
            "REVERSER_COMMAND_NAMESPACE": "default",
            **settings,
        }
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._mark = 0

    @property
    def kubeconfig(self) -> Path:
        """What it sees the cluster by."""
        return Path(self.environment["KUBECONFIG"])

    def start(self, *, extra: Mapping[str, str] | None = None, wait: bool = True) -> None:
        """Start and wait for the line ``ready``. Raises TimeoutError with what was printed."""
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--install-crds"],
            cwd=ROOT,
            env={**self.environment, **(extra or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._process = process
        self._mark = len(self.lines)
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait for the line ``ready`` of this start. Raises TimeoutError with what was printed."""
        process = self._running()
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if "ready" in self.lines[self._mark :]:
                return
            if process.poll() is not None:
                if self._reader is not None:
                    self._reader.join(60)
                break
            time.sleep(0.05)
        printed = "\n".join(self.lines[self._mark :][-60:])
        raise TimeoutError(f"the operator did not become ready:\n{printed}")

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_SECONDS)
        self._process = None
        return code

    def kill(self, *, only: Collection[int] | None = None) -> None:
        """SIGKILL to every process of the installation at once, the supervisor first; ``only`` names the
        children that are meant, as those of children should then end by themselves."""
        process = self._running()
        children = [int(pid) for pid in _children(process.pid) if only is None or int(pid) in only]
        for pid in [process.pid, *children]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait(60)
        for pid in children:
            wait_gone(pid)
        self._process = None

    def pids(self, word: str) -> list[int]:
        """Process ids of children whose command line holds ``word``."""
        found = []
        for pid in _children(self._running().pid):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if word in line:
                found.append(int(pid))
        return found

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels, over all processes."""
        connection = http.client.HTTPConnection(self.http, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        total = 0.0
        for line in text.splitlines():
            if not line.startswith((f"{name}{{", f"{name} ")):
                continue
            if all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    @property
    def running(self) -> bool:
        """Whether the supervisor runs."""
        return self._process is not None and self._process.poll() is None

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the operator is not running"
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line.rstrip("\n"))


def _children(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task")
    found: list[str] = []
    for task in tasks.iterdir() if tasks.exists() else ():
        try:
            direct = (task / "children").read_text().split()
        except OSError:
            continue
        for child in direct:
            found += [child, *_children(int(child))]
    return found


def wait_gone(pid: int, seconds: float = 60.0) -> None:
    """Wait until a process has ended. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if "\nState:\tZ" in _status(pid):
            return
        time.sleep(0.05)
    raise TimeoutError(f"process {pid} is still there")


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
