"""A server that runs but takes nothing is an outage, for the store and for Celery."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis
from kombu import Connection
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from reverser.errors import StoreUnavailable
from reverser.store import AsyncStore, Store
from reverser.store.calls import Call, nothing
from reverser.store.refusals import REFUSALS
from tests.store.world import BRANCH
from tests.valkey import running_valkey


def refusal(code: str) -> Call[None]:
    """A command that a real server answers with this code."""
    text = f"return redis.error_reply('{code} Errors writing to the AOF file: No space left on device')"
    return Call(nothing, command=("EVAL", text, 0))


HELP = {
    "MISCONF": "enlarge its disk",
    "NOREPLICAS": "bring its replicas back",
    "OOM": "raise its maxmemory",
    "READONLY": "name the primary",
}


@pytest.mark.parametrize("code", sorted(REFUSALS))
async def test_refusals_are_outages(code: str) -> None:
    """E28: a full disk or memory, missing replicas, a primary that is none: wait, whichever door is used."""
    with running_valkey() as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        store, door = Store.connect(url), AsyncStore.connect(url)
        with pytest.raises(StoreUnavailable, match=HELP[code]):
            store.run(refusal(code))
        with pytest.raises(StoreUnavailable, match=HELP[code]):
            store.run_all([refusal(code)])
        with pytest.raises(StoreUnavailable, match=HELP[code]):
            await door.run(refusal(code))
        store.wake_branch(BRANCH)
        assert await door.known_branches() == [BRANCH]
        store.close()
        await door.close()


@pytest.mark.parametrize("family", ["unix", "tcp"])
async def test_a_server_that_refuses_even_to_be_asked(family: str, tmp_path: Path) -> None:
    """With a full disk Redis refuses PING as well: a call fails after a few tries, it does not open one
    connection after another to ask whether the last one is sound.
    """
    opened: list[object] = []
    ended: list[object] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while command := await reader.readline():
            count = int(command[1:])
            words = [(await reader.readline(), await reader.readline())[1].strip() for _ in range(count)]
            fine = words[0] == b"CLIENT"
            writer.write(b"+OK\r\n" if fine else b"-MISCONF Errors writing to the AOF file\r\n")
            await writer.drain()
        writer.close()
        ended.append(writer)

    if family == "unix":
        server = await asyncio.start_unix_server(refuse, str(tmp_path / "s"))
        url = f"unix://{tmp_path / 's'}?db=0"
    else:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    async with server:
        door = AsyncStore.connect(url)
        store = Store.connect(url)
        with pytest.raises(StoreUnavailable, match=HELP["MISCONF"]):
            await door.known_branches()
        assert len(opened) < 10
        with pytest.raises(StoreUnavailable, match=HELP["MISCONF"]):
            await asyncio.to_thread(store.known_branches)
        assert len(opened) < 20
        store.close()
        await door.close()
        async with asyncio.timeout(30):
            while len(ended) < len(opened):
                await asyncio.sleep(0.01)


def test_a_wrong_command_stays_a_bug() -> None:
    """Only the codes of an outage are taken for one."""
    with running_valkey() as server:
        store = Store.connect(f"redis://127.0.0.1:{server.port}/0")
        with pytest.raises(ResponseError):
            store.run(refusal("ERR"))
        with pytest.raises(ResponseError):
            store.run_all([refusal("ERR")])
        store.close()


def test_a_server_without_its_replicas_is_waited_for() -> None:
    """A real refusal, and the same store goes on when it is over."""
    with running_valkey() as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        store = Store.connect(url)
        with redis.Redis.from_url(url) as admin:
            admin.config_set("min-replicas-to-write", 1)
            with pytest.raises(StoreUnavailable, match="ReplicasMissingError"):
                store.wake_branch(BRANCH)
            admin.config_set("min-replicas-to-write", 0)
        store.wake_branch(BRANCH)
        assert store.known_branches() == [BRANCH]
        store.close()


def test_celery_waits_for_them_too() -> None:
    """Its consumer starts over after a connection error and ends the worker after any other."""
    recoverable = Connection("redis://127.0.0.1:1/0").transport.connection_errors
    for kind in REFUSALS.values():
        assert issubclass(kind, recoverable)
    assert issubclass(REFUSALS["OOM"], OutOfMemoryError)
    assert issubclass(REFUSALS["READONLY"], ReadOnlyError)
