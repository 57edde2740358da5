"""New nodes as text: block lines at a column, or one flow expression.

Unlike a whole new document, text that goes into an existing one is quoted only where a reader would need it, or where its
neighbours are quoted throughout: ``--verbose`` next to other flags, ``1.2.3`` next to other versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..emitter import fits_literal, inline_scalar, literal_lines, sorted_keys
from ..scalars import double_quoted, escape_double, plain_is_safe, single_quoted
from .style import DocumentStyle

_MAX_SIMPLE_KEY = 900


@dataclass(frozen=True, slots=True)
class Look:
    """Everything about the surroundings that shapes new text."""

    style: DocumentStyle
    flow: bool = False
    json: bool = False
    quote: str = ""

    def inside_flow(self) -> Look:
        """The same look within brackets."""
        return self if self.flow else replace(self, flow=True)


def quoted(text: str, quote: str) -> str:
    """The text in the given quotes where they can hold it on one line, else in double quotes."""
    return (single_quoted(text) if quote == "'" else None) or double_quoted(text)


def inline_text(text: str, look: Look) -> str:
    """A string on one line."""
    if look.json:
        return f'"{escape_double(text)}"'
    if look.quote:
        return quoted(text, look.quote)
    return text if plain_is_safe(text, flow=look.flow) else double_quoted(text)


def inline_value(value: Any, look: Look) -> str:
    """A scalar, an empty collection, or (within brackets) a whole value on one line."""
    if isinstance(value, str):
        return inline_text(value, look)
    if isinstance(value, Mapping):
        inner = look.inside_flow()
        keys = replace(inner, quote="")
        pairs = (f"{inline_text(key, keys)}: {inline_value(value[key], inner)}" for key in sorted_keys(value))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        inner = look.inside_flow()
        return "[" + ", ".join(inline_value(item, inner) for item in value) + "]"
    return inline_scalar(value)


def pretty_flow(value: Any, look: Look, indent: int, step: int) -> list[str]:
    """A value as JSON-like lines; the first line has no indentation, the others stand at ``indent`` or deeper."""
    if look.json and isinstance(value, Mapping | list | tuple) and value:
        lines = json.dumps(value, indent=step or 2, ensure_ascii=False, sort_keys=True).split("\n")
        if all(line == line.strip("\x7f\x85\u2028\u2029\ufeff") and line.isprintable() for line in lines):
            return lines[:1] + [" " * indent + line for line in lines[1:]]
    return [inline_value(value, look)]


def is_block(value: Any) -> bool:
    """True for values that a block style writes on lines of their own."""
    return isinstance(value, Mapping | list | tuple) and bool(value)


def text_lines(text: str, look: Look, indent: int) -> list[str]:
    """A string behind its indicator: one line, or a block header followed by content lines at ``indent``."""
    if not look.flow and not look.json and fits_literal(text):
        header, lines = literal_lines(text)
        return [header] + [" " * indent + line if line else "" for line in lines]
    return [inline_text(text, look)]


def mapping_lines(
    value: Mapping[str, Any], look: Look, column: int, keys: list[str] | None = None
) -> list[str]:
    """A mapping as block lines at a column."""
    lines: list[str] = []
    for key in sorted_keys(value) if keys is None else keys:
        lines += entry_lines(key, value[key], look, column)
    return lines


def entry_lines(key: str, value: Any, look: Look, column: int, *, name: str | None = None) -> list[str]:
    """One entry of a block mapping; ``name`` is the key's text where it is known already."""
    pad = " " * column
    label = inline_text(key, replace(look, quote="")) if name is None else name
    if len(label) > _MAX_SIMPLE_KEY:
        pad, label = f"{pad}? {label}\n{pad}", ""
    nested = replace(look, quote="")
    if is_block(value):
        if isinstance(value, Mapping):
            below = mapping_lines(value, nested, column + look.style.step)
        else:
            below = sequence_lines(value, nested, column + look.style.dash)
        return [*f"{pad}{label}:".split("\n"), *below]
    if isinstance(value, str):
        first, *rest = text_lines(value, look, column + look.style.step)
    else:
        first, rest = inline_value(value, look), []
    return [*f"{pad}{label}: {first}".split("\n"), *rest]


def sequence_lines(value: list[Any] | tuple[Any, ...], look: Look, column: int) -> list[str]:
    """A sequence as block lines whose dashes stand at a column."""
    lines: list[str] = []
    for item in value:
        lines += item_lines(item, look, column)
    return lines


def item_lines(value: Any, look: Look, column: int, *, offset: int = 2) -> list[str]:
    """One item of a block sequence; its content begins ``offset`` columns behind the dash."""
    pad = " " * column + "-" + " " * (offset - 1)
    if isinstance(value, str):
        first, *rest = text_lines(value, look, column + offset)
        return [pad + first, *rest]
    if not is_block(value) or look.flow:
        return [pad + inline_value(value, look)]
    if isinstance(value, Mapping):
        lines = mapping_lines(value, look, column + offset)
    else:
        lines = sequence_lines(value, look, column + offset)
    return [pad + lines[0][column + offset :], *lines[1:]]
