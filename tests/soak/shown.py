"""What the branch's history shows of a folder, read in one go: each file's states, in order, with authors."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_VALUE = re.compile(rb'^  v: "?([^"\n]*)"?$', re.MULTILINE)
_NOTHING = "0" * 40


@dataclass(frozen=True, slots=True)
class Shown:
    """One state of a file; ``content`` is None where a commit removed it."""

    author: str
    content: bytes | None

    @property
    def value(self) -> str | None:
        """The entry ``v`` of a ConfigMap."""
        found = _VALUE.search(self.content or b"")
        return found[1].decode() if found else None


def shown(repository: Path, folder: str, *, branch: str = "main") -> dict[str, list[Shown]]:
    """By the stem of the file name, oldest first."""
    git = ["git", f"--git-dir={repository}"]
    log = subprocess.run(
        [
            *git,
            "log",
            "--reverse",
            "--format=%x01%an <%ae>",
            "--raw",
            "-z",
            "--no-renames",
            "--no-abbrev",
            branch,
            "--",
            folder,
        ],
        capture_output=True,
        check=False,
    ).stdout
    rows: list[tuple[str, str, str]] = []
    for commit in log.split(b"\x01")[1:]:
        author, _, rest = commit.partition(b"\0")
        words = [word.lstrip(b"\n") for word in rest.split(b"\0") if word.strip()]
        for about, path in zip(words[::2], words[1::2], strict=True):
            rows.append((author.decode().strip(), about.split()[3].decode(), path.decode()))
    contents = _contents(git, sorted({blob for _, blob, _ in rows if blob != _NOTHING}))
    found: dict[str, list[Shown]] = {}
    for name_line, blob, file in rows:
        name = PurePosixPath(file).name.partition(".")[0]
        found.setdefault(name, []).append(Shown(name_line, contents.get(blob)))
    return found


def _contents(git: list[str], blobs: list[str]) -> dict[str, bytes]:
    answer = subprocess.run(
        [*git, "cat-file", "--batch"],
        input="".join(f"{blob}\n" for blob in blobs).encode(),
        capture_output=True,
        check=True,
    ).stdout
    found = {}
    at = 0
    for blob in blobs:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[2])
        found[blob] = answer[end + 1 : end + 1 + size]
        at = end + size + 2
    return found
