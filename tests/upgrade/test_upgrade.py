"""A newer worker drains what an older version left; an older one meets what a newer version left."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import redis

from reverser.store import Store
from tests.gitwriter.conftest import World, make_world
from tests.upgrade.recording import FOLDER, dump, restore


def drained(world: World) -> None:
    """Write until nothing waits; each run makes progress."""
    for _ in range(10):
        if not world.pending():
            return
        world.write()
    raise AssertionError(f"{world.pending()} entries are left")


@pytest.mark.parametrize("version", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_a_journal_of_an_older_version_is_drained(
    version: str, store: Store, redis_url: str, tmp_path: Path
) -> None:
    """A replay, changes of two people, a window that was closed and not pushed, and a deletion become the
    commits that they were meant to be, with their authors, in order; nothing is left.
    """
    client = redis.Redis.from_url(redis_url)
    recorded = json.loads((FOLDER / f"{version}.json").read_text())
    restore(client, recorded)
    assert dump(client) == recorded
    world = make_world(store, redis_url, tmp_path)
    (epoch,) = [item["content"] for item in recorded if item["key"].endswith(":epoch")]
    assert base64.b64decode(epoch).decode() == world.epoch, "the journal goes on, it does not begin anew"
    drained(world)
    authors = [commit.author for commit in reversed(world.git.log())]
    assert [author.partition(" <")[0] for author in authors][1:] == ["alice", "bob", "bob"]
    assert world.git.read("live/shop/configmaps/menu.yaml") is None
    assert b"v: high" in (world.git.read("live/shop/configmaps/prices.yaml") or b"")


def test_going_back_one_version(store: Store, redis_url: str, tmp_path: Path) -> None:
    """What a newer version adds to an entry, or keeps under keys of its own layout, does not disturb: the
    older one reads what it knows and drains it.
    """
    world = make_world(store, redis_url, tmp_path)
    world.event("menu", "soup", author="alice")
    client = world.redis
    (stream,) = [key for key in client.scan_iter("*:journal:v1:*") if client.type(key) == b"stream"]
    ((entry, fields),) = client.xrange(stream)
    client.xdel(stream, entry)
    client.xadd(stream, {**fields, b"of_the_future": b"1"}, id=f"{entry.decode().split('-')[0]}-9")
    client.xadd(stream.replace(b":v1:", b":v2:"), {b"another": b"layout"})
    client.hset("gitops-reverser:journal:v2:other", "a", "b")
    drained(world)
    assert b"v: soup" in (world.git.read("live/shop/configmaps/menu.yaml") or b"")
    assert world.git.log()[0].author.startswith("alice")
    assert client.exists(stream.replace(b":v1:", b":v2:"))
