"""What the store says about branches and targets now, read for people.

The database holds what happened; only the store holds what waits. A store that does not answer is the most
important finding of all, so every reading here may be absent and the page says so instead of failing.
Readings are cached for two seconds per process: ten open dashboards cost Redis as much as one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from reverser.errors import StoreUnavailable
from reverser.store import Store, branches
from reverser.store.model import BranchHealth, BranchKey, BranchRecord, LeaseKind, Stored

ENTRY_BYTES = 256 * 1024
AT_ONCE = 50
"""Branches per round trip; their replies are in memory together."""
FRESH_SECONDS = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BranchReading:
    """One branch: its record, its health, and what waits of each target (by UID)."""

    key: BranchKey
    record: BranchRecord
    health: BranchHealth | None
    holder: str = ""
    """The worker that writes it now; empty = none."""
    oldest_ms: Mapping[str, int] = field(default_factory=dict)
    """Time of the oldest unsettled entry by target UID, of those near the head of the journal."""
    pending_bytes: Mapping[str, int] = field(default_factory=dict)
    due_ms: int = 0
    """When the writer will continue (ms); 0 = nothing is planned."""

    @property
    def failing(self) -> bool:
        return self.health is not None and not self.health.ok


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything the overview needs from the store. ``problem`` is empty when it answered."""

    problem: str = ""
    now_ms: int = 0
    branches: Mapping[str, BranchReading] = field(default_factory=dict)
    """By ``BranchKey.id``."""
    watchers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    holders: Mapping[str, str] = field(default_factory=dict)
    """Watcher by target UID."""


def read_branches(
    store: Store, keys: Sequence[BranchKey], *, holders: Mapping[str, str], due_ms: Mapping[str, int]
) -> list[BranchReading]:
    """Branches in the order of ``keys``; who writes them and when is by ``BranchKey.id``. Several share a
    round trip: one each would cost more than the rest of a page. Raises StoreUnavailable.
    """
    found = []
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        records = store.run_all([branches.read_branch(key) for key in some])
        healths = store.run_all([branches.read_branch_health(key) for key in some])
        busy = [key for key, record in zip(some, records, strict=True) if record.entries]
        entries = store.run_all([branches.read_entries(key, "", ENTRY_BYTES, texts=False) for key in busy])
        oldest = {key: _oldest(waiting) for key, waiting in zip(busy, entries, strict=True)}
        sizes = dict(zip(busy, store.run_all(list(map(branches.read_unsettled_bytes, busy))), strict=True))
        for key, record, health in zip(some, records, healths, strict=True):
            pending = {uid: size for uid, size in sizes.get(key, {}).items() if uid and size > 0}
            found.append(
                BranchReading(
                    key,
                    record,
                    health,
                    holders.get(key.id, ""),
                    oldest.get(key, {}),
                    pending,
                    due_ms.get(key.id, 0),
                )
            )
    return found


def _oldest(waiting: Iterable[Stored]) -> dict[str, int]:
    """The first time of each target; entries come in the order of their times."""
    found: dict[str, int] = {}
    for stored in waiting:
        found.setdefault(stored.entry.target.uid, stored.time_ms)
    return found


def read_all(store: Store) -> Reading:
    """All branches, watchers and leases; an unavailable store gives a reading with a problem."""
    try:
        writers, due_ms = store.lease_holders(LeaseKind.BRANCH), store.read_due()
        now_ms, keys = store.time_ms(), list(store.known_branches())
        return Reading(
            now_ms=now_ms,
            branches={row.key.id: row for row in read_branches(store, keys, holders=writers, due_ms=due_ms)},
            watchers=store.heartbeats("watcher"),
            workers=store.heartbeats("worker"),
            holders=store.lease_holders(LeaseKind.TARGET),
        )
    except StoreUnavailable as error:
        return Reading(problem=str(error))


class Shared(Generic[T]):
    """A value made at most once in ``seconds``, however many threads ask for it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[float, T] | None = None

    def get(self, make: Callable[[], T]) -> T:
        """The kept value, or a new one."""
        with self._lock:
            if self._kept is None or self._clock() - self._kept[0] >= self._seconds:
                value = make()
                self._kept = (self._clock(), value)
            return self._kept[1]

    def clear(self) -> None:
        """Make a new one next time."""
        with self._lock:
            self._kept = None


READING: Shared[Reading] = Shared(FRESH_SECONDS)


def current() -> Reading:
    """The current reading, from the store of this process."""
    from reverser.wiring import store

    return READING.get(lambda: read_all(store()))


def targets_by_watcher(reading: Reading, names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """(watcher, names of its targets); ``names`` is by UID."""
    return _grouped(reading.watchers, ((who, names.get(uid, uid)) for uid, who in reading.holders.items()))


def branches_by_worker(reading: Reading) -> list[tuple[str, list[BranchReading]]]:
    """(worker, the branches it writes at this moment), those that write nothing included."""
    found: dict[str, list[BranchReading]] = {name: [] for name in reading.workers}
    for branch in reading.branches.values():
        if branch.holder:
            found.setdefault(branch.holder, []).append(branch)
    return sorted(found.items())


def _grouped(known: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {name: [] for name in known}
    for who, what in pairs:
        found.setdefault(who, []).append(what)
    return sorted((who, sorted(items)) for who, items in found.items())
