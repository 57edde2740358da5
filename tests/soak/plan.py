"""What a soak run does, from its seed alone: pure, so a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is done to the installation or to what it depends on."""

    NONE = "nothing"
    KILL = "a process is killed"
    KILL_ROLE = "all processes of a role are killed"
    PAUSE = "a process is stopped for a while"
    STORE_KILLED = "the store is killed"
    STORE_PAUSED = "the store is stopped for a while"
    API_KILLED = "the API server is killed"
    API_COMPACTED = "the API server forgets its history"
    API_DROPS = "the API server cuts all watches"
    API_ERRORS = "the API server answers with errors"
    REMOTE_AWAY = "the remote is away"
    REMOTE_SLOW = "the remote is slow"
    REMOTE_MOVED = "somebody else pushes"
    REMOTE_REFUSES = "the remote refuses pushes"
    REMOTE_REWRITTEN = "somebody forces the remote back"
    CERTIFICATES = "certificates and their authority are replaced"
    TOKEN = "the operator's token is replaced"
    CLOCK = "a process's clock steps and steps back"
    DISK_FULL = "a state directory is full for a while"
    MEMORY = "a process gets no more memory for a while"
    DEFINITION_BLINKS = "a custom type is not served for a while"
    GROUP_FAILS = "an API group fails for a while"


HISTORY_BREAKING = frozenset({Fault.API_KILLED, Fault.API_COMPACTED, Fault.REMOTE_REWRITTEN, Fault.TOKEN})
"""After these a type is replayed, so states between two others may be missing in Git; the last may not."""
ROLES = ("watcher", "worker", "web", "beat")
REPLICAS = {"watcher": 3, "worker": 3, "web": 2, "beat": 1}
STORE = "store"
PEOPLE = (
    "alice",
    "bob",
    "dora@lab.test",
    "system:serviceaccount:ci:deployer",
    "system:serviceaccount:build:robot",
)
SECRET_NAMES = ("s0", "s1")
SECRET_SHARE = 0.1
MOST_CLOCK_STEP = 300
MOST_STORE_CLOCK_STEP = 45
"""Seconds. The store counts leases by its own clock: after a step back a dead holder's lease lasts longer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: after how many changes it begins, whom it meets, and how long it lasts (seconds)."""

    fault: Fault
    after: int
    target: str = ""
    seconds: float = 0.0
    amount: int = 0
    """Seconds that a clock steps."""


@dataclass(frozen=True, slots=True)
class Change:
    """One request to the API server in somebody's name; ``value`` None deletes."""

    name: str
    value: int | None
    pause: float
    person: str = PEOPLE[0]

    @property
    def secret(self) -> bool:
        """Whether it is a Secret and not a ConfigMap."""
        return self.name in SECRET_NAMES


@dataclass(frozen=True, slots=True)
class Episode:
    """Changes with faults among them, then quiet until all is written."""

    number: int
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]

    @property
    def exact(self) -> bool:
        """Whether every single change must be in Git."""
        return not any(step.fault in HISTORY_BREAKING for step in self.steps)


def episodes(seed: int, *, objects: int = 6, longest_pause: float = 20.0) -> Iterator[Episode]:
    """Episodes without end. Every kind of fault comes once before one comes again."""
    chance = random.Random(seed)
    value, number = 0, 0
    alive: set[str] = set()
    bag: list[Fault] = []
    while True:
        changes = []
        for _ in range(chance.randint(15, 40)):
            value += 1
            pause, person = chance.choice((0.0, 0.01, 0.05, 0.2)), chance.choice(PEOPLE)
            if chance.random() < SECRET_SHARE:
                changes.append(Change(chance.choice(SECRET_NAMES), value, pause, person))
                continue
            name = f"o{chance.randrange(objects)}"
            deleting = name in alive and chance.random() < 0.12
            (alive.discard if deleting else alive.add)(name)
            changes.append(Change(name, None if deleting else value, pause, person))
        steps = []
        for _ in range(1 if chance.random() < 0.7 else 2):
            if not bag:
                bag = [fault for fault in Fault if fault is not Fault.NONE or number == 0]
                chance.shuffle(bag)
            steps.append(_step(chance, bag.pop(), len(changes), longest_pause))
        yield Episode(number, tuple(changes), tuple(steps))
        number += 1


def _step(chance: random.Random, fault: Fault, changes: int, longest_pause: float) -> Step:
    role = chance.choice(ROLES[:2]) if fault is not Fault.KILL else chance.choice(ROLES)
    target = role
    if fault in _ONE_PROCESS:
        target = f"{role}-{chance.randrange(REPLICAS[role])}"
    if fault in (Fault.DISK_FULL, Fault.MEMORY) and chance.random() < 0.5:
        target = role  # all of them, so that nobody can take over
    if fault in (Fault.CLOCK, Fault.DISK_FULL) and chance.random() < 0.25:
        target = STORE
    most = MOST_STORE_CLOCK_STEP if target == STORE else MOST_CLOCK_STEP
    amount = chance.choice((-1, 1)) * chance.randint(5, most) if fault is Fault.CLOCK else 0
    return Step(
        fault, chance.randrange(changes), target, round(chance.uniform(1.0, longest_pause), 1), amount
    )


_ONE_PROCESS = frozenset({Fault.KILL, Fault.PAUSE, Fault.CLOCK, Fault.DISK_FULL, Fault.MEMORY})
