"""What a commit changed, read on demand from the writer's clone. Nothing is fetched, nothing is kept.

The clone belongs to the worker that writes it, so it is only read: object ids of a commit never change, and a
clone that was replaced meanwhile gives a page that says so. Each call of git has a deadline and each file a
bound, because a page must not hang over a large repository. Sealed values stay sealed: their ciphertext is
shortened, and a Secret that is not sealed in Git is not shown at all: neither as it is, nor on the other side
of the commit that sealed it (see ``openness.py``).
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gitwriter.git.environment import base_environment, git_binary
from reverser.dashboard.openness import holds_open_secret
from reverser.trust.child import ChildTimeout, Completed, run

DEADLINE_SECONDS = 5.0
FILES = 60
FILE_BYTES = 200_000
FILE_LINES = 2_000
CONTEXT = 3
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SEALED = re.compile(r"ENC\[AES256_GCM,data:[^\]]*\]")


class DiffUnavailable(Exception):
    """The diff cannot be shown; the message says why and where to look instead."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line: ``kind`` is same, add, remove or gap; numbers are None where the line is not on that side."""

    kind: str
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One changed file; ``note`` stands in place of lines that are not shown."""

    path: str
    status: str
    lines: Sequence[Line] = ()
    note: str = ""
    added: int = 0
    removed: int = 0

    def pairs(self) -> Iterator[tuple[Line | None, Line | None]]:
        """The lines side by side: what was, what is."""
        left: list[Line] = []
        right: list[Line] = []
        for line in [*self.lines, None]:
            if line is not None and line.kind == "remove":
                left.append(line)
            elif line is not None and line.kind == "add":
                right.append(line)
            else:
                for place in range(max(len(left), len(right))):
                    yield (
                        left[place] if place < len(left) else None,
                        right[place] if place < len(right) else None,
                    )
                left, right = [], []
                if line is not None:
                    yield line, line


@dataclass(frozen=True, slots=True)
class Diff:
    """The files of one commit; ``more`` counts those beyond the bound."""

    files: Sequence[FileDiff] = ()
    more: int = 0
    note: str = ""


@dataclass(slots=True)
class _Git:
    """One clone, read under one common deadline."""

    path: Path
    ends: float = field(default_factory=lambda: time.monotonic() + DEADLINE_SECONDS)

    def __call__(self, *arguments: str, data: bytes = b"") -> Completed:
        left = max(0.1, self.ends - time.monotonic())
        argv = [git_binary(), "--git-dir", str(self.path), *arguments]
        return run(argv, env=base_environment(), deadline=left, data=data)

    def has(self, sha: str) -> bool:
        return self("cat-file", "-e", f"{sha}^{{commit}}").ok

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Contents by id; what is too large is left out."""
        sizes = self("cat-file", "--batch-check", data=_lines(ids))
        small = []
        for record in sizes.stdout.decode("ascii", "replace").splitlines():
            parts = record.split(" ")
            if len(parts) == 3 and parts[1] == "blob" and int(parts[2]) <= FILE_BYTES:
                small.append(parts[0])
        answer = self("cat-file", "--batch", data=_lines(small)).stdout
        found, place = {}, 0
        for _ in small:
            end = answer.find(b"\n", place)
            head = answer[place:end].split(b" ")
            if end < 0 or len(head) != 3:
                break
            size = int(head[2])
            found[head[0].decode()] = answer[end + 1 : end + 1 + size]
            place = end + 1 + size + 1
        return found


def _lines(ids: Sequence[str]) -> bytes:
    return "".join(f"{ident}\n" for ident in ids).encode()


def find_clone(state_dir: Path, namespace: str, provider: str, *, branch: str, sha: str) -> Path:
    """The clone of a branch that has a commit. Raises DiffUnavailable."""
    workers = (state_dir / "workers").resolve()
    folder = (workers / namespace / provider / branch / "repos").resolve()
    if not _SHA.fullmatch(sha) or not folder.is_relative_to(workers):
        raise DiffUnavailable("this is not the id of a commit")
    clones = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    try:
        for clone in clones:
            if _Git(clone).has(sha):
                return clone
    except ChildTimeout as error:
        raise DiffUnavailable("git did not answer in time; try again") from error
    where = "has no such commit any more" if clones else "is not on this machine"
    raise DiffUnavailable(
        f"The clone of {namespace}/{provider}, branch {branch}, {where}. "
        f"In a clone of your own: git show {sha}"
    )


def read_diff(clone: Path, sha: str) -> Diff:
    """The changes of a commit against its first parent. Raises DiffUnavailable."""
    git = _Git(clone)
    try:
        return _read(git, sha)
    except ChildTimeout as error:
        raise DiffUnavailable(f"git did not answer in {DEADLINE_SECONDS:.0f} s; try again") from error


def _read(git: _Git, sha: str) -> Diff:
    parent, note = f"{sha}^", ""
    if not git.has(parent):
        parent = git("hash-object", "-t", "tree", "/dev/null").stdout.decode("ascii").strip()
        # A shallow clone hides the parent from rev-list; the commit object still names it.
        if b"\nparent " in git("cat-file", "commit", sha).stdout.split(b"\n\n", 1)[0]:
            note = "The commit before is not in the clone, so every file is shown as new."
    listed = git(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-commit-id", "--abbrev=64", parent, sha
    )
    if not listed.ok:
        raise DiffUnavailable("the clone is being replaced; try again in a moment")
    changes = list(_changes(listed.stdout))
    shown = changes[:FILES]
    blobs = git.blobs([ident for _, old, new, _ in shown for ident in (old, new) if ident])
    return Diff(
        [_file(path, status, _side(old, blobs), _side(new, blobs)) for status, old, new, path in shown],
        len(changes) - len(shown),
        note,
    )


def _changes(listing: bytes) -> Iterator[tuple[str, str, str, str]]:
    """(status, old blob, new blob, path); an absent side is empty."""
    parts = iter(listing.split(b"\0"))
    for head in parts:
        if not head.startswith(b":"):
            continue
        _, _, old, new, status = head.decode().split(" ")
        path = next(parts, b"").decode("utf-8", "replace")
        names = {"A": "added", "D": "removed"}
        yield (
            names.get(status[:1], "changed"),
            old if old.strip("0") else "",
            new if new.strip("0") else "",
            path,
        )


def _side(blob: str, blobs: dict[str, bytes]) -> bytes | None:
    """A side's content: empty where there is no file, None where it is unavailable."""
    return blobs.get(blob) if blob else b""


def _file(path: str, status: str, old: bytes | None, new: bytes | None) -> FileDiff:
    if old is None or new is None:
        return FileDiff(path, status, note=f"larger than {FILE_BYTES // 1000} kB, not shown")
    try:
        before, after = old.decode(), new.decode()
    except UnicodeDecodeError:
        return FileDiff(path, status, note="not text, not shown")
    if holds_open_secret(before, after):
        return FileDiff(path, status, note="a Secret that is not sealed in Git is not shown here")
    one, other = before.splitlines(), after.splitlines()
    if max(len(one), len(other)) > FILE_LINES:
        return FileDiff(path, status, note=f"more than {FILE_LINES} lines, not shown")
    lines = list(_diff(one, other))
    note = "" if lines else "only the end of lines or the mode differs"
    return FileDiff(
        path,
        status,
        lines,
        note,
        added=sum(line.kind == "add" for line in lines),
        removed=sum(line.kind == "remove" for line in lines),
    )


def _line(kind: str, text: str, old: int | None = None, new: int | None = None) -> Line:
    return Line(kind, _SEALED.sub("ENC[sealed]", text), old, new)


def _diff(one: Sequence[str], other: Sequence[str]) -> Iterator[Line]:
    first = True
    for group in difflib.SequenceMatcher(None, one, other, autojunk=False).get_grouped_opcodes(CONTEXT):
        if not first or group[0][1] > 0 or group[0][3] > 0:
            yield Line("gap", "")
        first = False
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                for step in range(i2 - i1):
                    yield _line("same", one[i1 + step], i1 + step + 1, j1 + step + 1)
                continue
            for place in range(i1, i2):
                yield _line("remove", one[place], old=place + 1)
            for place in range(j1, j2):
                yield _line("add", other[place], new=place + 1)
