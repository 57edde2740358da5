"""When documents that a prune mode kept are looked at again under a wider one."""

from __future__ import annotations

import pytest

from reverser.kinds.model import PruneMode
from reverser.store.model import Kept, Scope
from watchers.widening import Widening

SHOP = Scope("u", "configmaps", "shop")
ALL = Scope("u", "secrets", None)
OTHER = Scope("u", "services", None)
SCOPES = [SHOP, ALL, OTHER]
KEPT = {SHOP: Kept("OnEvent", 2, 5), ALL: Kept("Never", 0, 7), OTHER: Kept("Always", 0, 9)}


def ask(widening: Widening, kept: dict[Scope, Kept], mode: PruneMode = PruneMode.ALWAYS) -> list[Scope]:
    found = widening.due(kept, SCOPES, mode)
    widening.asked(found, kept)
    return found


@pytest.mark.parametrize("mode", [PruneMode.ON_EVENT, PruneMode.NEVER])
def test_a_mode_that_sweeps_nothing_asks_for_nothing(mode: PruneMode) -> None:
    """Nothing would be done with the answer."""
    assert ask(Widening(), KEPT, mode) == []


def test_always_replays_once_what_was_counted_under_another_mode() -> None:
    """Also after a restart; a scope that is not watched is nobody's."""
    widening = Widening()
    assert ask(widening, KEPT) == [SHOP, ALL]
    assert ask(widening, KEPT) == []
    assert Widening().due(KEPT, [OTHER], PruneMode.ALWAYS) == []
    assert ask(Widening(), KEPT) == [SHOP, ALL]


def test_a_sweep_that_was_still_made_under_the_earlier_mode_is_followed_by_another() -> None:
    """Windows freeze their settings when they close."""
    widening = Widening()
    ask(widening, KEPT)
    again = {**KEPT, SHOP: Kept("OnEvent", 2, 11)}
    assert ask(widening, again) == [SHOP]
    assert ask(widening, {**again, SHOP: Kept("Always", 0, 12)}) == []


def test_what_could_not_be_asked_for_is_asked_again() -> None:
    """The store was away."""
    widening = Widening()
    assert widening.due(KEPT, SCOPES, PruneMode.ALWAYS) == widening.due(KEPT, SCOPES, PruneMode.ALWAYS)
