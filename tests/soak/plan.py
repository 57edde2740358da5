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


HISTORY_BREAKING = frozenset({Fault.API_KILLED, Fault.API_COMPACTED, Fault.REMOTE_REWRITTEN})
"""After these a type is replayed, so states between two others may be missing in Git; the last may not."""
ROLES = ("watcher", "worker", "web", "beat")
REPLICAS = {"watcher": 3, "worker": 3, "web": 2, "beat": 1}


@dataclass(frozen=True, slots=True)
class Step:
    """One fault: after how many changes it begins, whom it meets, and how long it lasts (seconds)."""

    fault: Fault
    after: int
    target: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """One request to the API server; ``value`` None deletes."""

    name: str
    value: int | None
    pause: float


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
            name = f"o{chance.randrange(objects)}"
            value += 1
            deleting = name in alive and chance.random() < 0.12
            (alive.discard if deleting else alive.add)(name)
            changes.append(Change(name, None if deleting else value, chance.choice((0.0, 0.01, 0.05, 0.2))))
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
    if fault in (Fault.KILL, Fault.PAUSE):
        target = f"{role}-{chance.randrange(REPLICAS[role])}"
    return Step(fault, chance.randrange(changes), target, round(chance.uniform(1.0, longest_pause), 1))
