"""How large a run is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes, as the command line gives them."""

    objects: int = 10_000
    """Objects of a first replay; its bars are for 10,000."""
    small: int = 200
    """Objects of the small target beside it."""
    sizes: tuple[int, ...] = (100, 1_000, 10_000, 50_000)
    """Files in the target for the cost of one edit."""
    rate: int = 1_000
    """Changes a second of the live load."""
    seconds: float = 60.0
    """How long the live load lasts."""
    samples: int = 200
    """Single changes in small targets whose latency is taken; a large one gets fewer."""
    secrets: int = 1_000
    branches: int = 50
    commits: int = 100_000
    """Of the history."""
