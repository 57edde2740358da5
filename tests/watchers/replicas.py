"""Watcher replicas as processes, on a sandbox and a Valkey that the test has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from reverser.store import AsyncStore
from reverser.store.model import LeaseKind

from .conftest import Bench, Cluster, eventually

ROOT = Path(__file__).resolve().parents[2]
CM = [{"resources": ["configmaps"]}]
TARGETS = 6


class Process:
    """One process of the product with a state directory of its own; ``arguments`` are Python's."""

    def __init__(self, folder: Path, kubeconfig: str, redis_url: str, arguments: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("REVERSER_")}
        environment |= {
            "KUBECONFIG": kubeconfig,
            "REVERSER_STATE_DIR": str(folder / "state"),
            "REVERSER_REDIS_URL": redis_url,
            "REVERSER_HEALTH_ADDR": "127.0.0.1:0",
            "REVERSER_COMMAND_NAMESPACE": "default",
            "DJANGO_SETTINGS_MODULE": "reverser.settings",
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        """A signal; SIGKILL is waited for."""
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait(60)

    def end(self) -> None:
        """It is gone afterwards, also one that is stopped."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self.send(signal.SIGKILL)


class Replica(Process):
    """One ``manage.py watch``, with shorter durations where ``shorter`` names some (see ``replica``)."""

    def __init__(self, folder: Path, kubeconfig: str, redis_url: str, shorter: Mapping[str, float]) -> None:
        command = ["-m", "tests.watchers.replica", json.dumps(shorter)] if shorter else ["manage.py", "watch"]
        super().__init__(folder, kubeconfig, redis_url, command)


class Worker(Process):
    """One Celery worker: what it finds in the journal it writes to Git."""

    def __init__(self, folder: Path, kubeconfig: str, redis_url: str) -> None:
        command = ["-m", "celery", "--quiet", "-A", "reverser", "worker", "--pool", "threads"]
        super().__init__(folder, kubeconfig, redis_url, [*command, "--concurrency", "2"])


@contextmanager
def fleet(
    folder: Path, kubeconfig: str, redis_url: str, count: int, **shorter: float
) -> Iterator[list[Replica]]:
    """So many replicas for the time of a block."""
    replicas: list[Replica] = []
    try:
        for index in range(count):
            replicas.append(Replica(folder / f"replica-{index}", kubeconfig, redis_url, shorter))
        yield replicas
    finally:
        for replica in replicas:
            replica.end()


class Fleet:
    """Replicas that share six targets evenly."""

    def __init__(self, bench: Bench, uids: list[str], replicas: list[Replica]) -> None:
        self.bench, self.uids, self.replicas = bench, uids, replicas

    async def holders(self) -> Mapping[str, str]:
        return await self.bench.store.lease_holders(LeaseKind.TARGET)

    async def held_by(self, replica: Replica) -> list[str]:
        return [uid for uid, holder in (await self.holders()).items() if f"-{replica.pid}-" in holder]

    async def shares(self, replicas: list[Replica]) -> set[int]:
        """How many targets each of them holds."""
        holders = list((await self.holders()).values())
        return {sum(f"-{replica.pid}-" in holder for holder in holders) for replica in replicas}

    async def even(self) -> None:
        async def check() -> bool:
            return await self.shares(self.replicas) == {TARGETS // len(self.replicas)}

        await eventually(check, "equal shares", 120)
        for uid in self.uids:
            await self.bench.streaming(uid, 1)

    async def appended(self, name: str, uids: list[str]) -> bool:
        events = await self.bench.journal().events(name)
        return set(uids) <= {event.target.uid for event in events}

    async def each_once(self, name: str) -> None:
        """Every target has exactly one entry of an object, and none of them replayed for it."""
        events = await self.bench.journal().events(name)
        assert sorted(event.target.uid for event in events) == sorted(self.uids)

    async def no_replays(self) -> None:
        assert len(await self.bench.journal().sweeps()) == len(self.uids), "one replay each, at the start"


async def prepared(bench: Bench, cluster: Cluster) -> list[str]:
    uids = []
    for index in range(TARGETS):
        uid = cluster.target(f"gt{index}", f"p{index}")
        cluster.rule(f"wr{index}", f"gt{index}", CM)
        await bench.open(uid, f"p{index}")
        uids.append(uid)
    return uids


async def killed(
    bench: Bench, cluster: Cluster, folder: Path, count: int, limit: float, **durations: float
) -> float:
    """One replica is killed with -9: each of its targets has its next change in the journal within ``limit``
    seconds, by a watch that went on from the cursor. Returns how long that took.
    """
    uids = await prepared(bench, cluster)
    with fleet(folder, cluster.kubeconfig, bench.redis_url, count, **durations) as replicas:
        running = Fleet(bench, uids, replicas)
        await running.even()
        cluster.create("before", v="1")
        await eventually(lambda: running.appended("before", uids), "everybody has it")
        victim = replicas[0]
        orphans = await running.held_by(victim)
        victim.send(signal.SIGKILL)
        began = time.monotonic()
        cluster.create("after", v="1")
        cluster.delete("before")
        others = [uid for uid in uids if uid not in orphans]
        await eventually(lambda: running.appended("after", others), "the others never paused", limit)
        await eventually(lambda: running.appended("after", orphans), "the orphans stream", limit)
        took = time.monotonic() - began
        for uid in uids:
            await bench.mirrored(uid)
        await running.each_once("after")
        await running.no_replays()

        async def spread() -> bool:
            return await running.shares(replicas[1:]) == {TARGETS // (count - 1)}

        await eventually(spread, "spread over those that are left", 120)
        return took


async def stopped(
    bench: Bench, cluster: Cluster, folder: Path, count: int, limit: float, **durations: float
) -> None:
    """One replica is stopped past its lease, while events pile up in its sockets; SIGCONT: each is in the
    journal once, and no cursor is one of its own.
    """
    uids = await prepared(bench, cluster)
    with fleet(folder, cluster.kubeconfig, bench.redis_url, count, **durations) as replicas:
        running = Fleet(bench, uids, replicas)
        await running.even()
        sleeper = replicas[0]
        slept = await running.held_by(sleeper)
        sessions = await cursor_sessions(bench.store, slept)
        sleeper.send(signal.SIGSTOP)
        names = [f"x{index}" for index in range(20)]
        for name in names:
            cluster.create(name, v="1")
        await eventually(lambda: running.appended(names[-1], slept), "its targets stream elsewhere", limit)
        sleeper.send(signal.SIGCONT)
        for value in range(2, 12):
            cluster.patch("x0", {"data": {"v": str(value)}})

        async def gave_up() -> bool:
            return "held by another watcher now" in sleeper.text

        await eventually(gave_up, "the sleeper knows that it lost them", 60)
        for uid in uids:
            await bench.mirrored(uid)
        for name in names[1:]:
            await running.each_once(name)
        assert len(await bench.journal().events("x0")) == 11 * len(uids)
        assert sessions.isdisjoint(await cursor_sessions(bench.store, uids))
        await running.no_replays()


async def cursor_sessions(store: AsyncStore, uids: list[str]) -> set[str]:
    """Whose appends the cursors of targets come from."""
    found = set()
    for uid in uids:
        for scope in await store.read_streams(uid):
            cursor = await store.read_cursor(scope)
            assert cursor is not None
            assert cursor.append_id is not None
            found.add(cursor.append_id.session)
    return found
