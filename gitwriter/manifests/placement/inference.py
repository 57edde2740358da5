"""Where a new object goes because its siblings already show where such objects go.

Siblings are documents of the same type (any version), sealed like the new object. Those in its own namespace
are asked first, then all of them. Either one file holds them (a bundle) or each has a file of its own
(singles); the more frequent habit wins, ties go to singles. Files that hold a document we cannot edit are no
destination. Ties are broken by the smallest path, so the same folder always gives the same answer.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
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
    everywhere = inventory.habits.of(inventory, key, None)
    if not subject.namespaced:
        return _choose(everywhere, subject, across=False)
    own = inventory.habits.of(inventory, key, subject.namespace)
    found = _choose(own, subject, across=False)
    if found is None and own.members != everywhere.members:
        found = _choose(everywhere, subject, across=True)
    return found


def _choose(habit: Habit, subject: Subject, *, across: bool) -> Inferred | None:
    if not habit.members:
        return None
    bundles = habit.wide if across else habit.bundles
    directory = _directory(habit, subject, across=across)
    weight = habit.singles if directory is not None else 0
    if bundles and not subject.sensitive:
        best = max(bundles.values())
        if best > weight:
            path = min(path for path, count in bundles.items() if count == best)
            return Inferred(path, True, habit.members)
    if directory is None:
        return None
    return Inferred(posixpath.join(directory, _file_name(habit, subject)), False, habit.members)


def _directory(habit: Habit, subject: Subject, *, across: bool) -> str | None:
    if not habit.singles:
        return None
    if not across:
        most = max(habit.folders.values())
        return min(folder for folder, count in habit.folders.items() if count == most)
    if len(habit.patterns) == 1 and subject.namespace and (around := next(iter(habit.patterns))) is not None:
        return posixpath.join(around[0], subject.namespace, around[1]).rstrip("/")
    if len(habit.folders) == 1 and set(habit.patterns) <= {None}:
        return next(iter(habit.folders))
    return None


_PATTERNS: tuple[Callable[[Subject], Around], ...] = (
    lambda _subject: ("", ""),
    lambda subject: (f"{subject.kind.lower()}-", ""),
    lambda subject: ("", f"-{subject.kind.lower()}"),
    lambda subject: (f"{subject.resource}-", ""),
)


def _file_name(habit: Habit, subject: Subject) -> str:
    before, after = next(
        (
            around
            for around in (pattern(subject) for pattern in _PATTERNS)
            if habit.stems[around] == habit.singles
        ),
        ("", ""),
    )
    suffix = subject.suffix
    if habit.singles and habit.short_suffixes == habit.singles:
        suffix = suffix.removesuffix(".yaml") + ".yml"
    return f"{before}{escape_segment(subject.name)}{after}{suffix}"
