"""Bars of the last day, as numbers for an inline SVG: no script draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reverser.history.queries import Hour

HEIGHT = 60
BAR = 10
GAP = 3


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: its place, and the heights of its two bars."""

    hour: Hour
    x: int
    changes_y: float
    changes_height: float
    commits_y: float
    commits_height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """All bars, and the totals for the caption."""

    bars: Sequence[Bar]
    width: int
    height: int
    commits: int
    changes: int
    most: int


def draw(hours: Sequence[Hour]) -> Chart:
    """Scale the hours to the busiest one."""
    most = max((max(hour.changes, hour.commits) for hour in hours), default=0)

    def tall(value: int) -> float:
        return round(max(1.0, HEIGHT * value / most), 1) if value and most else 0.0

    bars = []
    for place, hour in enumerate(hours):
        changes, commits = tall(hour.changes), tall(hour.commits)
        bars.append(Bar(hour, place * (BAR + GAP), HEIGHT - changes, changes, HEIGHT - commits, commits))
    return Chart(
        bars,
        max(1, len(hours) * (BAR + GAP)),
        HEIGHT,
        sum(hour.commits for hour in hours),
        sum(hour.changes for hour in hours),
        most,
    )
