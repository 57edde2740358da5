"""Figures as a table for people and as JSON for machines."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Figure:
    """One measured value; ``bar`` is what it should not exceed (or reach, where ``at_least``)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    note: str = ""
    section: str = ""

    @property
    def verdict(self) -> str:
        """``PASS``, ``MISS``, or an empty text without a bar."""
        if self.bar is None:
            return ""
        good = self.value >= self.bar if self.at_least else self.value <= self.bar
        return "PASS" if good else "MISS"


@dataclass(slots=True)
class Report:
    """What one run measured."""

    figures: list[Figure] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Sections that could not be measured to their end, and why."""
    left_out: dict[str, str] = field(default_factory=dict)
    """What this machine or cluster does not allow to be measured, and why."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each section took."""
    section: str = ""

    @property
    def passed(self) -> bool:
        """Every bar is met, and nothing broke."""
        return not self.broken and all(figure.verdict != "MISS" for figure in self.figures)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        bar: float | None = None,
        at_least: bool = False,
        note: str = "",
    ) -> None:
        """Add a figure and show it at once."""
        figure = Figure(name, round(value, 4), unit, bar, at_least, note, self.section)
        self.figures.append(figure)
        print(_row(figure), flush=True)

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "machine": platform.platform(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[2],
            "python": platform.python_version(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "passed": self.passed,
            "broken": self.broken,
            "left_out": self.left_out,
            "seconds": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
            "figures": [asdict(figure) | {"verdict": figure.verdict} for figure in self.figures],
        }
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    def summary(self) -> str:
        """Every bar with its verdict, and what was not measured."""
        rows = [_row(figure) for figure in self.figures if figure.verdict]
        rows += [f"{name:58} broke off: {why}" for name, why in self.broken.items()]
        rows += [f"{name:58} left out: {why}" for name, why in self.left_out.items()]
        count = sum(figure.verdict == "PASS" for figure in self.figures)
        bars = sum(bool(figure.verdict) for figure in self.figures)
        return "\n".join([*rows, f"{count} of {bars} bars are met"])


def _row(figure: Figure) -> str:
    bar = "" if figure.bar is None else f"{'>=' if figure.at_least else '<='} {figure.bar:g}"
    return (
        f"{figure.name:58} {figure.value:>12.4g} {figure.unit:8} {bar:>12} {figure.verdict:5} {figure.note}"
    )


@dataclass(slots=True)
class Timed:
    """How long a block took: wall and own CPU seconds."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def timed() -> Iterator[Timed]:
    """Time a block."""
    found = Timed()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield found
    finally:
        found.wall, found.cpu = time.perf_counter() - wall, time.process_time() - cpu


def percentile(values: list[float], share: float) -> float:
    """The least value that at least ``share`` (0..1) of the values do not exceed: the nearest rank."""
    return sorted(values)[max(math.ceil(len(values) * share) - 1, 0)]
