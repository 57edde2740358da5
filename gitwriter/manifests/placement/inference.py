"""Where a new object goes because its siblings already show where such objects go.

Siblings are documents of the same type (any version), sealed like the new object. Those in its own namespace
are asked first, then all of them. Either one file holds them (a bundle) or each has a file of its own
(singles); the more frequent habit wins, ties go to singles. Files that hold a document we cannot edit are no
destination. Ties are broken by the smallest path, so the same folder always gives the same answer.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container
from dataclasses import dataclass

from ..inventory import Inventory
from .habits import Around, Habit, TypeKey
from .names import escape_segment
from .templates import Subject


@dataclass(frozen=True, slots=True)
class Inferred:
    """The place that the siblings suggest; `append` when it is their bundle. `cohort` is how many were
    asked.
    """

    path: str
    append: bool
    cohort: int


def infer(inventory: Inventory, subject: Subject) -> Inferred | None:
    """The siblings' place for a new object, or None where they show no habit."""
    key = TypeKey(subject.group, subject.kind, subject.sensitive)
    everywhere = inventory.habit(key, None)
    builds = inventory.context.by_directory
    if not subject.namespaced:
        return _choose(everywhere, subject, across=False, builds=builds)
    own = inventory.habit(key, subject.namespace)
    found = _choose(own, subject, across=False, builds=builds)
    if found is None and own.members != everywhere.members:
        found = _choose(everywhere, subject, across=True, builds=builds)
    return found


def _choose(habit: Habit, subject: Subject, *, across: bool, builds: Container[str]) -> Inferred | None:
    if not habit.members:
        return None
    bundles = habit.wide if across else habit.bundles
    directory = _directory(habit, subject, across=across, builds=builds)
    weight = habit.singles if directory is not None else 0
    if bundles and not subject.sensitive:
        best = max(bundles.values())
        if best > weight:
            path = min(path for path, count in bundles.items() if count == best)
            return Inferred(path, True, habit.members)
    if directory is None:
        return None
    fresh = directory not in habit.folders
    path = posixpath.join(directory, _file_name(habit, subject, fresh=fresh))
    return Inferred(path, False, habit.members)


def _directory(habit: Habit, subject: Subject, *, across: bool, builds: Container[str]) -> str | None:
    """The folder; that of an object in a folder of its own only where no build would have to be made in
    it."""
    if not habit.singles:
        return None
    if not across:
        if habit.singles > 1 and None not in habit.homes and not any(map(builds.__contains__, habit.folders)):
            most = max(habit.homes.values())
            home = min(home for home, count in habit.homes.items() if count == most and home is not None)
            return posixpath.join(home, escape_segment(subject.name))
        most = max(habit.folders.values())
        return min(folder for folder, count in habit.folders.items() if count == most)
    if len(habit.patterns) == 1 and subject.namespace and (around := next(iter(habit.patterns))) is not None:
        return posixpath.join(around[0], subject.namespace, around[1]).rstrip("/")
    if len(habit.folders) == 1 and set(habit.patterns) <= {None}:
        return next(iter(habit.folders))
    return None


def _file_name(habit: Habit, subject: Subject, *, fresh: bool) -> str:
    """The new file's name; in a ``fresh`` folder it may be that of its siblings in theirs."""
    suffix = subject.suffix
    if habit.singles and habit.short_suffixes == habit.singles:
        suffix = suffix.removesuffix(".yaml") + ".yml"
    if ("", "") not in habit.stems and fresh and habit.singles > 1 and len(habit.words) == 1:
        return f"{next(iter(habit.words))}{suffix}"
    before, after = _around(habit, subject)
    return f"{before}{escape_segment(subject.name)}{after}{suffix}"


def _around(habit: Habit, subject: Subject) -> Around:
    """What stands around the objects' names in all their files: the kind's name, also of a single file, or
    whatever several files have in common."""
    shared = sorted(around for around, count in habit.stems.items() if count == habit.singles)
    words = {subject.kind.lower(), subject.resource}
    for around in shared:
        if around == ("", "") or habit.singles > 1 or "".join(around).strip("-._").lower() in words:
            return around
    return "", ""
