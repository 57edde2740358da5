"""New documents in one canonical spelling that every YAML reader reads back.

No general library does both: those that are used in Python write ``yes`` or ``0o17`` bare and so change a
type for some reader. This emitter is small because it is conservative: a string stands plain only when it
begins with a letter, ``_`` or ``/`` and holds nothing special; text of several lines is a literal block where
a block can hold it; all else is double-quoted. The same object always gives the same bytes: keys sorted at
every depth, digit runs compared as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .limits import DEFAULT_LIMITS, Limits
from .scalars import double_quoted, is_printable, number_text

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9 _./:@+=~%$()*,;!&?<>^|#'\"\[\]{}\\-]*\Z")
_NOT_PLAIN = re.compile(r": | #|[: ]\Z")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "~"))
_TRAILING_BLANK = re.compile(r"[ \t](?:\n|\Z)")
_DIGITS = re.compile(r"([0-9]+)")
_MAX_SIMPLE_KEY = 900  # readers give up on an implicit key of more than 1024 characters
_FIRST_KEYS = ("apiVersion", "kind", "metadata")
_OMITTED_WHEN_EMPTY = ("annotations", "labels", "namespace")


@lru_cache(maxsize=65536)
def natural_key(name: str) -> tuple[Any, ...]:
    """Sort key for mapping keys: text as text, digit runs as numbers (``k2`` before ``k10``)."""
    parts = _DIGITS.split(name)
    if len(parts) == 1:
        return ((name,), name)
    return (tuple(int(part) if index % 2 else part for index, part in enumerate(parts)), name)


def sorted_keys(mapping: Mapping[str, Any]) -> list[str]:
    """The keys in canonical order."""
    return sorted(mapping, key=natural_key)


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.match(text)) and not _NOT_PLAIN.search(text) and text.lower() not in _WORDS


@lru_cache(maxsize=65536)
def inline_string(text: str) -> str:
    """A string on one line: plain where that is beyond doubt, else double-quoted."""
    return text if _is_plain(text) else double_quoted(text)


def fits_literal(text: str) -> bool:
    """True when a literal block without indentation indicator holds the text exactly and looks right in any
    editor."""
    if "\n" not in text or text[0] in " \n" or "\t" in text or "\r" in text:
        return False
    return not _TRAILING_BLANK.search(text) and is_printable(text.replace("\n", ""))


def literal_lines(text: str) -> tuple[str, list[str]]:
    """Indicator and content lines of a text as literal block."""
    body = text.rstrip("\n")
    trailing = len(text) - len(body)
    lines = body.split("\n")
    if trailing == 0:
        return "|-", lines
    return ("|", lines) if trailing == 1 else ("|+", lines + [""] * (trailing - 1))


def inline_scalar(value: Any) -> str:
    """A scalar on one line."""
    if isinstance(value, str):
        return inline_string(value)
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return number_text(value)
    raise TypeError(f"a manifest cannot hold a value of type {type(value).__name__}")


def _emit_text(out: list[str], text: str, indent: str) -> None:
    """Append a string value (behind ``key: `` or ``- ``) and its line end; block content goes to
    ``indent``."""
    if len(text) < 256:
        if "\n" not in text:
            out.append(inline_string(text) + "\n")
            return
    elif "\n" not in text:
        out.append((text if _is_plain(text) else double_quoted(text)) + "\n")
        return
    if not fits_literal(text):
        out.append(double_quoted(text) + "\n")
        return
    indicator, lines = literal_lines(text)
    out.append(indicator + "\n")
    out.extend(f"{indent}{line}\n" if line else "\n" for line in lines)


def _emit_mapping(
    out: list[str], mapping: Mapping[str, Any], keys: Sequence[str], indent: str, first: str
) -> None:
    """Append the entries; ``first`` is what stands before the first key (its line may have begun with a
    dash)."""
    lead = first
    deeper = indent + "  "
    for key in keys:
        value = mapping[key]
        name = inline_string(key)
        if len(name) > _MAX_SIMPLE_KEY:
            name = f"? {name}\n{indent}"
        kind = type(value)
        if kind is str:
            out.append(f"{lead}{name}: ")
            _emit_text(out, value, deeper)
        elif isinstance(value, Mapping):
            if value:
                out.append(f"{lead}{name}:\n")
                _emit_mapping(out, value, sorted_keys(value), deeper, deeper)
            else:
                out.append(f"{lead}{name}: {{}}\n")
        elif isinstance(value, list | tuple):
            if value:
                out.append(f"{lead}{name}:\n")
                _emit_sequence(out, value, indent, indent)
            else:
                out.append(f"{lead}{name}: []\n")
        else:
            out.append(f"{lead}{name}: {inline_scalar(value)}\n")
        lead = indent


def _emit_sequence(out: list[str], items: Sequence[Any], indent: str, first: str) -> None:
    lead = first
    deeper = indent + "  "
    for item in items:
        if isinstance(item, str):
            out.append(f"{lead}- ")
            _emit_text(out, item, deeper)
        elif isinstance(item, Mapping):
            if item:
                _emit_mapping(out, item, sorted_keys(item), deeper, f"{lead}- ")
            else:
                out.append(f"{lead}- {{}}\n")
        elif isinstance(item, list | tuple):
            if item:
                _emit_sequence(out, item, deeper, f"{lead}- ")
            else:
                out.append(f"{lead}- []\n")
        else:
            out.append(f"{lead}- {inline_scalar(item)}\n")
        lead = indent


def canonical_object(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object as a new file holds it: no ``status``, no empty labels, annotations or namespace."""
    result = {key: value for key, value in obj.items() if key != "status"}
    metadata = result.get("metadata")
    if isinstance(metadata, Mapping):
        result["metadata"] = {
            key: value for key, value in metadata.items() if value or key not in _OMITTED_WHEN_EMPTY
        }
    return result


def render_document(obj: Mapping[str, Any]) -> bytes:
    """An object as a new document: UTF-8, LF, no leading ``---``, one final newline.

    Order: apiVersion, kind, metadata, then the other top-level keys sorted; ``status`` is never written.
    Raises TypeError or ValueError for values that a manifest cannot hold and for too deep a nesting.
    """
    return render_object(canonical_object(obj))


def check_writable(obj: Any, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse what no manifest can hold before anything is written.

    Raises TypeError (a foreign type) or ValueError (NaN, infinity, too deep a nesting, too many values).
    """
    level: list[Any] = [obj]
    depth = nodes = 0
    while level:
        depth += 1
        if depth > limits.depth + 1:
            raise ValueError(f"the object nests deeper than {limits.depth} levels; it cannot be written")
        nodes += len(level)
        if nodes > limits.nodes:
            raise ValueError(f"the object holds more than {limits.nodes} keys and values; ignore its type")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
                nodes += len(value)
            elif isinstance(value, list | tuple):
                below.extend(value)
            elif isinstance(value, float):
                number_text(value)
            elif value is not None and not isinstance(value, str | int):
                raise TypeError(f"a manifest cannot hold a value of type {type(value).__name__}")
        level = below


def render_object(obj: Mapping[str, Any]) -> bytes:
    """As render_document, with every field that the object has."""
    check_writable(dict(obj))
    if not obj:
        return b"{}\n"
    keys = [key for key in _FIRST_KEYS if key in obj]
    keys += [key for key in sorted_keys(obj) if key not in _FIRST_KEYS]
    out: list[str] = []
    _emit_mapping(out, obj, keys, "", "")
    return "".join(out).encode("utf-8")
