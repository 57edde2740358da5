"""The committed files under a target path, as the branch writer hands them over.

A tree is a listing and blobs, never a work tree: no link is followed, and no plain text lies on a disk. The
small trees here serve the offline analyzer (a folder) and callers that already hold bytes in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

MODE_FILE = 0o100644
MODE_EXECUTABLE = 0o100755
MODE_SYMLINK = 0o120000
MODE_SUBMODULE = 0o160000


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file, symlink or submodule. `path` is relative to the target path, `blob` its Git object id,
    `size` bytes.
    """

    path: str
    mode: int
    blob: str
    size: int


class Tree(Protocol):
    """The committed tree under a target path."""

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry below the target path, in any order."""

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""


@runtime_checkable
class RepositoryTree(Tree, Protocol):
    """A tree that also lets a kustomize build read bases beside the target path; nothing is written there."""

    target_path: str
    """Where the target path lies in the repository; empty for its root."""

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a regular file by its path in the repository (never a symlink), or None."""


def blob_id(data: bytes, *, like: str = "") -> str:
    """The Git object id of these bytes, in the hash that `like` (an id of the same repository) uses."""
    header = b"blob %d\x00" % len(data)
    if len(like) == 64:
        return hashlib.sha256(header + data).hexdigest()
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()


class MemoryTree:
    """A tree over bytes in memory."""

    def __init__(self, files: Mapping[str, bytes], *, links: Mapping[str, int] | None = None) -> None:
        """`files` maps paths to contents; `links` gives modes other than a regular file's."""
        self._blobs: dict[str, bytes] = {}
        self._entries: list[TreeEntry] = []
        modes = links or {}
        for path, data in sorted(files.items()):
            blob = blob_id(data)
            self._blobs[blob] = data
            self._entries.append(TreeEntry(path, modes.get(path, MODE_FILE), blob, len(data)))

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry, sorted by path."""
        return self._entries

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        return self._blobs[blob]


class MemoryRepository(MemoryTree):
    """A target path inside a repository over bytes in memory."""

    def __init__(self, files: Mapping[str, bytes], target_path: str) -> None:
        """`files` are those of the whole repository; `target_path` is a folder in it."""
        inside = f"{target_path}/" if target_path else ""
        super().__init__(
            {path.removeprefix(inside): data for path, data in files.items() if path.startswith(inside)}
        )
        self.target_path = target_path
        self._repository = files

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a file of the repository, or None."""
        return self._repository.get(path)


class DirectoryTree:
    """A folder on disk read as if it were committed; symlinks are listed and never followed.

    Unreadable entries are collected in `warnings` and the rest is listed, because a report about most of
    a folder is worth more than none; the write path never uses this class.
    """

    def __init__(self, root: Path, *, repository: Path | None = None, left_out: Collection[str] = ()) -> None:
        """`root` is the folder to read; `repository` a folder above it in which builds may look for bases;
        `left_out` are paths below the folder that are not read."""
        self.warnings: list[str] = []
        self._left_out = left_out
        self.target_path = ""
        self._repository = repository
        if repository is not None:
            inside = root.resolve().relative_to(repository.resolve()).as_posix()
            self.target_path = "" if inside == "." else inside
        self._paths: dict[str, Path] = {}
        self._entries: list[TreeEntry] = []
        self._walk(root, "")
        self._entries.sort(key=lambda entry: entry.path)

    def _walk(self, folder: Path, prefix: str) -> None:
        try:
            with os.scandir(folder) as listing:
                found = sorted(listing, key=lambda item: item.name)
        except OSError as error:
            self.warnings.append(f"{prefix or '.'}: {error.strerror}")
            return
        for item in found:
            path = f"{prefix}{item.name}"
            if path in self._left_out:
                continue
            if item.is_symlink():
                self._entries.append(TreeEntry(path, MODE_SYMLINK, f"disk:{path}", 0))
            elif item.is_dir(follow_symlinks=False):
                self._walk_folder(item, path)
            else:
                self._add_file(item, path)

    def _walk_folder(self, item: os.DirEntry[str], path: str) -> None:
        if item.name == ".git":
            return
        if (Path(item.path) / ".git").is_file():
            self._entries.append(TreeEntry(path, MODE_SUBMODULE, f"disk:{path}", 0))
            return
        self._walk(Path(item.path), path + "/")

    def _add_file(self, item: os.DirEntry[str], path: str) -> None:
        try:
            status = item.stat(follow_symlinks=False)
        except OSError as error:
            self.warnings.append(f"{path}: {error.strerror}")
            return
        mode = MODE_FILE if stat.S_ISREG(status.st_mode) else MODE_SYMLINK
        blob = f"disk:{path}"
        self._paths[blob] = Path(item.path)
        self._entries.append(TreeEntry(path, mode, blob, status.st_size))

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry, sorted by path."""
        return self._entries

    def read(self, blob: str) -> bytes:
        """The bytes of one file; an unreadable one counts as empty and is named in `warnings`."""
        path = self._paths[blob]
        try:
            return path.read_bytes()
        except OSError as error:
            self.warnings.append(f"{blob.removeprefix('disk:')}: {error.strerror}")
            return b""

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a regular file of the repository; links are not followed."""
        if self._repository is None:
            return None
        place = self._repository
        for part in path.split("/"):
            place = place / part
            if place.is_symlink():
                return None
        return place.read_bytes() if place.is_file() else None
