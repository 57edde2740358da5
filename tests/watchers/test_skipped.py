"""When what the writer skipped is tried again."""

from __future__ import annotations

import pytest

from reverser.store.model import Scope, Skipped, SkippedObject
from watchers.skipped import SkippedRetry

VAULTS = Scope("u", "lab.test/vaults", "shop")
ALL = Scope("u", "lab.test/vaults", None)
DEPOT = Scope("u", "lab.test/vaults", "depot")
SCOPES = [VAULTS, ALL, DEPOT, Scope("u", "configmaps", "shop")]


def skip(*names: str) -> Skipped:
    return Skipped(
        tuple(SkippedObject("lab.test/vaults", "shop", name, "placement", "text") for name in names)
    )


@pytest.fixture
def retry() -> SkippedRetry:
    return SkippedRetry(first=300, most=1000)


def test_an_edit_of_the_target_is_acted_on_at_once(retry: SkippedRetry) -> None:
    """O15: the policy is corrected; nothing happens in the cluster."""
    assert retry.due(skip("g"), SCOPES, generation=1, now=10) == []
    assert retry.due(skip("g"), SCOPES, generation=1, now=20) == []
    assert retry.due(skip("g"), SCOPES, generation=2, now=21) == [VAULTS, ALL]
    assert retry.due(skip("g"), SCOPES, generation=2, now=22) == []


def test_an_edit_of_the_folder_is_found_with_growing_pauses(retry: SkippedRetry) -> None:
    """O15: the first look is within five minutes."""
    retry.due(skip("g"), SCOPES, generation=1, now=0)
    tried = [now for now in range(0, 4000, 10) if retry.due(skip("g"), SCOPES, generation=1, now=now)]
    assert tried == [300, 900, 1900, 2900, 3900]


def test_what_is_skipped_anew_waits(retry: SkippedRetry) -> None:
    """A replay that skips the same object again is no reason for the next one; another object begins anew."""
    retry.due(skip("g"), SCOPES, generation=1, now=0)
    assert retry.due(skip("g", "h"), SCOPES, generation=1, now=290) == []
    assert retry.due(skip("g", "h"), SCOPES, generation=1, now=310) == []
    assert retry.due(skip("g", "h"), SCOPES, generation=1, now=590) == [VAULTS, ALL]


def test_nothing_is_replayed_where_nothing_is_skipped(retry: SkippedRetry) -> None:
    """Neither by an edit nor by time."""
    assert retry.due(Skipped(), SCOPES, generation=1, now=0) == []
    assert retry.due(Skipped(), SCOPES, generation=2, now=5000) == []
