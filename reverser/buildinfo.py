"""What is running: version, commit and build date, as ``build-info.json`` beside manage.py tells them.

The image build writes the file; a checkout has none and says ``dev`` and ``unknown``.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "build-info.json"


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """Where the code came from."""

    version: str = "dev"
    commit: str = "unknown"
    dirty: bool = False
    date: str = "unknown"

    def public(self) -> dict[str, str | bool]:
        """The answer of ``/build-info``."""
        return {
            "version": self.version,
            "gitCommit": self.commit,
            "isDirty": self.dirty,
            "commitWithDirty": f"{self.commit}-dirty" if self.dirty else self.commit,
            "buildDate": self.date,
            "pythonVersion": platform.python_version(),
        }


def read_build_info(path: Path) -> BuildInfo:
    """The file's facts; what it lacks, or a file that cannot be read, keeps the defaults."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return BuildInfo()
    if not isinstance(facts, dict):
        return BuildInfo()
    defaults = BuildInfo()
    return BuildInfo(
        version=str(facts.get("version") or defaults.version),
        commit=str(facts.get("commit") or defaults.commit),
        dirty=facts.get("dirty") in {True, "true"},
        date=str(facts.get("date") or defaults.date),
    )


@cache
def build_info() -> BuildInfo:
    """Of this process; read once."""
    return read_build_info(PATH)
