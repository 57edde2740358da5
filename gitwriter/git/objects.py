"""Reading trees and blobs from the clone, in bulk.

One ``cat-file --batch`` child serves all blobs of an attempt, so reading ten thousand manifests takes one
process. Listings use NUL-terminated output: no path needs unquoting, whatever bytes it holds.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.errors import CloneDamaged
from reverser.trust.child import start, stop

FOLDER, SYMLINK, SUBMODULE = "040000", "120000", "160000"
_CHUNK = 1 << 16
_BATCH = 200  # 41 bytes each: always fits into the pipe, so writing never waits for reading


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a tree: path from the repository's root, octal mode, blob id, size in bytes."""

    path: str
    mode: str
    blob: str
    size: int

    @property
    def regular(self) -> bool:
        return self.mode.startswith("100")

    @property
    def folder(self) -> bool:
        return self.mode == FOLDER


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """One path that differs between two trees. ``blob`` and ``mode`` are the newer side's, or empty."""

    path: str
    mode: str
    blob: str

    @property
    def deleted(self) -> bool:
        return not self.blob

    @property
    def regular(self) -> bool:
        return self.mode.startswith("100")


def parse_tree(listing: bytes) -> list[TreeEntry]:
    """Entries of ``ls-tree -r -z -l``."""
    entries = []
    for record in listing.split(b"\0"):
        if record:
            head, _, path = record.partition(b"\t")
            mode, _, blob, size = head.split()
            entries.append(
                TreeEntry(
                    path.decode("utf-8", "surrogateescape"),
                    mode.decode(),
                    blob.decode(),
                    0 if size == b"-" else int(size),
                )
            )
    return entries


def parse_diff(listing: bytes) -> list[DiffEntry]:
    """Entries of ``diff-tree -r -z --raw``: pairs of a head and a path."""
    parts = iter(listing.split(b"\0"))
    entries = []
    for head in parts:
        if not head:
            break
        path = next(parts).decode("utf-8", "surrogateescape")
        _, mode, _, blob, status = head.decode().split(" ")
        gone = status == "D"
        entries.append(DiffEntry(path, "" if gone else mode, "" if gone else blob))
    return entries


def parent_of(commit: bytes) -> str | None:
    """The first parent that a commit object names, or None."""
    for line in commit.split(b"\n\n", 1)[0].split(b"\n"):
        if line.startswith(b"parent "):
            return line[7:].decode()
    return None


class BlobReader:
    """A long-lived ``cat-file --batch``; ends with ``close`` (or with the thread that started it)."""

    def __init__(self, path: Path) -> None:
        self._process: subprocess.Popen[bytes] | None = start(
            [git_binary(), "--git-dir", str(path), "cat-file", "--batch"], env=base_environment()
        )
        assert self._process.stdout
        self._output = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._buffer = bytearray()

    def read(self, ids: Sequence[str], *, deadline: float) -> Iterator[tuple[str, bytes]]:
        """Yield (id, content) in the order asked. Raises CloneDamaged for a missing object.

        ``deadline`` is the longest silence in seconds.
        """
        remaining = iter(ids)
        while batch := list(islice(remaining, _BATCH)):
            self._ask(batch)
            for oid in batch:
                yield oid, self._answer(oid, deadline)

    def commit(self, oid: str, *, deadline: float) -> bytes | None:
        """The bytes of a commit, None where the clone has no such commit. Raises CloneDamaged."""
        self._ask([oid])
        head = self._head(deadline)
        if len(head) != 3:
            return None
        content = self._content(int(head[2]), deadline)
        return content if head[1] == b"commit" else None

    def _ask(self, ids: Sequence[str]) -> None:
        process = self._process
        if process is None:
            raise CloneDamaged("the blob reader is closed")
        assert process.stdin
        try:
            process.stdin.write("".join(f"{oid}\n" for oid in ids).encode())
            process.stdin.flush()
        except BrokenPipeError:
            raise self._broken("stopped answering") from None

    def _answer(self, oid: str, deadline: float) -> bytes:
        head = self._head(deadline)
        if len(head) != 3:
            raise self._broken(f"has no object {oid[:12]}")
        return self._content(int(head[2]), deadline)

    def _head(self, deadline: float) -> list[bytes]:
        while (end := self._buffer.find(b"\n")) < 0:
            self._fill(deadline)
        head = bytes(self._buffer[:end]).split()
        del self._buffer[: end + 1]
        return head

    def _content(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) <= size:
            self._fill(deadline)
        content = bytes(self._buffer[:size])
        del self._buffer[: size + 1]
        return content

    def _fill(self, deadline: float) -> None:
        if not self._poll.poll(deadline * 1000):
            raise self._broken("does not answer")
        chunk = os.read(self._output, _CHUNK)
        if not chunk:
            raise self._broken("stopped answering")
        self._buffer += chunk

    def _broken(self, what: str) -> CloneDamaged:
        self.close()
        return CloneDamaged(f"the clone {what}; it is fetched anew")

    def close(self) -> None:
        """End the child; harmless when it has ended."""
        if self._process is not None:
            process, self._process = self._process, None
            stop(process, grace=0.2)
