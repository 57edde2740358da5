"""Changes to a kustomization file, made by the same editor as every other edit.

Entries are addressed by index and verified by name; a section or an entry is never invented. All edits of
one file are applied together, so its comments and order stay and one commit holds one coherent change.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ..editing import EditMode, edit_document
from ..loading import YamlError, load_document
from ..splitting import DocumentKind, split_documents
from .context import resolve_entry


@dataclass(slots=True)
class KustomizationEdits:
    """What one kustomization file has to change. `images` maps (entry, field) and `replicas` entry to new
    values.
    """

    path: str
    directory: str
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    images: dict[tuple[int, str], str] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.images or self.replicas)

    def apply(self, data: bytes) -> bytes | None:
        """The file's new bytes; None where the edit cannot be made without guessing."""
        contents = [document for document in split_documents(data) if document.kind is DocumentKind.CONTENT]
        if len(contents) != 1:
            return None
        try:
            value = load_document(contents[0].body(data)).value
        except YamlError:
            return None
        desired = copy.deepcopy(value)
        if not isinstance(desired, dict) or not self._change(desired):
            return None
        result = edit_document(data, contents[0].index, desired)
        return None if result.mode in (EditMode.SKIPPED, EditMode.WHOLE_REPLACE) else result.data

    def _change(self, desired: dict[str, Any]) -> bool:
        for section in ("resources", "bases"):
            entries = desired.get(section)
            if isinstance(entries, list) and self.removed:
                kept = [entry for entry in entries if not self._is_removed(entry)]
                if len(kept) != len(entries):
                    desired[section] = kept
        if self.added:
            entries = desired.get("resources")
            if not isinstance(entries, list):
                return False
            desired["resources"] = [*entries, *sorted(entry for entry in self.added if entry not in entries)]
        for (index, name), text in self.images.items():
            entry = _entry(desired, "images", index)
            if entry is None or name not in entry:
                return False
            entry[name] = text
        for index, count in self.replicas.items():
            entry = _entry(desired, "replicas", index)
            if entry is None or "count" not in entry:
                return False
            entry["count"] = count
        return True

    def _is_removed(self, entry: object) -> bool:
        return isinstance(entry, str) and resolve_entry(self.directory, entry) in self.removed


def _entry(desired: dict[str, Any], section: str, index: int) -> dict[str, Any] | None:
    entries = desired.get(section)
    if not isinstance(entries, list) or index >= len(entries) or not isinstance(entries[index], dict):
        return None
    found: dict[str, Any] = entries[index]
    return found
