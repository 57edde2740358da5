"""Where a new object goes because its siblings already show where such objects go.

Cohort = documents of the same type (any version), sealed like the new object. First those in its own
namespace are asked, then all of them. Either one file holds them (a bundle) or they stand in a file each
(singles); the heavier habit wins, ties go to singles. Files that hold a document we cannot edit are no
destination. Everything iterates in sorted order, so the same folder always gives the same answer.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..inventory import DocumentRef, Inventory
from ..roles import SEALED_SUFFIXES
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


@dataclass(frozen=True, slots=True)
class _Member:
    path: str
    namespace: str
    name: str
    documents: int
    other_types: bool

    @property
    def directory(self) -> str:
        return posixpath.dirname(self.path)


def infer(inventory: Inventory, subject: Subject) -> Inferred | None:
    """The siblings' place for a new object, or None where they show no habit (sheet rule P6, refined)."""
    members = _cohort(inventory, subject)
    if not members:
        return None
    own = (
        [member for member in members if member.namespace == subject.namespace]
        if subject.namespaced
        else members
    )
    return _choose(own, subject, across=False) or (
        _choose(members, subject, across=True) if own != members else None
    )


def _cohort(inventory: Inventory, subject: Subject) -> list[_Member]:
    def make() -> list[_Member]:
        return [
            _member(inventory, ref)
            for ref in inventory.of_type(subject.group, subject.kind)
            if ref.fact.has_sops == subject.sensitive and not _is_tainted(inventory, ref.path)
        ]

    cohort = inventory.derived(("cohort", subject.group, subject.kind, subject.sensitive), make)
    assert isinstance(cohort, list)
    return cohort


def _is_tainted(inventory: Inventory, path: str) -> bool:
    if inventory.context.fan_in(path):
        return True
    facts = inventory.files[path].facts
    return facts is None or any(fact.constructs for fact in facts.documents)


def _member(inventory: Inventory, ref: DocumentRef) -> _Member:
    facts = inventory.files[ref.path].facts
    documents = [fact for fact in facts.documents if fact.is_krm] if facts is not None else []
    others = any((fact.group, fact.kind) != (ref.fact.group, ref.fact.kind) for fact in documents)
    return _Member(ref.path, inventory.effective_namespace(ref), ref.fact.name, len(documents), others)


def _choose(members: Sequence[_Member], subject: Subject, *, across: bool) -> Inferred | None:
    if not members:
        return None
    by_file: dict[str, list[_Member]] = {}
    for member in members:
        by_file.setdefault(member.path, []).append(member)
    singles = [found[0] for _path, found in sorted(by_file.items()) if found[0].documents == 1]
    bundles = {
        path: len(found)
        for path, found in sorted(by_file.items())
        if found[0].documents > 1
        and (len(found) > 1 or not found[0].other_types)
        and (not across or len({member.namespace for member in found}) > 1)
    }
    directory = _directory(singles, subject, across=across)
    weight = len(singles) if directory is not None else 0
    if bundles and not subject.sensitive:
        best = max(bundles.values())
        if best > weight:
            return Inferred(min(path for path, count in bundles.items() if count == best), True, len(members))
    if directory is None:
        return None
    name = _file_name(singles, subject)
    return Inferred(posixpath.join(directory, name), False, len(members))


def _directory(singles: Sequence[_Member], subject: Subject, *, across: bool) -> str | None:
    if not singles:
        return None
    if across:
        patterns = {_namespace_pattern(member) for member in singles}
        if len(patterns) == 1 and subject.namespace and (pattern := patterns.pop()) is not None:
            return posixpath.join(pattern[0], subject.namespace, pattern[1]).rstrip("/")
        folders = {member.directory for member in singles}
        return folders.pop() if len(folders) == 1 and patterns <= {None} else None
    counts = Counter(member.directory for member in singles)
    most = max(counts.values())
    return min(directory for directory, count in counts.items() if count == most)


def _namespace_pattern(member: _Member) -> tuple[str, str] | None:
    """What stands before and after the object's own namespace in its directory, if it is there."""
    parts = member.directory.split("/")
    if not member.namespace or member.namespace not in parts:
        return None
    at = parts.index(member.namespace)
    return "/".join(parts[:at]), "/".join(parts[at + 1 :])


_PATTERNS: tuple[Callable[[str, Subject], str], ...] = (
    lambda name, _subject: name,
    lambda name, subject: f"{subject.kind.lower()}-{name}",
    lambda name, subject: f"{name}-{subject.kind.lower()}",
    lambda name, subject: f"{subject.resource}-{name}",
)


def _file_name(singles: Sequence[_Member], subject: Subject) -> str:
    name = escape_segment(subject.name)
    stem = name
    for pattern in _PATTERNS:
        if all(_stem(member.path) == pattern(member.name, subject) for member in singles):
            stem = pattern(name, subject)
            break
    suffix = subject.suffix
    if singles and all(member.path.endswith(".yml") for member in singles):
        suffix = suffix.removesuffix(".yaml") + ".yml"
    return stem + suffix


def _stem(path: str) -> str:
    name = posixpath.basename(path)
    for suffix in (*SEALED_SUFFIXES, ".yaml", ".yml"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
