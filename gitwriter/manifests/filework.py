"""All edits of one file, applied together.

Edits are recorded against the documents as they were read and applied in an order in which no index can
shift: first in place, then removals from the last to the first, then new documents at the end, sorted by
identity. A document is edited inside its own bytes, so its neighbours cannot change and a bundle of
thousands of documents costs no more per edit than a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .editing import EditMode, EditResult, edit_body, edit_document
from .emitter import render_document
from .loading import YamlError
from .splitting import Document, append_documents, remove_document, split_documents

_SEPARATE_EDIT_BYTES = 32 * 1024

OnEdit = Callable[[int, EditResult, int], None]
"""Takes a document's number, the result of its edit, and by how many bytes it grew."""


@dataclass(frozen=True, slots=True)
class DesiredDocument:
    """What one document has to say. `keep` and `optional` are JSON pointers, as the editor takes them."""

    value: Mapping[str, Any]
    keep: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(slots=True)
class FileWork:
    """The work on one file that exists, or on a new one (`original` is None)."""

    path: str
    original: bytes | None
    edits: dict[int, DesiredDocument] = field(default_factory=dict)
    removals: set[int] = field(default_factory=set)
    appended: dict[str, bytes] = field(default_factory=dict)
    appended_bytes: int = 0
    whole: bytes | None = None

    def append(self, key: str, rendered: bytes) -> None:
        """One more document at the end, in the order of the keys."""
        self.appended[key] = rendered
        self.appended_bytes += len(rendered)

    def apply(self, on_edit: OnEdit) -> bytes | None:
        """The file's new bytes, or None when no document is left. Every edit's result is reported."""
        data: bytes | None = self.original
        if self.whole is not None:
            data = self.whole
        elif data is not None:
            data = self._edited(data, on_edit)
            data = self._without_removed(data)
        added = [rendered for _key, rendered in sorted(self.appended.items())]
        return append_documents(data, added) if added else data

    def _edited(self, data: bytes, on_edit: OnEdit) -> bytes:
        edits = {index: desired for index, desired in self.edits.items() if index not in self.removals}
        if not edits:
            return data
        if len(data) <= _SEPARATE_EDIT_BYTES or len(edits) == 1:
            for index, desired in sorted(edits.items()):
                result = _edit(data, index, desired)
                on_edit(index, result, len(result.data) - len(data))
                data = result.data
            return data
        return self._edited_apart(data, edits, on_edit)

    def _edited_apart(self, data: bytes, edits: Mapping[int, DesiredDocument], on_edit: OnEdit) -> bytes:
        pieces: list[bytes] = []
        position = 0
        for document in split_documents(data):
            desired = edits.get(document.index)
            if desired is None:
                continue
            body = document.body(data)
            result = edit_body(body, desired.value, keep=desired.keep, optional=desired.optional)
            on_edit(document.index, result, len(result.data) - len(body))
            pieces += (data[position : document.start], result.data)
            position = document.end
        pieces.append(data[position:])
        return b"".join(pieces)

    def _without_removed(self, data: bytes) -> bytes | None:
        if not self.removals:
            return data
        left: bytes | None = data
        if len(self.removals) > 1:
            left = _remove_many(data, self.removals)
        else:
            left = remove_document(data, next(iter(self.removals)))
        return left


def _edit(data: bytes, index: int, desired: DesiredDocument) -> EditResult:
    # Most replays find our own unchanged files: rendering the object is cheaper than parsing the file.
    if index == 0 and _renders_as(desired.value, data):
        return EditResult(data, EditMode.NO_CHANGE)
    return edit_document(data, index, desired.value, keep=desired.keep, optional=desired.optional)


def _renders_as(value: Mapping[str, Any], data: bytes) -> bool:
    try:
        return render_document(value) == data
    except (YamlError, TypeError, ValueError):
        return False


def _remove_many(data: bytes, removals: set[int]) -> bytes | None:
    """Remove several documents in one pass: those behind the first survivor by slices, the others one by
    one.
    """
    documents = split_documents(data)
    survivors = [document.index for document in documents if document.index not in removals]
    if not survivors:
        return None
    tail = [
        document for document in documents if document.index in removals and document.index > survivors[0]
    ]
    data = _cut(data, tail)
    left: bytes | None = data
    for index in sorted((index for index in removals if index < survivors[0]), reverse=True):
        if left is not None:
            left = remove_document(left, index)
    return left


def _cut(data: bytes, documents: list[Document]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for document in documents:
        pieces.append(data[position : document.separator_start])
        position = document.end
    pieces.append(data[position:])
    return b"".join(pieces)


def would_change(data: bytes, index: int, desired: DesiredDocument) -> bool:
    """True when a document does not yet say what it has to say."""
    return _edit(data, index, desired).mode is not EditMode.NO_CHANGE
