"""Targets that look in the same turn share one question, and each gets its own answer or the failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reverser.errors import StoreUnavailable
from reverser.store.model import Gate, Skipped, TargetLook
from watchers.looks import Looks, until_next


class Asked:
    """A store that notes what it is asked."""

    def __init__(self, *, fails: bool = False) -> None:
        self.questions: list[list[str]] = []
        self._fails = fails

    async def look_at_targets(self, uids: Sequence[str]) -> list[TargetLook]:
        self.questions.append(list(uids))
        await asyncio.sleep(0)
        if self._fails:
            raise StoreUnavailable("away")
        return [TargetLook(Gate(True, number), {}, Skipped()) for number, _ in enumerate(uids)]


async def test_one_turn_is_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers go to those who asked; a hundred at once at most."""
    store: Any = Asked()
    looks = Looks(store)
    found = await asyncio.gather(*(looks.look(f"t{number}") for number in range(150)))
    assert [len(question) for question in store.questions] == [100, 50]
    assert [look.gate.generation for look in found if look.gate] == [*range(100), *range(50)]


async def test_who_asks_while_an_answer_is_on_its_way_gets_a_newer_one() -> None:
    """A hint that comes meanwhile must not be answered with what was read before it."""
    store: Any = Asked()
    looks = Looks(store)
    first = asyncio.create_task(looks.look("a"))
    while not store.questions:
        await asyncio.sleep(0)
    await asyncio.gather(first, looks.look("a"))
    assert store.questions == [["a"], ["a"]]


async def test_a_failure_is_everybodys_and_the_next_question_is_asked() -> None:
    """One who gave up waiting changes nothing for the others."""
    store: Any = Asked(fails=True)
    looks = Looks(store)
    gone = asyncio.create_task(looks.look("a"))
    others = [asyncio.create_task(looks.look(name)) for name in "ab"]
    await asyncio.sleep(0)
    gone.cancel()
    results = await asyncio.gather(gone, *others, return_exceptions=True)
    assert [type(result) for result in results] == [
        asyncio.CancelledError,
        StoreUnavailable,
        StoreUnavailable,
    ]
    with pytest.raises(StoreUnavailable):
        await looks.look("b")
    assert len(store.questions) == 2


@pytest.mark.parametrize(("now", "pause"), [(0.0, 5.0), (12.0, 3.0), (14.75, 0.25)])
def test_all_look_at_the_same_moments(now: float, pause: float) -> None:
    """Whenever a target was woken last."""
    assert until_next(now, 5.0) == pause
