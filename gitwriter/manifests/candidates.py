"""Folders of a repository that could be targets of their own, each judged inside the repository.

A folder is one when a build starts in it or manifests that no build reads lie in it; so is the folder above
several of the latter, where it is accepted as a whole. A large repository has more than a thousand of them,
so what is the same for all is prepared once.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .facts import IndexCache
from .gate import check
from .guards import untouchable_text
from .inventory import Inventory, outside_documents
from .issues import Issue, IssueKind
from .kustomize.outside import is_outside
from .records import DocumentRef
from .roles import Role
from .tree import Tree, TreeEntry

STRUCTURAL = (IssueKind.UNSUPPORTED_KUSTOMIZE, IssueKind.MIXED_MANAGED_ALLOWLISTED)
MAX_JUDGED = 2000


class Layout(StrEnum):
    """How a folder is laid out."""

    EMPTY = "empty"
    PLAIN = "plain"
    KUSTOMIZE_SINGLE = "kustomize-single"
    KUSTOMIZE_OVERLAY = "kustomize-overlay"
    REFUSED_STRUCTURAL = "refused-structural"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that could be a target of its own, judged inside its repository."""

    path: str
    layout: Layout
    accepted: bool
    issues: tuple[Issue, ...]
    rendered: int
    editable: int
    types: Mapping[str, tuple[str, ...]]
    reads: tuple[str, ...]
    inside: str = ""


def layout_of(inventory: Inventory) -> Layout:
    """The layout of a folder: by what its kustomizations reach, if it has any."""
    if any(issue.kind in STRUCTURAL for issue in check(inventory)):
        return Layout.REFUSED_STRUCTURAL
    own = [item for item in inventory.kustomization_files() if not is_outside(item.path)]
    if any(
        not _is_below(kustomization.directory, posixpath.dirname(reach.root))
        for kustomization in inventory.kustomization_files()
        for reach in inventory.context.kustomization_reaches.get(kustomization.path, ())
    ):
        return Layout.KUSTOMIZE_OVERLAY
    if own:
        return Layout.KUSTOMIZE_SINGLE
    managed = any(record.role is Role.MANIFEST for record in inventory.files.values())
    return Layout.PLAIN if managed else Layout.EMPTY


def _is_below(folder: str, top: str) -> bool:
    return not is_outside(folder) and (not top or folder == top or folder.startswith(f"{top}/"))


class _Repository:
    """A tree whose folders can be read as trees of their own."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.entries = sorted(tree.entries(), key=lambda entry: entry.path)
        self.paths = [entry.path for entry in self.entries]
        self.blobs = {entry.path: entry.blob for entry in self.entries if entry.mode & 0o170000 == 0o100000}

    def below(self, folder: str) -> list[TreeEntry]:
        """The entries of a folder, by their paths in it."""
        if not folder:
            return self.entries
        prefix = f"{folder}/"
        first, last = (
            bisect_left(self.paths, prefix),
            bisect_left(self.paths, f"{folder}0"),
        )  # "0" follows "/"
        return [replace(entry, path=entry.path[len(prefix) :]) for entry in self.entries[first:last]]


class _SubTree:
    """A folder of a tree as a tree of its own, which may read the rest as its repository."""

    def __init__(self, repository: _Repository, path: str) -> None:
        self.target_path = path
        self._repository = repository
        self._entries = repository.below(path)

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry below the folder."""
        return self._entries

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        return self._repository.tree.read(blob)

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a file of the whole tree, or None."""
        blob = self._repository.blobs.get(path)
        return self._repository.tree.read(blob) if blob is not None else None


def candidates(tree: Tree, inventory: Inventory, cache: IndexCache) -> tuple[tuple[Candidate, ...], int]:
    """The candidates in the order of their paths, and how many folders were too many to be judged."""
    context = inventory.context
    folders = {posixpath.dirname(root) for root in context.roots}
    for ref in inventory.documents():
        folder = posixpath.dirname(ref.path)
        if ref.path not in context.reaches and folder not in context.by_directory:
            folders.add(folder)
    folders = {folder for folder in folders if not is_outside(folder)}
    parents = _parents(folders) - folders
    repository = _Repository(tree)
    found: list[Candidate] = []
    listed = sorted(folders)
    for folder in sorted({*listed[:MAX_JUDGED], *parents}):
        candidate = _judged(repository, folder, inventory, cache)
        if folder in parents and not (candidate.accepted and candidate.layout is Layout.PLAIN):
            continue
        found.append(candidate)
    paths = {candidate.path for candidate in found}
    return tuple(replace(one, inside=_holder(one.path, paths)) for one in found), len(listed[MAX_JUDGED:])


def _parents(folders: Iterable[str]) -> set[str]:
    """Folders directly above several, without the root."""
    above = Counter(posixpath.dirname(folder) for folder in folders if folder)
    return {parent for parent, children in above.items() if parent and children > 1}


def _holder(path: str, paths: set[str]) -> str:
    """The nearest candidate that a folder lies in; empty where there is none."""
    if path == ".":
        return ""
    above = posixpath.dirname(path)
    while above and above not in paths:
        above = posixpath.dirname(above)
    return above or ("." if "." in paths else "")


def _judged(repository: _Repository, folder: str, inventory: Inventory, cache: IndexCache) -> Candidate:
    found = Inventory.scan(_SubTree(repository, folder), cache=cache, limits=inventory.limits)
    issues = check(found)
    types: dict[str, set[str]] = {}
    editable = rendered = 0
    for ref in (*found.documents(), *_outside_documents(found)):
        rendered += 1
        editable += untouchable_text(ref.path, ref.fact) is None and not is_outside(ref.path)
        types.setdefault(found.effective_namespace(ref), set()).add(f"{ref.fact.api_version}/{ref.fact.kind}")
    return Candidate(
        path=folder or ".",
        layout=layout_of(found),
        accepted=not issues,
        issues=issues,
        rendered=rendered,
        editable=editable,
        types={namespace: tuple(sorted(names)) for namespace, names in sorted(types.items())},
        reads=tuple(
            sorted(
                posixpath.normpath(posixpath.join(folder, item.directory))
                for item in found.outside.kustomizations.values()
            )
        ),
    )


def _outside_documents(inventory: Inventory) -> Iterable[DocumentRef]:
    """Documents of bases outside the folder that its builds render."""
    for ref in outside_documents(inventory.outside, inventory.limits):
        if ref.path in inventory.context.reaches:
            yield ref
