"""A target's folder in a commit, for the manifest planner, with its inventory kept between commits.

Listing and indexing a whole folder happens once per process and target; after that the inventory follows
the differences between two trees, so one change costs what the change costs. Blobs that this attempt has
just made are not readable in the clone yet and are served from memory.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitwriter.git.objects import TreeEntry as GitEntry
from gitwriter.git.repository import BareRepository
from gitwriter.manifests.facts import IndexCache
from gitwriter.manifests.inventory import Inventory
from gitwriter.manifests.roles import MANIFEST_SUFFIXES
from gitwriter.manifests.tree import MODE_EXECUTABLE, MODE_FILE, TreeEntry, blob_id
from gitwriter.unchanged import Unchanged

logger = logging.getLogger(__name__)

ROOT = "."
_KEPT_INVENTORIES = 64
_READ_AHEAD_BYTES = 32 * 2**20
_FACTS_FILE = "index.json"
_UNCHANGED_FILE = "unchanged.json"
_SAVE_AFTER = 500


def join_path(root: str, path: str) -> str:
    """A path from the repository's root, given one from the target path."""
    return path if root in {"", ROOT} else f"{root}/{path}"


def _below(root: str, path: str) -> str:
    return path if root in {"", ROOT} else path[len(root) + 1 :]


class CommitTree:
    """The files below a target path in one commit (None = an unborn branch)."""

    def __init__(self, repository: BareRepository, commit: str | None, root: str) -> None:
        self._repository = repository
        self._commit = commit
        self._root = root
        self._made: dict[str, bytes] = {}
        self._ahead: dict[str, bytes] = {}
        self._entries: list[TreeEntry] | None = None

    @property
    def target_path(self) -> str:
        """Where the target path lies in the repository; empty for its root."""
        return "" if self._root == ROOT else self._root

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry below the target path."""
        if self._commit is None:
            return []
        if self._entries is None:
            listed = self._repository.tree_entries(self._commit, self._root)
            self._entries = [self._entry(found) for found in listed]
        return self._entries

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        for known in (self._made, self._ahead):
            if blob in known:
                return known[blob]
        return self._repository.read_blob(blob)

    @contextmanager
    def read_ahead(self, entries: Iterable[TreeEntry]) -> Iterator[None]:
        """Hold the blobs of some entries in memory during the block, up to a limit.

        A round trip to git for each blob costs more than the blob: both processes wake up for it.
        """
        wanted, size = [], 0
        for entry in entries:
            size += entry.size
            if size > _READ_AHEAD_BYTES:
                break
            wanted.append(entry.blob)
        self._ahead = self._repository.read_blobs(blob for blob in wanted if blob not in self._made)
        try:
            yield
        finally:
            self._ahead = {}

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a regular file by its path in the repository, or None."""
        if self._commit is None:
            return None
        for found in self._repository.tree_entries(self._commit, path):
            if found.path == path and found.regular:
                return self._repository.read_blob(found.blob)
        return None

    def remember(self, files: Mapping[str, bytes | None]) -> None:
        """Serve what was just committed from memory."""
        for content in files.values():
            if content is not None:
                self._made[blob_id(content)] = content

    def _entry(self, found: GitEntry) -> TreeEntry:
        return TreeEntry(_below(self._root, found.path), int(found.mode, 8), found.blob, found.size)


@dataclass(frozen=True, slots=True)
class _Known:
    commit: str
    inventory: Inventory


class InventoryShelf:
    """The inventories of one process, by clone and target path; the least recently used ones are dropped.

    What they are made of, facts by blob id and the comparisons of replays, is kept in ``folder`` (None:
    nowhere) between processes. It is a cache: several processes may share the folder, and the last to save
    wins.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._cache = IndexCache() if folder is None else IndexCache.load(folder / _FACTS_FILE)
        self.unchanged = Unchanged() if folder is None else Unchanged.load(folder / _UNCHANGED_FILE)
        self._saving = threading.Lock()
        self._saved = self._learned
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._direct: dict[tuple[str, str], str] = {}

    def get(
        self, repository: BareRepository, tree: CommitTree, *, commit: str | None, root: str
    ) -> Inventory:
        """The inventory of ``root`` in ``commit``, from the nearest one that is known."""
        key = (str(repository.path), root)
        known = self._known.get(key)
        if commit is None:
            return Inventory.scan(tree, cache=self._cache)
        if known is None or not repository.has_commit(known.commit):
            inventory = self._scan(tree)
        elif known.commit == commit:
            inventory = known.inventory
        else:
            inventory = self._follow(repository, known, commit=commit, root=root, tree=tree)
        self.put(repository, root=root, commit=commit, inventory=inventory)
        return inventory

    @property
    def _learned(self) -> int:
        return self._cache.learned + self.unchanged.learned

    def save(self, *, all_of_it: bool = False) -> None:
        """Write the caches to disk when much was learned since the last time (with ``all_of_it``: anything).

        A disk that is full costs the next process time and nothing else, so it is only logged.
        """
        fresh, known = self._learned - self._saved, len(self._cache) + len(self.unchanged)
        enough = 1 if all_of_it else max(_SAVE_AFTER, known // 20)  # so that saving stays a small share
        if self._folder is None or fresh < enough or not self._saving.acquire(blocking=False):
            return
        try:
            self._saved = self._learned
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._cache.save(self._folder / _FACTS_FILE)
            self.unchanged.save(self._folder / _UNCHANGED_FILE)
        except OSError as error:
            logger.warning("the index of manifests could not be saved", extra={"detail": str(error.strerror)})
        finally:
            self._saving.release()

    def _scan(self, tree: CommitTree) -> Inventory:
        fresh = [
            entry
            for entry in tree.entries()
            if entry.path.endswith(MANIFEST_SUFFIXES)
            and entry.mode in (MODE_FILE, MODE_EXECUTABLE)
            and self._cache.get(entry.blob) is None
        ]
        with tree.read_ahead(fresh):
            return Inventory.scan(tree, cache=self._cache)

    def put(self, repository: BareRepository, *, root: str, commit: str, inventory: Inventory) -> None:
        """Remember the inventory of a commit."""
        key = (str(repository.path), root)
        self._known[key] = _Known(commit, inventory)
        self._known.move_to_end(key)
        while len(self._known) > _KEPT_INVENTORIES:
            self._known.popitem(last=False)

    def is_direct(self, repository: BareRepository, *, root: str, commit: str) -> bool:
        """Whether every part of ``root`` that exists in ``commit`` is known to be a folder."""
        return self._direct.get((str(repository.path), root)) == commit

    def note_direct(self, repository: BareRepository, *, root: str, commit: str) -> None:
        """Every part of ``root`` that exists in ``commit`` is a folder."""
        if len(self._direct) >= _KEPT_INVENTORIES:
            self._direct.clear()
        self._direct[(str(repository.path), root)] = commit

    def _follow(
        self, repository: BareRepository, known: _Known, *, commit: str, root: str, tree: CommitTree
    ) -> Inventory:
        changed: list[TreeEntry] = []
        removed: list[str] = []
        differences = repository.diff_entries(known.commit, commit, root)
        sizes = repository.blob_sizes({found.blob for found in differences if found.regular})
        for difference in differences:
            path = _below(root, difference.path)
            if difference.deleted:
                removed.append(path)
                continue
            mode, size = int(difference.mode, 8), sizes.get(difference.blob, 0)
            changed.append(TreeEntry(path, mode, difference.blob, size))
        if not changed and not removed:
            return known.inventory
        return known.inventory.updated(changed, tree.read, removed=removed)
