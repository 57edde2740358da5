"""A newer worker drains what an older version left; an older one meets what a newer version left."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest
import redis

from reverser.errors import NewerVersion
from reverser.store import Store, codec
from reverser.store.model import (
    Boundary,
    BranchKey,
    CloseReason,
    EventEntry,
    Outcome,
    OutcomeKind,
    TargetRef,
    WindowKind,
)
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


def test_an_entry_that_only_a_newer_version_knows(
    store: Store, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone back by a version, the branch stops at the entry: nothing of it is written or lost, its health
    says why, and it is not tried without a pause. The newer version goes on, in order.
    """
    world = make_world(store, redis_url, tmp_path)
    for value in ("soup", "stew", "pie"):
        world.event("menu", value, author="alice")
    client = world.redis
    (stream,) = [key for key in client.scan_iter("*:journal:v1:*") if client.type(key) == b"stream"]
    _before, told, after = client.xrange(stream)
    client.xdel(stream, told[0], after[0])
    moment = after[0].decode().split("-")[0]
    client.xadd(stream, {**told[1], b"k": b"hereafter"}, id=f"{moment}-8")
    client.xadd(stream, after[1], id=f"{moment}-9")
    for _ in range(3):
        world.runtime = world.new_runtime()
        world.write()
    assert world.pending() == 3
    assert world.git.log() == []
    health = store.read_branch_health(world.branch)
    assert health is not None
    assert (health.ok, health.reason) == (False, "NewerVersion")
    assert "'hereafter'" in health.message
    assert store.read_due()[world.branch.id] > store.time_ms(), "it is not tried again at once"

    monkeypatch.setitem(codec._KINDS, "hereafter", EventEntry)
    world.runtime = world.new_runtime()
    drained(world)
    told = subprocess.run(
        ["git", f"--git-dir={world.repository}", "log", "--reverse", "-p", "--format=", "main"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.findall(r"^\+ *v: (\w+)$", told, re.MULTILINE) == ["soup", "stew", "pie"]
    health = store.read_branch_health(world.branch)
    assert health is not None
    assert health.ok


@pytest.mark.parametrize(
    ("kind", "changed"),
    [(Boundary, {"kind": "bundle"}), (Boundary, {"reason": "moon"}), (Outcome, {"kind": "postponed"})],
)
def test_a_state_that_only_a_newer_version_knows(
    kind: type[Boundary | Outcome], changed: dict[str, str]
) -> None:
    """What decides how a value is meant is never guessed: the error says that a newer version wrote it."""
    target = TargetRef("t1", "shop", "gt")
    value: Boundary | Outcome = (
        Boundary("w-1", WindowKind.WINDOW, target, ("1-0",), CloseReason.TIMER)
        if kind is Boundary
        else Outcome("o", OutcomeKind.PUSHED, BranchKey("shop", "gp", "main"), target)
    )
    text = codec.dumps(value)
    assert codec.loads(kind, text) == value
    ((_, word),) = changed.items()
    with pytest.raises(NewerVersion, match=f"'{word}'"):
        codec.loads(kind, json.dumps({**json.loads(text), **changed}))
