"""What a process has used, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far, its waited-for children included, and peak memory in MB."""

    cpu: float
    peak_mb: float


def usage(pid: int) -> Usage:
    """The usage of a process; zero for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Usage(0.0, 0.0)
    ticks = sum(int(fields[index]) for index in (11, 12, 13, 14))
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), "0")
    return Usage(ticks / _TICKS, int(peak) / 1024)
