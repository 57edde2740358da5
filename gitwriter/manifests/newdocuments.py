"""New documents: what each needs to be placed, and its first bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from . import fields
from .changes import IgnoreField, Upsert
from .emitter import render_document
from .identity import placement_sort_key
from .placement.resolve import Place
from .placement.templates import Subject


class NewDocument(NamedTuple):
    """A new object with its place; `key` orders it among others, `number` is its change in the batch."""

    key: str
    number: int
    change: Upsert
    subject: Subject
    place: Place


def subject_of(change: Upsert) -> Subject:
    """The object as placement sees it."""
    return Subject(
        group=change.group,
        version=change.version,
        resource=change.resource,
        kind=change.kind,
        namespaced=change.namespaced,
        namespace=change.key.namespace,
        name=change.name,
        sensitive=change.sensitive,
    )


def sort_key_of(change: Upsert) -> str:
    """Where a new object stands among others that are placed in the same commit."""
    return placement_sort_key(
        change.group, change.version, change.resource, change.key.namespace, change.name
    )


def split_by_sensitivity(members: Sequence[NewDocument]) -> tuple[list[NewDocument], list[NewDocument]]:
    """Those that may share a new file, and the rest: one sealed object alone, or plain ones."""
    kept, surplus = list(members[:1]), []
    for member in members[1:]:
        if member.subject.sensitive or kept[0].subject.sensitive:
            surplus.append(member)
        else:
            kept.append(member)
    return kept, surplus


def render_new(change: Upsert, ignored: Iterable[IgnoreField], *, inherits_namespace: bool) -> bytes:
    """The first bytes of an object's document: sealed text as it is, else every field that is mirrored.

    Raises YamlRefused or ValueError for an object that cannot be written as a manifest.
    """
    if change.sensitive and change.sealed is not None:
        return change.sealed
    if change.body is None:
        raise ValueError(f"{change.kind} {change.name} came without content")
    value = fields.without(change.body, fields.kept_pointers(change.body, change.group, change.name, ignored))
    if inherits_namespace:
        fields.remove_pointer(value, "/metadata/namespace")
    return render_document(value)
