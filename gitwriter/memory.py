"""What a process remembers of a branch between two runs of its writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from reverser.store import Store
from reverser.store.branches import IDS_AT_ONCE
from reverser.store.model import BranchKey, Stored


@dataclass(slots=True)
class BranchMemory:
    """What a process remembers of a branch between runs. Losing it costs time, never a change."""

    branch: BranchKey
    entries: list[Stored] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    """The ids of the journal, those included that could not be read."""
    first_seen: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    """Failed attempts in a row."""
    retry_at: float = 0.0
    """Monotonic clock, seconds; nothing is attempted before."""
    offenders: dict[str, float] = field(default_factory=dict)
    """Windows that the remote's policy refuses: boundary id to when each is tried again (monotonic clock)."""
    replaced: set[str] = field(default_factory=set)
    """Those of them for which a replay was asked, because what follows was tried in their place."""
    refusals: int = 0
    """Refusals by policy in a row."""
    rescans: dict[str, int] = field(default_factory=dict)
    rescan_at: float = 0.0
    check_at: float = 0.0

    @property
    def last_listed(self) -> str:
        """The journal's last id; empty where nothing waits."""
        return self.listed[-1] if self.listed else ""

    def read_journal(self, store: Store, *, texts: bool = False) -> list[Stored]:
        """The journal from its start; what was read before is reused, what is settled is dropped.

        ``texts`` brings the texts of the objects too. What is appended meanwhile is left to the next reading:
        giving the lease back makes the branch due for it. Raises StoreUnavailable.
        """
        self.listed = _ids(store, self.branch)
        alive = set(self.listed)
        known = [stored for stored in self.entries if stored.id in alive]
        # A store that failed over may hold again what was settled, in front of what is known: from there on
        # the journal is read anew, or that would be written last.
        same = takewhile(lambda pair: pair[0].id == pair[1], zip(known, self.listed, strict=False))
        self.entries = [stored for stored, _ in same]
        while self.listed and self._last_read() != self.last_listed:
            batch = store.read_entries(self.branch, self._last_read(), texts=texts)
            self.entries.extend(batch)
            if not batch or batch[-1].id not in alive:
                break
        return self.entries

    def _last_read(self) -> str:
        return self.entries[-1].id if self.entries else ""


def _ids(store: Store, branch: BranchKey) -> list[str]:
    ids = page = store.entry_ids(branch)
    while len(page) == IDS_AT_ONCE:
        page = store.entry_ids(branch, page[-1])
        ids = [*ids, *page]
    return ids
