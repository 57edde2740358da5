"""The few facts that ingestion needs of a raw object. Total: malformed objects give empty facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

END_MARKER = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class RawFacts:
    """Identity of one object version, read before sanitising removes it."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    terminating: bool

    @property
    def malformed(self) -> bool:
        """It cannot be named, so it can neither be written nor protected."""
        return not self.name


def read_facts(obj: Mapping[str, Any]) -> RawFacts:
    """The facts of one object."""
    meta = obj.get("metadata")
    if not isinstance(meta, Mapping):
        meta = {}
    return RawFacts(
        name=_text(meta.get("name")),
        namespace=_text(meta.get("namespace")),
        uid=_text(meta.get("uid")),
        resource_version=_text(meta.get("resourceVersion")),
        terminating=bool(meta.get("deletionTimestamp")),
    )


def read_marks(obj: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The field managers of an object itself, subresources left out, and when each last set a field."""
    meta = obj.get("metadata")
    entries = meta.get("managedFields") if isinstance(meta, Mapping) else None
    return tuple(
        (_text(entry.get("manager")), _text(entry.get("time")))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and not entry.get("subresource")
    )


def is_end_marker(obj: Mapping[str, Any]) -> bool:
    """Whether a bookmark says that the initial state is complete."""
    meta = obj.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(END_MARKER) == "true"


def is_cursor(resource_version: str) -> bool:
    """Whether a stored cursor can be a resourceVersion of a server: a decimal of at most 20 digits."""
    return resource_version.isascii() and resource_version.isdigit() and len(resource_version) <= 20


def not_newer(resource_version: str, than: str) -> bool:
    """Whether a version is certainly not newer than another; False when either is not a decimal."""
    if not (is_cursor(resource_version) and is_cursor(than)):
        return False
    return int(resource_version) <= int(than)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
