"""Where the objects of a folder are, counted so that a new one finds its siblings' habit at once.

A folder of ten thousand objects gets one new object at a time. So the counts follow the inventory: they are
updated from the files that differ, whichever inventory of the folder is asked, and a lookup costs what
differs, not what is there. They are derived from the inventory alone, so losing them loses nothing.
"""

from __future__ import annotations

import posixpath
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..facts import DocumentFact
from ..kustomize.context import KustomizeContext
from ..records import FileRecord, namespace_of
from ..roles import SEALED_SUFFIXES, Role

Around = tuple[str, str]
"""What stands before and after a name."""


class TypeKey(NamedTuple):
    """Group, kind, and whether the documents are encrypted."""

    group: str
    kind: str
    sealed: bool


class _Cell(NamedTuple):
    """What one file says about one type in one namespace, or everywhere (`place` is None then).

    `name` and `namespace` are those of its first member; they count in files of a single document only.
    """

    type: TypeKey
    place: str | None
    name: str
    namespace: str
    members: int
    namespaces: int
    documents: int
    other_types: bool


@dataclass(slots=True)
class Habit:
    """The files of one type in one namespace, or of one type everywhere.

    `stems` counts how names of single-document files are made of the objects' names, `words` the names
    themselves, `patterns` what stands around the object's own namespace in its folder (None where it is not
    there), `homes` the folders above one that has the object's name (None where it has another). `bundles`
    maps files of several documents to how many are of this type, `wide` those of them that span namespaces.
    """

    members: int = 0
    singles: int = 0
    folders: Counter[str] = field(default_factory=Counter)
    stems: Counter[Around] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    homes: Counter[str | None] = field(default_factory=Counter)
    patterns: Counter[Around | None] = field(default_factory=Counter)
    short_suffixes: int = 0
    bundles: dict[str, int] = field(default_factory=dict)
    wide: dict[str, int] = field(default_factory=dict)

    def count(self, path: str, cell: _Cell, sign: int) -> None:
        """Add (or with -1 take off) what a file says."""
        self.members += sign * cell.members
        if cell.documents == 1:
            self.singles += sign
            self.short_suffixes += sign * path.endswith(".yml")
            folder = posixpath.dirname(path)
            _count(self.folders, folder, sign)
            _count(self.words, stem_of(path), sign)
            _count(self.homes, _home(folder, cell.name), sign)
            _count(self.patterns, _around_namespace(folder, cell.namespace), sign)
            for around in _around_name(path, cell.name):
                _count(self.stems, around, sign)
        elif cell.members > 1 or not cell.other_types:
            _keep(self.bundles, path, cell.members, sign)
            if cell.namespaces > 1:
                _keep(self.wide, path, cell.members, sign)


NO_HABIT = Habit()
_JOINTS = "-._"
"""What joins an object's name to the rest of a file's name."""


class Habits:
    """The habits of one folder, shared by all inventories that were derived from each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: Mapping[str, FileRecord] = {}
        self._frames: dict[str, Hashable] = {}
        self._cells: dict[str, tuple[_Cell, ...]] = {}
        self._habits: dict[tuple[TypeKey, str | None], Habit] = {}

    def of(
        self, files: Mapping[str, FileRecord], context: KustomizeContext, key: TypeKey, namespace: str | None
    ) -> Habit:
        """The habit of a type in a namespace, or everywhere with None. Read it before the next question.

        ``files`` is one inventory's own mapping; another inventory asks with another.
        """
        with self._lock:
            if self._files is not files:
                self._follow(files, context)
            return self._habits.get((key, namespace), NO_HABIT)

    def _follow(self, after: Mapping[str, FileRecord], context: KustomizeContext) -> None:
        before = self._files
        frames: dict[str, Hashable] = dict(context.reaches)
        for path in context.patches:
            frames[path] = "patch"
        moved = (
            frozenset()
            if frames == self._frames
            else {path for path, _frame in self._frames.items() ^ frames.items()}
        )
        gone = [path for path in before if path not in after]
        fresh = [
            path
            for path, record in after.items()
            if path in moved or not _says_the_same(before.get(path), record)
        ]
        for path in (*gone, *fresh):
            self._count(path, self._cells.pop(path, ()), -1)
        for path in fresh:
            cells = tuple(_cells(context, path, after[path]))
            if cells:
                self._cells[path] = cells
                self._count(path, cells, 1)
        self._files, self._frames = after, frames

    def _count(self, path: str, cells: tuple[_Cell, ...], sign: int) -> None:
        for cell in cells:
            self._habits.setdefault((cell.type, cell.place), Habit()).count(path, cell, sign)


def _says_the_same(old: FileRecord | None, new: FileRecord) -> bool:
    return old is new or (old is not None and old.facts is new.facts and old.role is new.role)


def _cells(context: KustomizeContext, path: str, record: FileRecord) -> Iterator[_Cell]:
    """What a file says; nothing where no new object may join or follow it."""
    facts = record.facts
    if record.role is not Role.MANIFEST or facts is None or path in context.patches:
        return
    if context.fan_in(path) or any(fact.constructs for fact in facts.documents):
        return
    documents = [fact for fact in facts.documents if fact.is_krm]
    by_type: dict[TypeKey, list[DocumentFact]] = {}
    for fact in documents:
        by_type.setdefault(TypeKey(fact.group, fact.kind, fact.has_sops), []).append(fact)
    kinds = {(key.group, key.kind) for key in by_type}
    for key, facts_of in by_type.items():
        by_place: dict[str | None, list[tuple[str, str]]] = {None: []}
        for fact in facts_of:
            namespace = namespace_of(context, path, fact)
            by_place[None].append((fact.name, namespace))
            by_place.setdefault(namespace, []).append((fact.name, namespace))
        for place, found in by_place.items():
            name, namespace = found[0]
            spans = len({where for _name, where in found})
            yield _Cell(key, place, name, namespace, len(found), spans, len(documents), len(kinds) > 1)


def stem_of(path: str) -> str:
    """A file's name without the suffix of a manifest."""
    name = posixpath.basename(path)
    for suffix in (*SEALED_SUFFIXES, ".yaml", ".yml"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _around_name(path: str, name: str) -> Iterator[Around]:
    stem = stem_of(path)
    if stem == name:
        yield "", ""
        return
    before, after = stem.removesuffix(name), stem.removeprefix(name)
    if before != stem and before[-1] in _JOINTS:
        yield before, ""
    if after != stem and after[0] in _JOINTS:
        yield "", after
    before, found, after = stem.partition(name)
    if found and before and after and before[-1] in _JOINTS and after[0] in _JOINTS:
        yield before, after


def _home(folder: str, name: str) -> str | None:
    """The folder above one with the object's own name."""
    above, last = posixpath.split(folder)
    return above if last == name else None


def _around_namespace(folder: str, namespace: str) -> Around | None:
    """What stands before and after the object's own namespace in its folder, if it is there."""
    parts = folder.split("/")
    if not namespace or namespace not in parts:
        return None
    at = parts.index(namespace)
    return "/".join(parts[:at]), "/".join(parts[at + 1 :])


def _count(counter: Counter[Any], key: Hashable, sign: int) -> None:
    counter[key] += sign
    if not counter[key]:
        del counter[key]


def _keep(found: dict[str, int], path: str, members: int, sign: int) -> None:
    if sign > 0:
        found[path] = members
    else:
        found.pop(path, None)
