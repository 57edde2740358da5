"""What a draft decided: the result of every change, and the pending work of every file.

Nothing is decided here and nothing is written but to memory; `apply` turns the work into new bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .changes import Change, ChangeResult, Outcome, SkipReason
from .editing import EditMode, EditResult
from .filework import DesiredDocument, FileWork
from .inventory import Inventory
from .kustomize.edits import KustomizationEdits
from .kustomize.outside import is_outside
from .kustomize.removing import patch_documents
from .records import DocumentRef
from .tree import Tree


class Ledger:
    """Of one attempt. Changes go by their number in the batch, files by their path below the target."""

    def __init__(self, tree: Tree, inventory: Inventory) -> None:
        self.changes: Sequence[Change] = ()
        self.files: dict[str, bytes | None] = {}
        """After `apply`: the new bytes of the files that change, None for a removal."""
        self.results: dict[int, list[ChangeResult]] = {}
        self.owners: dict[str, set[int]] = {}
        self.grown: dict[str, dict[int, int]] = {}
        """By how many bytes each change makes each file longer."""
        self.unapplied: set[str] = set()
        """Kustomizations that could not take their edits."""
        self.works: dict[str, FileWork] = {}
        self._tree = tree
        self._inventory = inventory
        self._editors: dict[tuple[str, int], list[int]] = {}
        self._kustomizations: dict[str, KustomizationEdits] = {}

    def note(
        self,
        number: int,
        outcome: Outcome,
        *,
        path: str = "",
        code: str = "",
        message: str = "",
        rule: str = "",
    ) -> None:
        """Add a result of a change."""
        result = ChangeResult(self.changes[number], outcome, path, code, message, rule)
        self.results.setdefault(number, []).append(result)

    def skip(self, number: int, code: SkipReason, message: str, path: str = "") -> None:
        """Note that a change is left out, and why."""
        self.note(number, Outcome.SKIPPED, path=path, code=code.value, message=message)

    def own(self, number: int, *paths: str) -> None:
        """A change wants something of these files."""
        for path in paths:
            self.owners.setdefault(path, set()).add(number)

    def grows(self, number: int, path: str, size: int) -> None:
        """A change makes a file longer by so many bytes."""
        grown = self.grown.setdefault(path, {})
        grown[number] = grown.get(number, 0) + size

    def surplus(self, path: str, excess: int) -> set[int]:
        """The changes to leave out so that a file is shorter by ``excess`` bytes: those that add most. All
        that want something of it where that is not enough.
        """
        found: set[int] = set()
        for number, size in sorted(self.grown.get(path, {}).items(), key=lambda item: (-item[1], item[0])):
            if excess <= 0 or size <= 0:
                break
            found.add(number)
            excess -= size
        return found if excess <= 0 else self.owners.get(path, set())

    def read(self, path: str) -> bytes:
        """The bytes of an indexed file before the batch, also of a base outside the path."""
        if path in self._inventory.outside.files:
            return self._inventory.outside.files[path]
        return self._tree.read(self._inventory.files[path].entry.blob)

    def work(self, path: str) -> FileWork:
        """The pending work of a file; a new one starts from nothing."""
        work = self.works.get(path)
        if work is None:
            original = self.read(path) if path in self._inventory.files else None
            work = self.works[path] = FileWork(path, original)
        return work

    def edit(self, number: int, ref: DocumentRef, desired: DesiredDocument) -> None:
        """A change edits a document; its result is noted by `apply`."""
        self.work(ref.path).edits[ref.fact.index] = desired
        self._editors.setdefault((ref.path, ref.fact.index), []).append(number)
        self.own(number, ref.path)

    def kustomization(self, path: str, directory: str) -> KustomizationEdits:
        """The pending edits of a kustomization."""
        return self._kustomizations.setdefault(path, KustomizationEdits(path, directory))

    def merge(self, number: int, edits: KustomizationEdits) -> None:
        """Add a change's edits of a kustomization, and the removal of files that it needs no more."""
        self.kustomization(edits.path, edits.directory).merge(edits)
        self.own(number, edits.path, *edits.unused_files)
        for path in edits.unused_files:
            self.work(path).removals.update(patch_documents(self._inventory, path))

    def apply(self) -> None:
        """Make the files' new bytes; a file that vanishes leaves the kustomizations that list it."""
        for path, work in sorted(self.works.items()):
            data = work.apply(partial(self._edited, path))
            if data is None and work.original is not None:
                for kustomization in self._inventory.context.listing(path):
                    if is_outside(kustomization.path):
                        continue
                    edits = self.kustomization(kustomization.path, kustomization.directory)
                    edits.removed.add(path)
                    for number in self.owners.get(path, ()):
                        self.own(number, kustomization.path)
            if data != work.original:
                self.files[path] = data
        for path, edits in sorted(self._kustomizations.items()):
            if edits.empty:
                continue
            original = self.read(path)
            data = edits.apply(original)
            if data is None:
                self.unapplied.add(path)
            elif data != original:
                self.files[path] = data

    def _edited(self, path: str, index: int, result: EditResult, growth: int) -> None:
        for number in self._editors.get((path, index), ()):
            self.grows(number, path, growth)
            if result.mode is EditMode.NO_CHANGE:
                if number not in self.results:
                    self.note(number, Outcome.UNCHANGED, path=path)
            elif result.mode is EditMode.SKIPPED:
                self.skip(
                    number, SkipReason.NOT_EDITABLE, result.diagnostic or "cannot be edited safely", path
                )
            elif not any(found.path == path for found in self.results.get(number, ())):
                self.note(number, Outcome.UPDATED, path=path, message=result.diagnostic or "")
