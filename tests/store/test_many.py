"""Many calls at once answer what each would answer alone."""

from __future__ import annotations

import pytest

from reverser.errors import StoreUnavailable
from reverser.store import Store, branches
from reverser.store.model import Backlog, BranchKey
from tests.store.world import BRANCH, World, event

OTHERS = [BranchKey("shop", "gp", f"branch-{number}") for number in range(3)]


def test_each_gets_its_own_answer(world: World) -> None:
    """In their order, also where the server has forgotten the scripts."""
    world.store.wake_branch(OTHERS[1])
    keys = [*OTHERS, BRANCH]
    alone = [world.store.read_branch(key) for key in keys]
    world.store.client.script_flush()

    assert world.store.run_all([branches.read_branch(key) for key in keys]) == alone
    assert world.store.run_all([branches.read_base(key) for key in keys]) == [record.base for record in alone]
    assert world.store.run_all([]) == []


def test_what_waits_on_many_branches(world: World) -> None:
    """Entries, and the age of the oldest by the clock of Redis; 0 where nothing waits or ever did."""
    assert world.store.read_backlogs([]) == {}
    for name in ("a", "b"):
        world.append(event(name))
    (first, _second) = world.store.entry_ids(BRANCH)
    before = world.store.time_ms()
    found = world.store.read_backlogs([OTHERS[0], BRANCH])
    after = world.store.time_ms()
    came = int(first.partition("-")[0])
    assert found[OTHERS[0]] == Backlog()
    assert found[BRANCH].entries == 2
    assert before - came <= found[BRANCH].oldest_ms <= after - came


def test_a_server_that_is_away() -> None:
    """An outage, like one call's."""
    store = Store.connect("redis://127.0.0.1:1/0", deadline_s=1)

    with pytest.raises(StoreUnavailable, match="REVERSER_REDIS_URL"):
        store.run_all([branches.read_branch(BRANCH)])
