"""The machine is run: by hypothesis, by long walks, and through a story that once went wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from reverser.store import Store
from tests.store.protocol.machine import PEOPLE, Protocol
from tests.store.protocol.world import BRANCH


def _walk(attack: Protocol, seed: int, steps: int) -> None:
    """The same actions, chosen by weight: more work between the faults than shrinking likes to leave."""
    rng = random.Random(seed)
    folder = lambda: rng.choice("ab")  # noqa: E731
    often = [
        lambda: attack.work(folder(), rng.randrange(5, 60)),
        lambda: attack.burst(folder(), rng.randrange(1, 6)),
        lambda: attack.step_writer(rng.randrange(3), rng.randrange(1, 30)),
        lambda: attack.step_watcher(rng.randrange(3), rng.randrange(1, 25)),
    ]
    faults = [
        lambda: attack.request(folder(), rng.choice(PEOPLE[:2]), rng.choice([0, 5])),
        lambda: attack.kill_watcher(rng.randrange(3)),
        lambda: attack.kill_writer(rng.randrange(3)),
        lambda: attack.lose_target_lease(folder()),
        attack.lose_branch_lease,
        lambda: attack.start_watcher(folder()),
        lambda: attack.start_writer(rng.choice([0, 10_000])),
        lambda: attack.late_push_lands(rng.randrange(6)),
        attack.somebody_pushes,
        attack.flip_refusing_remote,
    ]
    seldom = [
        lambda: attack.recreate(folder()),
        lambda: attack.reconfigure(folder()),
        lambda: attack.reconfigure(folder()),
        lambda: attack.ask_again(folder()),
        lambda: attack.ask_again(folder()),
        lambda: attack.flip_gate(folder()),
        lambda: attack.flip_refusal(folder()),
        lambda: attack.flip_stall(folder()),
        lambda: attack.flip_brake(folder()),
        lambda: attack.release_holds(folder()),
        lambda: attack.expire_cursors(folder()),
        lambda: attack.history_is_compacted(folder()),
        attack.staging_is_lost,
    ]
    losses = [
        lambda: attack.rewrite(rng.randrange(4)),
        attack.flush,
        attack.take_snapshot,
        attack.go_back,
        lambda: attack.fail_over(folder(), rng.randrange(1, 80)),
        lambda: attack.fail_over(folder(), rng.randrange(1, 80)),
    ]
    losing = rng.random() < 0.3
    attack.begin(seed=seed, window_ms=rng.choice([0, 0, 5000]), losing=losing)
    # Some walks leave out what replays or refuses: there, every single write must be in the history.
    calm = rng.random() < 0.4
    groups = [often, faults, [] if calm else seldom, losses if losing else []]
    weights = [6, 3, 2, 0.5]
    for _ in range(steps):
        (group,) = rng.choices(groups, weights)
        if group:
            rng.choice(group)()
            attack.check_moment()
    attack.settle_down()
    attack.check_promises()


@pytest.fixture
def machine(store: Store) -> Iterator[type[Protocol]]:
    """The machine, bound to this test's Redis."""

    class Bound(Protocol):
        pass

    Bound.store = store
    yield Bound


@pytest.mark.timeout(0)
def test_the_protocol_keeps_its_promises(machine: type[Protocol]):
    """J1 to J23: in any order of steps and faults. More runs with SOAK_EXAMPLES."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(os.environ.get("SOAK_EXAMPLES", "25")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(0)
def test_long_walks_keep_the_promises(machine: type[Protocol]):
    """Faults among much work; a failing walk is named by its seed, and SOAK_SEED repeats it."""
    first = int(os.environ.get("SOAK_SEED", "0"))
    for seed in range(first, first + int(os.environ.get("SOAK_WALKS", "30"))):
        try:
            _walk(machine(), seed, steps=80)
        except Exception as error:
            raise AssertionError(f"walk {seed}") from error


def test_a_push_that_lands_after_its_window_was_refused(machine: type[Protocol]):
    """J15: its writer died, the window was refused, the object deleted; only then the push lands."""
    attack = machine()
    attack.begin(seed=1, window_ms=0, losing=False)
    target = attack.current["a"]
    attack.start_watcher("a")
    attack.step_watcher(0, 30)
    attack.start_writer(0)
    attack.step_writer(0, 200)
    attack.change("a", "x", False, "alice", False)
    attack.step_watcher(0, 30)
    attack.start_writer(0)
    while not attack.world.pushes:
        attack.step_writer(0, 1)
    attack.kill_writer(0)
    attack.lose_branch_lease()
    attack.set_refused(target, True)
    attack.start_writer(0)
    attack.step_writer(0, 200)
    attack.set_refused(target, False)
    attack.change("a", "x", True, "alice", False)
    attack.step_watcher(0, 60)
    attack.start_writer(0)
    attack.step_writer(0, 200)
    assert attack.world.remote.tip is None
    attack.late_push_lands(0)
    assert attack.world.remote.tip is not None
    attack.settle_down()
    attack.check_promises()


def test_a_settlement_that_the_new_primary_lacks(machine: type[Protocol]):
    """J13: what was settled is pending again, before what the process remembers, and is written first."""
    attack = machine()
    attack.begin(seed=1, window_ms=0, losing=True)
    del attack.world.memories[1:]
    attack.start_watcher("a")
    attack.step_watcher(0, 30)
    attack.start_writer(0)
    attack.step_writer(0, 200)
    attack.change("a", "x", False, "alice", False)
    attack.change("a", "x", True, "bob", False)
    attack.change("a", "x", False, "alice", False)
    attack.step_watcher(0, 30)
    waiting = [stored.id for stored in attack.store.read_entries(BRANCH)]
    attack.take_snapshot()
    attack.start_writer(0)
    while len(attack.store.read_entries(BRANCH)) > 1:
        attack.step_writer(0, 1)
    attack.kill_writer(0)
    attack.lose_branch_lease()
    attack.start_writer(0)
    attack.step_writer(0, 1)
    attack.kill_writer(0)
    assert [stored.id for stored in attack.world.memories[0].entries] == waiting[-1:]
    attack.go_back()
    assert [stored.id for stored in attack.store.read_entries(BRANCH)] == waiting
    attack.lose_branch_lease()
    attack.settle_down()
    attack.check_promises()
