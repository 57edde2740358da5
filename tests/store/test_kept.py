"""What the prune mode keeps is noted once for each document, however often it is told."""

from __future__ import annotations

import dataclasses
import time

import pytest

from reverser.store import Hint, Store
from reverser.store.model import Fence, Kept, KeptNews, Scope
from tests.store.world import BRANCH, SCOPE, TARGET, World

DEPOT = Scope(TARGET.uid, "configmaps", "depot")


@pytest.fixture
def writer(world: World) -> Fence:
    return world.writer()


def note(store: Store, fence: Fence, *news: KeptNews) -> int | None:
    return store.note_kept(BRANCH, fence, TARGET.uid, news)


def counts(store: Store) -> dict[Scope, tuple[str, int]]:
    return {scope: (found.mode, found.documents) for scope, found in store.read_kept(TARGET.uid).items()}


def test_a_replay_tells_all_of_its_scope_and_a_window_what_changed(store: Store, writer: Fence) -> None:
    """The count of a scope is that of its documents, and other scopes stay as they are."""
    assert counts(store) == {}
    assert note(store, writer, KeptNews(SCOPE, "OnEvent", True, ("shop/a", "shop/b"))) == 2
    assert note(store, writer, KeptNews(DEPOT, "OnEvent", True, ("depot/a",))) == 1
    window = KeptNews(SCOPE, "Never", False, kept=("shop/c", "shop/a"), back=("shop/b", "shop/ghost"))
    assert note(store, writer, window) == 1
    assert counts(store) == {SCOPE: ("Never", 2), DEPOT: ("OnEvent", 1)}
    assert note(store, writer, KeptNews(SCOPE, "OnEvent", True, ("shop/c",))) == 0
    assert note(store, writer, KeptNews(SCOPE, "Always", True)) == 0
    assert counts(store) == {SCOPE: ("Always", 0), DEPOT: ("OnEvent", 1)}
    assert note(store, writer, KeptNews(SCOPE, "Never", True, ("shop/c",))) == 1


def test_a_repeated_note_changes_nothing(store: Store, writer: Fence) -> None:
    """A writer that was killed is followed by one that notes the same again."""
    news = KeptNews(SCOPE, "Never", False, kept=("shop/a", "shop/b"))
    assert note(store, writer, news) == 2
    before = store.read_kept(TARGET.uid)
    assert note(store, writer, news) == 0
    assert note(store, writer, dataclasses.replace(news, kept=(), back=("shop/z",))) == 0
    assert store.read_kept(TARGET.uid) == before
    replay = KeptNews(SCOPE, "Never", True, ("shop/a", "shop/b"))
    assert [note(store, writer, replay), note(store, writer, replay)] == [0, 0]
    assert counts(store) == {SCOPE: ("Never", 2)}


def test_thousands_of_documents_are_one_note(store: Store, writer: Fence) -> None:
    """More than one command of Redis takes."""
    names = tuple(f"shop/c{number}" for number in range(5000))
    assert note(store, writer, KeptNews(SCOPE, "OnEvent", True, names)) == 5000
    assert note(store, writer, KeptNews(SCOPE, "OnEvent", True, names[4999:])) == 0
    assert counts(store) == {SCOPE: ("OnEvent", 1)}


def test_a_writer_without_the_lease_notes_nothing(store: Store, writer: Fence) -> None:
    """J2: another pair changes nothing."""
    late = dataclasses.replace(writer, token="late")
    assert note(store, late, KeptNews(SCOPE, "Never", True, ("shop/a",))) is None
    assert counts(store) == {}


def test_a_change_is_hinted_and_a_repetition_is_not(store: Store, writer: Fence) -> None:
    """The status follows without waiting for a tick."""
    with store.subscribe(f"target:{TARGET.uid}") as hints:
        for kept in (("shop/a",), ("shop/a",), ("shop/b",), ()):
            note(store, writer, KeptNews(SCOPE, "OnEvent", True, kept))
        store.publish(f"target:{TARGET.uid}", "end")
        got: list[Hint] = []
        deadline = time.monotonic() + 60
        while (not got or got[-1].payload != "end") and time.monotonic() < deadline:
            hint = hints.get(0.1)
            got += [hint] if hint else []
    assert len(got) == 3


def test_the_watcher_sees_the_counts_and_a_target_that_is_gone_has_none(store: Store, writer: Fence) -> None:
    """They come with the look that it takes anyway."""
    note(store, writer, KeptNews(DEPOT, "Never", True, ("depot/a",)))
    other, look = store.look_at_targets(["uid-b", TARGET.uid])
    assert (other.kept, look.kept) == ({}, store.read_kept(TARGET.uid))
    assert isinstance(look.kept[DEPOT], Kept)
    store.forget_target(TARGET.uid)
    assert counts(store) == {}
    assert note(store, writer, KeptNews(DEPOT, "Never", False, kept=("depot/a",))) == 1
    assert counts(store) == {DEPOT: ("Never", 1)}
