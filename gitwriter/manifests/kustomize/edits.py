"""Changes to a kustomization file, made by the same editor as every other edit.

Entries that exist are addressed by index. New ones are authored only in an overlay, for objects whose own
file lies outside the target path. All edits of one file are applied together, so its comments and order
stay and one commit holds one coherent change.
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
    values; `unused_files` are patch files that nothing names any more.
    """

    path: str
    directory: str
    added: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    images: dict[tuple[int, str], str] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)
    new_images: dict[str, dict[str, str]] = field(default_factory=dict)
    new_replicas: dict[str, int] = field(default_factory=dict)
    new_patches: set[str] = field(default_factory=set)
    removed_patches: set[str] = field(default_factory=set)
    removed_replicas: set[str] = field(default_factory=set)
    unused_files: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        changes = (self.added, self.removed, self.images, self.replicas)
        authored = (self.new_images, self.new_replicas, self.new_patches)
        return not any((*changes, *authored, self.removed_patches, self.removed_replicas))

    def merge(self, other: KustomizationEdits) -> None:
        """Take over another object's edits of the same file."""
        self.added |= other.added
        self.removed |= other.removed
        self.images.update(other.images)
        self.replicas.update(other.replicas)
        self.new_images.update(other.new_images)
        self.new_replicas.update(other.new_replicas)
        self.new_patches |= other.new_patches
        self.removed_patches |= other.removed_patches
        self.removed_replicas |= other.removed_replicas
        self.unused_files |= other.unused_files

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
        result = edit_document(data, contents[0].index, desired, as_given=True)
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
        counts = desired.get("replicas")
        if self.removed_replicas and isinstance(counts, list):
            others = [entry for entry in counts if not self._is_removed_count(entry)]
            desired.pop("replicas") if not others else desired.update(replicas=others)
        patches = desired.get("patches")
        if self.removed_patches and isinstance(patches, list):
            left = [entry for entry in patches if not self._is_removed_patch(entry)]
            desired.pop("patches") if not left else desired.update(patches=left)
        return self._author(desired)

    def _author(self, desired: dict[str, Any]) -> bool:
        """Append new entries; their section is created where it is missing."""
        authored: dict[str, list[dict[str, Any]]] = {
            "images": [{"name": name, **parts} for name, parts in sorted(self.new_images.items())],
            "replicas": [{"name": name, "count": count} for name, count in sorted(self.new_replicas.items())],
            "patches": [{"path": path} for path in sorted(self.new_patches)],
        }
        for section, entries in authored.items():
            present = desired.get(section) or []
            if not entries:
                continue
            if not isinstance(present, list):
                return False
            desired[section] = [*present, *(entry for entry in entries if entry not in present)]
        return True

    def _is_removed_patch(self, entry: object) -> bool:
        path = entry.get("path") if isinstance(entry, dict) else None
        return isinstance(path, str) and resolve_entry(self.directory, path) in self.removed_patches

    def _is_removed_count(self, entry: object) -> bool:
        return isinstance(entry, dict) and entry.get("name") in self.removed_replicas

    def _is_removed(self, entry: object) -> bool:
        return isinstance(entry, str) and resolve_entry(self.directory, entry) in self.removed


def _entry(desired: dict[str, Any], section: str, index: int) -> dict[str, Any] | None:
    entries = desired.get(section)
    if not isinstance(entries, list) or index >= len(entries) or not isinstance(entries[index], dict):
        return None
    found: dict[str, Any] = entries[index]
    return found
