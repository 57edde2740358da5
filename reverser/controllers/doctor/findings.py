"""Findings and how they are shown: one line each, the remedy below it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is; only a problem makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. ``remedy`` says what to do; a problem always has one."""

    level: Level
    area: str
    text: str
    remedy: str = ""


def good(area: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, area, text)


def note(area: str, text: str, remedy: str = "") -> Finding:
    """Worth knowing."""
    return Finding(Level.NOTE, area, text, remedy)


def problem(area: str, text: str, remedy: str) -> Finding:
    """Must be repaired."""
    return Finding(Level.PROBLEM, area, text, remedy)


def render(findings: Iterable[Finding]) -> str:
    """The screen, with a last line that counts."""
    lines = []
    counts = dict.fromkeys(Level, 0)
    for finding in findings:
        counts[finding.level] += 1
        lines.append(f"{finding.level:<5} {finding.area:<12} {' '.join(finding.text.split())}")
        if finding.remedy:
            lines += textwrap.wrap(
                "-> " + finding.remedy, 100, initial_indent=" " * 6, subsequent_indent=" " * 9
            )
    problems, notes = counts[Level.PROBLEM], counts[Level.NOTE]
    lines.append(f"{problems} problem(s), {notes} note(s)" if problems or notes else "everything is in order")
    return "\n".join(lines)


def exit_code(findings: Iterable[Finding]) -> int:
    """1 when there is a problem."""
    return int(any(finding.level is Level.PROBLEM for finding in findings))
