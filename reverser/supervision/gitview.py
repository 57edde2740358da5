"""Reading the demo's bare repository with plumbing, as anybody could."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_DEADLINE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as ``git log`` shows it."""

    sha: str
    author: str
    subject: str


class GitView:
    """A bare repository, read only."""

    def __init__(self, repository: Path, branch: str) -> None:
        self._repository = repository
        self._branch = branch

    def _git(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        return subprocess.run(
            ["git", f"--git-dir={self._repository}", *arguments],
            env=environment,
            capture_output=True,
            timeout=_DEADLINE_SECONDS,
            check=False,
        )

    def tip(self) -> str:
        """The branch's commit, or an empty text while it is unborn."""
        answer = self._git("rev-parse", "--quiet", "--verify", f"refs/heads/{self._branch}")
        return answer.stdout.decode().strip() if answer.returncode == 0 else ""

    def log(self) -> list[Commit]:
        """All commits, newest first."""
        answer = self._git("log", "--format=%H%x00%an <%ae>%x00%s", f"refs/heads/{self._branch}")
        if answer.returncode != 0:
            return []
        lines = answer.stdout.decode("utf-8", "replace").split("\n")[:-1]  # names may hold other separators
        return [Commit(*line.split("\0", 2)) for line in lines]

    def last_subject(self, path: str) -> str:
        """The subject of the newest commit that touched ``path``; empty where none did."""
        answer = self._git("log", "-1", "--format=%s", f"refs/heads/{self._branch}", "--", path)
        return answer.stdout.decode("utf-8", "replace").strip()

    def read(self, path: str) -> bytes | None:
        """The bytes of a file at the tip, or None."""
        answer = self._git("cat-file", "blob", f"refs/heads/{self._branch}:{path}")
        return answer.stdout if answer.returncode == 0 else None

    def files(self, path: str = "") -> list[str]:
        """The files at the tip below ``path``."""
        answer = self._git(
            "ls-tree", "-r", "-z", "--name-only", f"refs/heads/{self._branch}", "--", path or "."
        )
        names = answer.stdout.decode("utf-8", "surrogateescape").split("\0")
        return [name for name in names if name]

    def contains(self, needle: bytes) -> bool:
        """Whether any object of the repository, reachable or not, holds these bytes."""
        answer = self._git("cat-file", "--batch-all-objects", "--batch")
        return needle in answer.stdout

    def problems(self) -> str:
        """What ``git fsck --strict`` says; empty when all is well."""
        answer = self._git("fsck", "--strict", "--no-dangling", "--no-progress")
        return (
            "" if answer.returncode == 0 and not answer.stdout else (answer.stdout + answer.stderr).decode()
        )
