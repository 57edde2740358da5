"""The lease of a running writer: when it counts as lost, with and without an answer of Redis."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gitwriter import lease
from gitwriter.lease import BranchLease
from reverser.errors import LostRace, StoreUnavailable
from reverser.store.model import BranchKey, Fence

BRANCH = BranchKey("shop", "gp", "main")


class Answers:
    """A store that answers renewals as told, over and over; ``gave`` tells that the last was given."""

    def __init__(self, *answers: bool | None) -> None:
        self._answers: Iterator[bool | None] = iter(answers)
        self._last: bool | None = None
        self.asked = 0
        self.enough = threading.Event()

    def renew_lease(self, *_: object) -> bool:
        self.asked += 1
        self._last = next(self._answers, self._last)
        if self.asked >= 3:
            self.enough.set()
        if self._last is None:
            raise StoreUnavailable("away")
        return self._last


def held(store: Answers) -> BranchLease:
    return BranchLease(store, BRANCH, Fence("token", 1))  # type: ignore[arg-type]


def test_a_check_asks_each_time() -> None:
    """W1, Z15: what was true at the last step says nothing of this one."""
    mine = held(Answers(True, False))
    mine.check()
    with pytest.raises(LostRace):
        mine.check()


def test_a_lease_that_was_lost_stays_lost() -> None:
    """J15: also where Redis would now call it held again, as after a fail-over."""
    mine = held(Answers(False, True))
    for _ in range(2):
        with pytest.raises(LostRace):
            mine.check()


def test_the_keeper_that_hears_a_no_ends_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """J2: the next check does not ask."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    store = Answers(False, True)
    mine = held(store)
    with mine.kept():
        assert mine._lost.wait(30)
        asked = store.asked
        with pytest.raises(LostRace):
            mine.check()
    assert asked == store.asked == 1


@pytest.mark.parametrize(("lease_ms", "lost"), [(0, True), (3_600_000, False)])
def test_without_an_answer_a_lease_lasts_as_long_as_it_was_given(
    monkeypatch: pytest.MonkeyPatch, lease_ms: int, lost: bool
) -> None:
    """W1: nobody else can have taken it before its time is over, and from then on anybody may have."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "LEASE_MS", lease_ms)
    store = Answers(None)
    mine = held(store)
    with mine.kept():
        assert (mine._lost if lost else store.enough).wait(30)
    assert mine._lost.is_set() is lost
