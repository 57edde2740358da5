"""What may be written at a chosen place: the last check before a new document is planned.

No rule and no policy can make a path leave the target, lie below a file, mix plain and encrypted objects,
or put a document into a file that cannot be edited safely.
"""

from __future__ import annotations

import posixpath

from ..changes import SkipReason
from ..inventory import Inventory
from ..roles import MANIFEST_SUFFIXES, Role
from .templates import Subject


def path_problem(inventory: Inventory, path: str) -> str:
    """Why nothing may be written at this path, or empty."""
    segments = path.split("/")
    if not path or path.startswith("/") or "\\" in path or posixpath.normpath(path) != path:
        return "the path is not a clean relative path"
    if ".." in segments or ".git" in segments:
        return "the path leaves the target path"
    if not path.endswith(MANIFEST_SUFFIXES):
        return "the path does not end in .yaml or .yml"
    if any(len(segment.encode()) > 255 for segment in segments):
        return "a part of the path is longer than 255 bytes"
    for depth in range(1, len(segments)):
        if "/".join(segments[:depth]) in inventory.files:
            return f"{'/'.join(segments[:depth])} is a file, not a folder"
    folders = inventory.derived("yaml-folders", lambda: _yaml_named_folders(inventory))
    assert isinstance(folders, frozenset)
    return "the path is a folder" if path in folders else ""


def _yaml_named_folders(inventory: Inventory) -> frozenset[str]:
    found: set[str] = set()
    for path in inventory.files:
        if ".yaml/" in path or ".yml/" in path:
            parts = path.split("/")
            found.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    return frozenset(found)


def append_refusal(inventory: Inventory, path: str, subject: Subject) -> tuple[SkipReason, str] | None:
    """Why a new object must not join a file that exists, or None."""
    record = inventory.files[path]
    facts = record.facts
    if record.role is not Role.MANIFEST or facts is None or path in inventory.context.patches:
        return SkipReason.NOT_APPENDABLE, f"{path} is not a file of manifests"
    if subject.sensitive:
        return SkipReason.SENSITIVE_APPEND, f"{path} exists; an encrypted object needs a file of its own"
    if any(fact.sealed or fact.has_sops for fact in facts.documents):
        return (
            SkipReason.PLAINTEXT_ONTO_ENCRYPTED,
            f"{path} is encrypted; a plain object needs another path",
        )
    if any(fact.constructs or (not fact.is_krm and fact.detail) for fact in facts.documents):
        return SkipReason.NOT_APPENDABLE, f"{path} holds a document that cannot be edited safely"
    if inventory.context.fan_in(path):
        return SkipReason.WRITE_FAN_IN, f"{path} is part of several builds and is read-only here"
    supplied = inventory.context.namespace(path)
    if subject.namespaced and supplied and supplied != subject.namespace:
        text = f"{path} is built into namespace {supplied}, this object belongs to {subject.namespace}"
        return SkipReason.NOT_APPENDABLE, text
    return None
