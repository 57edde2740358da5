"""Cutting a file into documents without losing a byte, and putting documents in and out of a file.

A document separator is a line that begins in column 0 with ``---``; an end marker ``...`` with content behind
it is a boundary as well. Everything between is a body, kept verbatim: joining all separators and bodies gives
the file. Text before the first separator, even one comment line, is a document of its own, so that every byte
belongs to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import merge

from reverser.errors import YamlRefused

from .loading import decode_body
from .nodes import parse_tree

_BOM = b"\xef\xbb\xbf"
_MARKER = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
_AFTER_MARKER = (b"", b" ", b"\t", b"\r", b"\n")
_DASH = ord("-")
_SEPARATOR_REST = re.compile(rb"[ \t]*(?:(?<=[ \t])#[^\n]*)?\r?(?:\n|\Z)")
_BLANKS = re.compile(rb"[ \t]*")
_FRAMING_ONLY = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|\.\.\.[ \t]*\r?(?:\n|\Z))*[ \t]*(?:#[^\n]*)?\Z")
_BLOCK_HEADER = re.compile(r"[|>][1-9+-]*")
_DIRECTIVES_ONLY = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|%[^\n]*(?:\n|\Z))*[ \t]*(?:#[^\n]*)?\Z")


class DocumentKind(StrEnum):
    """CONTENT holds a node; EMPTY only blanks and comments; DIRECTIVES a ``%YAML`` or ``%TAG`` prologue of
    the
    next document."""

    CONTENT = "content"
    EMPTY = "empty"
    DIRECTIVES = "directives"


@dataclass(frozen=True, slots=True)
class Document:
    """One document by byte offsets: the separator is ``[separator_start, start)``, the body ``[start, end)``.

    Document 0 has an empty separator unless the file begins with one. A byte order mark belongs to nobody:
    the first separator (or body) begins behind it.
    """

    index: int
    separator_start: int
    start: int
    end: int
    kind: DocumentKind

    def body(self, data: bytes) -> bytes:
        """The body's bytes."""
        return data[self.start : self.end]


def split_documents(data: bytes, *, at_most: int | None = None) -> list[Document]:
    """Split a file; always at least one document (an empty file is one empty document).

    With ``at_most`` a file that holds more is cut short: one more document than that is returned.
    """
    origin = len(_BOM) if data.startswith(_BOM) else 0
    cuts: list[tuple[int, int]] = []  # (separator start, body start)
    for count, marker in enumerate(_markers(data, origin)):
        if at_most is not None and len(cuts) > at_most + 1:
            break
        if data[marker] == _DASH:
            cuts.append((marker, _separator_end(data, marker + 3)))
        elif at_most is not None and count > 2 * at_most + 2:
            cuts.append((marker, marker + 3))  # a heap of end markers counts as documents
        elif (resume := _content_after_end_marker(data, marker + 3)) is not None:
            cuts.append((marker, resume))
    if not cuts or cuts[0][0] > origin:
        cuts.insert(0, (origin, origin))
    if at_most is not None:
        del cuts[at_most + 1 :]
    documents: list[Document] = []
    for index, (separator, start) in enumerate(cuts):
        end = cuts[index + 1][0] if index + 1 < len(cuts) else len(data)
        documents.append(Document(index, separator, start, end, _kind_of(data, start, end)))
    return documents


def _markers(data: bytes, origin: int) -> Iterator[int]:
    """Offsets of every ``---`` and ``...`` line start, in order."""
    if data[origin : origin + 3] in (b"---", b"...") and data[origin + 3 : origin + 4] in _AFTER_MARKER:
        yield origin
    yield from merge(_found(data, b"\n---", origin), _found(data, b"\n...", origin))


def _found(data: bytes, pattern: bytes, origin: int) -> Iterator[int]:
    position = data.find(pattern, origin)
    while position >= 0:
        if data[position + 4 : position + 5] in _AFTER_MARKER:
            yield position + 1
        position = data.find(pattern, position + 4)


def _separator_end(data: bytes, position: int) -> int:
    """Where the body begins: on the next line, or on this one where content follows the marker."""
    if match := _SEPARATOR_REST.match(data, position):
        return match.end()
    return _BLANKS.match(data, position).end()  # type: ignore[union-attr]


def _content_after_end_marker(data: bytes, position: int) -> int | None:
    """Offset behind the marker's line when content follows before the next separator, else None."""
    rest = _SEPARATOR_REST.match(data, position)
    if rest is None:
        return None
    following = _MARKER.search(data, rest.end())
    end = following.start() if following else len(data)
    return None if _FRAMING_ONLY.match(data[rest.end() : end]) else rest.end()


def _kind_of(data: bytes, start: int, end: int) -> DocumentKind:
    # Most bodies are settled by their first character, without a copy.
    if start == end:
        return DocumentKind.EMPTY
    head = data[start : start + 1]
    if head.isalpha() or head in (b"{", b'"'):
        return DocumentKind.CONTENT
    body = data[start:end]
    if _FRAMING_ONLY.match(body):
        return DocumentKind.EMPTY
    if b"%" in body and _DIRECTIVES_ONLY.match(body):
        return DocumentKind.DIRECTIVES
    return DocumentKind.CONTENT


def remove_document(data: bytes, index: int) -> bytes | None:
    """The file without one document and its separator, or None when no content is left.

    Every other byte stays. Where the first document goes, the next one's separator goes too, so that a file
    begins with a separator only if it did before. Raises IndexError for an index that the file does not have.
    """
    documents = split_documents(data)
    if not 0 <= index < len(documents):
        raise IndexError(f"the file has no document {index}")
    gone = documents[index]
    if not any(other.kind is DocumentKind.CONTENT for other in documents if other.index != index):
        return None
    first = index
    if index and documents[index - 1].kind is DocumentKind.DIRECTIVES:
        first -= 1  # the prologue belongs to the document
    if first > 0:
        return data[: documents[first].separator_start] + data[gone.end :]
    head, following = documents[0], documents[index + 1]
    if head.separator_start == head.start:
        return data[: head.start] + data[following.start :]
    return data[: head.separator_start] + data[following.separator_start :]


def append_document(data: bytes, rendered: bytes) -> bytes:
    """The file with one more document behind its last one.

    Existing bytes stay verbatim; a newline is added if the file lacked one, then ``---`` and the document.
    Line endings follow the file. A trailing empty document (a final ``---``) is filled instead of followed.
    """
    if not data.removeprefix(_BOM).strip():
        return data[: len(data) - len(data.removeprefix(_BOM))] + rendered
    crlf = _is_crlf(data)
    newline = b"\r\n" if crlf else b"\n"
    addition = rendered.replace(b"\n", b"\r\n") if crlf else rendered
    documents = split_documents(data)
    last = documents[-1]
    if not data.endswith(b"\n"):
        data = _ended_with_newline(data, last, newline)
    if (
        last.kind is DocumentKind.EMPTY
        and last.separator_start < last.start
        and not data[last.start :].strip()
    ):
        return data + addition
    return data + b"---" + newline + addition


def append_documents(data: bytes | None, rendered: Sequence[bytes]) -> bytes:
    """The file, or a new one, with several documents behind its last one, in one pass.

    ``rendered`` holds at least one document. Those after the first are each one node that ends in a newline,
    so they follow without another look at the file.
    """
    data = rendered[0] if data is None else append_document(data, rendered[0])
    if len(rendered) == 1:
        return data
    if not data.endswith(b"\n") or any(not text.endswith(b"\n") for text in rendered[1:]):
        for text in rendered[1:]:
            data = append_document(data, text)
        return data
    newline = b"\r\n" if _is_crlf(data) else b"\n"
    rest = [text.replace(b"\n", newline) if newline != b"\n" else text for text in rendered[1:]]
    return (b"---" + newline).join((data, *rest))


def _is_crlf(data: bytes) -> bool:
    return b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n")


def _ended_with_newline(data: bytes, last: Document, newline: bytes) -> bytes:
    """Add the final newline; a block scalar that ended without one is marked ``-`` so that its value stays
    the
    same."""
    if last.kind is not DocumentKind.CONTENT:
        return data + newline
    try:
        text = decode_body(last.body(data))
        node = parse_tree(text).root
    except YamlRefused:
        return data + newline
    while node is not None and (node.entries or node.items):
        node = node.entries[-1][1] if node.entries else node.items[-1]
    if node is None or node.style not in ("|", ">") or node.text.endswith("\n") or node.end < len(text):
        return data + newline
    header = _BLOCK_HEADER.match(text, node.body)
    if header is None:
        return data + newline
    marked = text[: header.start()] + header[0].replace("+", "").replace("-", "") + "-" + text[header.end() :]
    return data[: last.start] + marked.encode() + newline
