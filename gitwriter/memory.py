"""What a process remembers of a branch between two runs of its writer."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    refusals: int = 0
    """Refusals by policy in a row."""
    rescans: dict[str, int] = field(default_factory=dict)
    rescan_at: float = 0.0
    check_at: float = 0.0
