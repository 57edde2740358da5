"""What a process has used, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds so far, its waited-for children included, and peak and present memory in MB."""

    cpu: float
    peak_mb: float
    resident_mb: float = 0.0


def usage(pid: int) -> Usage:
    """The usage of a process; zero for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Usage(0.0, 0.0)
    ticks = sum(int(fields[index]) for index in (11, 12, 13, 14))
    sizes = {words[0]: int(words[1]) / 1024 for words in map(str.split, status.splitlines()) if "kB" in words}
    return Usage(ticks / _TICKS, sizes.get("VmHWM:", 0.0), sizes.get("VmRSS:", 0.0))
