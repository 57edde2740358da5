"""Redis behind Sentinel: addresses, and a fail-over under the store and under Celery's broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection

from reverser import settings
from reverser.errors import StoreUnavailable
from reverser.store import AsyncStore, Store
from reverser.store.address import Sentinels, parse_sentinels
from reverser.store.model import BranchKey
from reverser.supervision import preflight
from tests.store.sentinels import Group, running_sentinel, sentinel_group, until
from tests.valkey import running_valkey

BRANCH = BranchKey("shop", "provider", "main")


def test_addresses() -> None:
    """Every part is read; defaults are Sentinel's port and database 0; other addresses are none of these."""
    assert parse_sentinels("redis://somewhere:6379/0") is None
    assert parse_sentinels(
        "redis+sentinel://user:p%40ss@a:26380,b,[::1]:1/main?db=3&sentinel_password=s%20s"
    ) == Sentinels((("a", 26380), ("b", 26379), ("::1", 1)), "main", 3, "user", "p@ss", "s s")
    assert parse_sentinels("redis+sentinel://a/main") == Sentinels((("a", 26379),), "main")


@pytest.mark.parametrize(
    "rest", ["hidden@/main", ":hidden@a:26379", ":hidden@a:port/main", ":hidden@a/main?db=x", "a/main?tls=1"]
)
def test_what_is_missing_is_said_without_the_password(rest: str) -> None:
    """An address that lacks something is refused, and never shown."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_sentinels(f"redis+sentinel://{rest}")
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(parse_sentinels("redis+sentinel://:hidden@a/main?sentinel_password=hidden"))


def test_celery_gets_its_own_spelling() -> None:
    """The broker is the same group, every Sentinel named, with the name of the primary and the logins."""
    url = "redis+sentinel://:p%40ss@a:1,[::1]:2/main?db=3&sentinel_password=s"
    assert settings._broker_url(url) == "sentinel://:p%40ss@a:1/3;sentinel://:p%40ss@[::1]:2/3"
    options = settings._broker_options(url)
    assert (options["master_name"], options["sentinel_kwargs"]["password"]) == ("main", "s")
    assert settings._broker_options("redis://a") == {}


def _alive(store: Store) -> bool:
    try:
        store.time_ms()
    except StoreUnavailable:
        return False
    return True


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    """Running servers."""
    with sentinel_group(tmp_path) as found:
        yield found


def test_a_lost_primary_is_left_and_what_was_replicated_is_there(group: Group) -> None:
    """The primary is killed: calls fail as *unavailable* until the Sentinels have chosen, then the very same
    stores go on at the new one with what had reached it; so does a broker connection made as Celery makes it.
    """
    store = Store.connect(group.url, deadline_s=2.0)
    epoch = store.open_journal(BRANCH)
    assert group.server(0).wait(1, 60_000) == 1
    broker = {"transport_options": settings._broker_options(group.url)}

    async def through_a_failover() -> str | None:
        edge = AsyncStore.connect(group.url, deadline_s=2.0)
        assert await edge.check_server()
        group.servers[0].kill()
        group.servers[0].wait(60)
        with pytest.raises(StoreUnavailable):
            await edge.time_ms()
        await asyncio.to_thread(until, lambda: group.primary_port() == group.ports[1], "a fail-over")
        await asyncio.to_thread(until, lambda: _alive(store), "the store goes on")
        try:
            return await edge.read_epoch(BRANCH)
        finally:
            await edge.close()

    assert asyncio.run(through_a_failover()) == epoch
    assert store.read_epoch(BRANCH) == epoch
    with Connection(settings._broker_url(group.url), **broker) as connection:
        queue = connection.SimpleQueue("hints")
        queue.put({"branch": "main"})
        message = queue.get(timeout=60)
        assert message.payload == {"branch": "main"}
        message.ack()
        queue.close()


def test_a_demoted_primary_is_left(group: Group) -> None:
    """A planned fail-over, with both servers alive: a connection to the old primary is not kept, though the
    old one answers and only refuses to write.
    """
    store = Store.connect(group.url, deadline_s=2.0)
    epoch = store.open_journal(BRANCH)
    assert group.server(0).wait(1, 60_000) == 1
    group.server(0).replicaof("127.0.0.1", str(group.ports[1]))
    with pytest.raises(StoreUnavailable):
        store.open_journal(BranchKey("shop", "provider", "second"))
    group.server(0).replicaof("NO", "ONE")
    until(lambda: _alive(store), "the store goes on")
    assert store.open_journal(BRANCH) == epoch


@pytest.fixture
def dead() -> Iterator[tuple[int, list[int]]]:
    """A port on which somebody hangs up at once, as before a server that is gone, and the calls so far."""
    calls: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    calls.append(connection.fileno())
                    connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1]), calls
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_dead_sentinel_is_asked_once(dead: tuple[int, list[int]], tmp_path: Path, kind: str) -> None:
    """With the primary a machine loses its Sentinel: the next one is asked at once, instead of the dead one
    again and again with pauses that grow.
    """
    port, calls = dead

    async def ask(url: str) -> int:
        store = AsyncStore.connect(url)
        try:
            return await store.time_ms()
        finally:
            await store.close()

    with (
        running_valkey() as valkey,
        running_sentinel(tmp_path / "sentinel", {"journal": valkey.port}) as sentinel,
    ):
        url = f"redis+sentinel://127.0.0.1:{port},127.0.0.1:{sentinel}/journal"
        assert (asyncio.run(ask(url)) if kind == "asyncio" else Store.connect(url).time_ms()) > 0
    assert len(calls) == 1


def test_a_primary_that_nobody_knows_is_told_in_a_line(tmp_path: Path) -> None:
    """A wrong name is told without the driver's inside."""
    with running_sentinel(tmp_path / "sentinel", {"journal": 1}) as sentinel:
        assert preflight.redis_problem(f"redis+sentinel://127.0.0.1:{sentinel}/other") == (
            "REVERSER_REDIS_URL: no Redis answers there (of the Sentinels none answers that knows a primary "
            "of that name); start it or correct the address"
        )
