"""A replay of any size: read in pages, in order, complete or not at all, in bounded memory."""

from __future__ import annotations

import orjson
import pytest

from gitwriter import building
from gitwriter.lazytext import ParsedText
from reverser.store import Store, appends
from reverser.store.model import OutcomeKind, StagedObject
from tests.gitwriter.conftest import World, configmap
from tests.gitwriter.test_writer import restart, shutdown_write


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Pages of few objects and bytes; answers the names that each brought."""
    pages: list[list[str]] = []

    def read(store: Store, branch: object, replay_id: str, names: list[str]) -> list[StagedObject]:
        page = store.run(appends.read_staged(branch, replay_id, names, 1500))  # type: ignore[arg-type]
        pages.append([found.name for found in page])
        return page

    monkeypatch.setattr(building, "STAGED_AT_ONCE", 7)
    monkeypatch.setattr(Store, "read_staged", read)
    return pages


def test_a_replay_in_pages_is_one_commit(world: World, small_pages: list[list[str]]) -> None:
    """J5, D03: pages are bounded and in order, hold each object once, and only what is absent is swept."""
    world.event("gone", "1")
    world.write()
    names = sorted(f"n{number}" for number in range(40))
    world.sweep(dict.fromkeys(names, "1") | {"huge": "x" * 2000})
    shutdown_write(world)
    assert [name for page in small_pages for name in page] == sorted([*names, "huge"])
    assert [len(page) for page in small_pages] == [1, 7, 7, 7, 7, 7, 5]
    assert world.subjects()[0] == "reconciled 42 configmaps (last resourceVersion: 42)"
    kept = {f"live/shop/configmaps/{name}.yaml" for name in [*names, "huge"]}
    assert {path for path in world.git.files() if "configmaps" in path} == kept


def test_a_staging_that_vanishes_while_it_is_read(
    world: World, small_pages: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """J5: half a replay is none: nothing is written or swept, and the type is replayed."""
    world.event("kept", "1")
    world.write()
    tip = world.git.tip()
    world.sweep({f"n{number}": "1" for number in range(20)})
    read = Store.read_staged

    def vanish(store: Store, *args: object) -> list[StagedObject]:
        if small_pages:
            for key in world.redis.scan_iter("*staging*"):
                world.redis.delete(key)
        return read(store, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "read_staged", vanish)
    shutdown_write(world)
    assert world.git.tip() == tip
    outcomes = [item for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert outcomes[-1].kind is OutcomeKind.VOID
    assert world.pending() == 0
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay


def test_an_attempt_holds_a_bounded_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one push would have to hold in memory is bounded; the rest goes with the next, in order."""
    monkeypatch.setattr(building, "ATTEMPT_BYTES", 1)
    monkeypatch.setattr("gitwriter.writer.PUSH_COOLDOWN_MS", 3_600_000)
    for value in ("1", "2", "3"):
        world.event("a", value)
    world.write()
    assert (len(world.subjects()), world.pending()) == (1, 2)
    restart(world)
    shutdown_write(world)
    assert len(world.subjects()) == 3
    assert (world.git.read("live/shop/configmaps/a.yaml") or b"").endswith(b'"3"\n')
    assert world.pending() == 0
    assert world.git.problems() == ""


def test_what_waits_is_held_without_its_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F16: behind a dead remote a full journal costs a writer little; a window's texts come in pages."""
    monkeypatch.setattr(building, "TEXTS_AT_ONCE", 2)
    world.set_window("60s")
    for number in range(5):
        world.event(f"c{number}", "x" * 1000)
    world.write()
    waiting = world.memory.entries
    assert [stored.text > 1000 for stored in waiting] == [True] * 5
    assert [getattr(stored.entry, "body", None) for stored in waiting] == [b""] * 5
    shutdown_write(world)
    files = [world.git.read(f"live/shop/configmaps/c{number}.yaml") or b"" for number in range(5)]
    assert [b"x" * 1000 in file for file in files] == [True] * 5


def test_a_text_reads_as_its_object() -> None:
    """Whatever is asked of several in turn."""
    objects = [configmap(name, name) for name in "ab"]
    texts = [ParsedText(orjson.dumps(value)) for value in objects]
    assert [dict(text) for text in texts] == objects
    assert texts[0] == objects[0] != texts[1]
    assert [text["data"]["v"] for text in (*texts, *texts)] == ["a", "b", "a", "b"]
    assert (len(texts[0]), list(texts[1])) == (4, list(objects[1]))
