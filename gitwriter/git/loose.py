"""Commits of a few files, written as loose objects without a child process.

A change of one object is three kinds of small files in the clone: its blob, the trees on its way, the commit.
Starting a program costs more than that work, and in a folder of ten thousand files `fast-import` takes
several times as long as reading and writing that one tree. Objects are made here as Git defines them: the id
is the hash of header and content, a tree is sorted as if folders ended in a slash, and an empty folder is no
entry. Each file is written beside its place and renamed, so a reader sees all of an object or none; what a
crash leaves is removed when the clone is opened next.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from gitwriter.git.errors import CloneDamaged, CloneUnusable

_FILE, _EXECUTABLE, _FOLDER = b"100644", b"100755", b"40000"
_ENTRY = {size: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL) for size in (20, 32)}
_HEX = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


Entry = tuple[bytes, bytes]
"""What a name in a tree stands for: mode as Git writes it, and the object id. A plain tuple: a folder of ten
thousand files has as many."""


class _Node:
    """Changes below one folder: entries by name (None = gone), and folders that change inside."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry | None] = {}
        self.folders: dict[bytes, _Node] = {}


class LooseObjects:
    """Writes objects into the clone at ``path``; ``read`` returns the content of any object in it by id."""

    def __init__(self, path: Path, read: Callable[[str], bytes]) -> None:
        self._objects = path / "objects"
        self._read = read
        self._trees: dict[bytes, bytes] = {}

    def write(self, kind: bytes, content: bytes, *, sha256: bool = False) -> str:
        """Store an object and return its id. Raises CloneUnusable when the disk is full or not writable."""
        whole = b"%s %d\0" % (kind, len(content)) + content
        digest = hashlib.sha256(whole) if sha256 else hashlib.sha1(whole, usedforsecurity=False)
        oid = digest.hexdigest()
        target = self._objects / oid[:2] / oid[2:]
        if not target.exists():
            self._store(target, zlib.compress(whole, 1))
        return oid

    def tree_of(self, commit: str) -> str:
        """The tree of a commit. Raises CloneDamaged."""
        head = self._read(commit)[:69]
        tree = head[5:].split(b"\n", 1)[0].decode("ascii", "replace")
        if not head.startswith(b"tree ") or not _HEX.fullmatch(tree):
            raise CloneDamaged("the clone holds a commit that cannot be read; it is fetched anew")
        return tree

    def edit(
        self, tree: str | None, files: Mapping[str, bytes | None], *, executable: Collection[str] = ()
    ) -> str:
        """The tree after some files were written or (None) removed; all its objects are stored.

        ``tree`` None is the empty one. Removals come first, as in a commit of `fast-import`. Raises
        CloneDamaged for a tree that cannot be read, CloneUnusable when the disk is full or not writable.
        """
        sha256 = tree is not None and len(tree) == 64
        current = bytes.fromhex(tree) if tree is not None else None
        removals = {path: None for path, content in files.items() if content is None}
        for changes in (removals, self._blobs(files, executable, sha256=sha256)):
            if changes:
                current = self._apply(current, _nodes(changes), sha256=sha256)
        if current is None:
            return self._write_tree(b"", sha256=sha256).hex()
        return current.hex()

    def _blobs(
        self, files: Mapping[str, bytes | None], executable: Collection[str], *, sha256: bool
    ) -> dict[str, Entry | None]:
        return {
            path: (
                _EXECUTABLE if path in executable else _FILE,
                bytes.fromhex(self.write(b"blob", content, sha256=sha256)),
            )
            for path, content in files.items()
            if content is not None
        }

    def _apply(self, tree: bytes | None, node: _Node, *, sha256: bool) -> bytes | None:
        """The id of a changed tree, None when nothing is left in it."""
        entries = self._entries(tree)
        fresh = False
        changes = dict(node.entries)
        for name, below in node.folders.items():
            if name in changes:
                continue  # it goes as a whole
            known = entries.get(name)
            start = known[1] if known is not None and _is_folder(known) else None
            changed = self._apply(start, below, sha256=sha256)
            if changed is not None:
                changes[name] = (_FOLDER, changed)
            elif start is not None:
                changes[name] = None
        for name, entry in changes.items():
            if entry is None:
                entries.pop(name, None)
                continue
            known = entries.get(name)
            fresh |= known is None or _is_folder(known) != _is_folder(entry)
            entries[name] = entry
        if not entries:
            return None
        ordered = sorted(entries.items(), key=_order) if fresh else entries.items()
        content = b"".join([b"%s %s\0%s" % (mode, name, oid) for name, (mode, oid) in ordered])
        return self._write_tree(content, sha256=sha256)

    def _entries(self, tree: bytes | None) -> dict[bytes, Entry]:
        if tree is None:
            return {}
        content = self._trees.get(tree)
        if content is None:
            content = self._read(tree.hex())
        found = {name: (mode, oid) for mode, name, oid in _ENTRY[len(tree)].findall(content)}
        read = sum(len(mode) + len(name) + 2 + len(tree) for name, (mode, _oid) in found.items())
        if read != len(content):
            raise CloneDamaged("the clone holds a folder that cannot be read; it is fetched anew")
        return found

    def _write_tree(self, content: bytes, *, sha256: bool) -> bytes:
        oid = bytes.fromhex(self.write(b"tree", content, sha256=sha256))
        self._trees[oid] = content
        return oid

    def _store(self, target: Path, data: bytes) -> None:
        fresh = target.with_name(f"tmp_obj_{target.name[:12]}")
        try:
            target.parent.mkdir(exist_ok=True, mode=0o750)
            with open(fresh, "wb", opener=_private) as file:
                file.write(data)
            fresh.replace(target)
        except OSError as error:
            raise CloneUnusable(
                f"the clone {self._objects.parent} cannot be written: {error.strerror}; check space and "
                "permissions"
            ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o440)


def _is_folder(entry: Entry) -> bool:
    return entry[0].lstrip(b"0") == _FOLDER  # some tools write it with a leading zero


def _order(item: tuple[bytes, Entry]) -> bytes:
    """Git sorts a folder as if its name ended in a slash."""
    name, entry = item
    return name + b"/" if _is_folder(entry) else name


def _nodes(changes: Mapping[str, Entry | None]) -> _Node:
    root = _Node()
    for path, entry in changes.items():
        *folders, name = path.encode("utf-8", "surrogateescape").split(b"/")
        node = root
        for folder in folders:
            node = node.folders.setdefault(folder, _Node())
        node.entries[name] = entry
    return root
