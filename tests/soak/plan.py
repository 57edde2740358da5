"""What a soak run does, from its seed alone: pure, so a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
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
    STORE_FAILS_OVER = "another server becomes the store's primary"
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

    @property
    def word(self) -> str:
        """As it is named on the command line."""
        return self.name.lower().replace("_", "-")


def fault_of(word: str) -> Fault:
    """The fault with this name. Raises ValueError, with all names, for another word."""
    for fault in Fault:
        if fault.word == word.strip():
            return fault
    raise ValueError(f"no fault is called {word!r}; there are {', '.join(fault.word for fault in Fault)}")


HISTORY_BREAKING = frozenset({Fault.API_KILLED, Fault.API_COMPACTED, Fault.REMOTE_REWRITTEN, Fault.TOKEN})
"""After these a type is replayed, so states between two others may be missing in Git; the last may not."""
BREAKING_ONE: Mapping[str, frozenset[Fault]] = {
    "gizmos": frozenset({Fault.DEFINITION_BLINKS, Fault.GROUP_FAILS}),
    "secrets": frozenset({Fault.DISK_FULL, Fault.MEMORY}),
}
"""The same for one resource: what is not served is replayed later, and so is what could not be sealed."""
MAY_REPEAT = frozenset({Fault.STORE_FAILS_OVER})
"""After these history may repeat itself: what a lost primary had settled a moment before is not settled."""
STORE_FAULTS = frozenset({Fault.STORE_KILLED, Fault.STORE_PAUSED, Fault.STORE_FAILS_OVER})
ROLES = ("watcher", "worker", "web", "beat")
REPLICAS = {"watcher": 3, "worker": 3, "web": 2, "beat": 1}
STORE = "store"
"""The primary of the moment."""
DEAD, ISOLATED, ORDERED = "dead", "isolated", "ordered"
FAIL_OVERS = (DEAD, ISOLATED, ORDERED)
"""The old primary is killed; is stopped and comes back as if nothing had been; is relieved by an
administrator.
"""
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

    @property
    def resource(self) -> str:
        """Its plural name."""
        return "secrets" if self.secret else "configmaps"


@dataclass(frozen=True, slots=True)
class Episode:
    """Changes with faults among them, then quiet until all is written."""

    number: int
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]

    def exact(self, resource: str) -> bool:
        """Whether every single change of a resource must be in Git."""
        faults = {step.fault for step in self.steps}
        return not faults & (HISTORY_BREAKING | BREAKING_ONE.get(resource, frozenset()))

    @property
    def breaking(self) -> bool:
        """Whether a watch may be behind a gap after it."""
        return not all(self.exact(resource) for resource in ("configmaps", *BREAKING_ONE))

    @property
    def may_repeat(self) -> bool:
        """Whether states may come into Git a second time."""
        return any(step.fault in MAY_REPEAT for step in self.steps)


def episodes(
    seed: int, *, objects: int = 6, longest_pause: float = 20.0, only: Collection[Fault] = tuple(Fault)
) -> Iterator[Episode]:
    """Episodes without end. Every kind of fault (of ``only``) comes once before one comes again."""
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
        steps: list[Step] = []
        for _ in range(1 if chance.random() < 0.7 else 2):
            if not bag:
                bag = [fault for fault in Fault if fault in only and (fault is not Fault.NONE or number == 0)]
                chance.shuffle(bag)
            fault = bag.pop()
            if fault in STORE_FAULTS and any(step.fault in STORE_FAULTS for step in steps):
                bag.append(fault)  # who is down cannot be killed, stopped or relieved
                continue
            steps.append(_step(chance, fault, len(changes), longest_pause))
        yield Episode(number, tuple(changes), tuple(steps))
        number += 1


def _step(chance: random.Random, fault: Fault, changes: int, longest_pause: float) -> Step:
    role = chance.choice(ROLES[:2]) if fault is not Fault.KILL else chance.choice(ROLES)
    target = role
    if fault in _ONE_PROCESS:
        target = f"{role}-{chance.randrange(REPLICAS[role])}"
    if fault in (Fault.DISK_FULL, Fault.MEMORY) and chance.random() < 0.5:
        target = role  # all of them, so that nobody can take over
    if fault is Fault.STORE_FAILS_OVER:
        target = chance.choice(FAIL_OVERS)
    if fault in (Fault.CLOCK, Fault.DISK_FULL) and chance.random() < 0.25:
        target = STORE
    most = MOST_STORE_CLOCK_STEP if target == STORE else MOST_CLOCK_STEP
    amount = chance.choice((-1, 1)) * chance.randint(5, most) if fault is Fault.CLOCK else 0
    return Step(
        fault, chance.randrange(changes), target, round(chance.uniform(1.0, longest_pause), 1), amount
    )


_ONE_PROCESS = frozenset({Fault.KILL, Fault.PAUSE, Fault.CLOCK, Fault.DISK_FULL, Fault.MEMORY})
