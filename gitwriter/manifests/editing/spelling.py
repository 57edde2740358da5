"""A changed scalar in the spelling of its predecessor.

Quotes, block indicator, chomping, octal or hexadecimal notation, capital or lower-case booleans and line
breaks are the writer's taste and stay; what the value needs (quotes around ``1.10``, another chomping
indicator) wins over taste.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from ..emitter import fits_literal
from ..nodes import Node
from ..scalars import double_quoted, is_printable, plain_is_safe, resolve_plain, single_quoted
from .folded import folded_lines
from .render import Look, inline_text, inline_value, text_lines
from .source import PlanConflict, Source
from .wrapped import MAX_SOURCE, common_ends, exchange_words, flow_scalar_units

_HEADER = re.compile(
    r"(?P<kind>[|>])(?:(?P<digit>[1-9])(?P<chomp>[+-]?)|(?P<chomp2>[+-]?)(?P<digit2>[1-9]?))"
)
_RADIX = re.compile(r"(?P<sign>[-+]?)(?P<prefix>0[xXoObB]?)(?P<digits>[0-9a-fA-F]+)\Z")
_BOOLEAN_PAIRS = (("true", "false"), ("yes", "no"), ("on", "off"), ("y", "n"))
_MAX_DIFF_LINES = 1500


def respell(
    source: Source, node: Node, value: Any, look: Look, *, parent_column: int, explicit: bool = False
) -> list[str]:
    """New text for ``[node.body, node.end)``: first line, then further lines that go below the node's line.

    With ``explicit`` a block scalar says itself whether its text ends in a newline. A result of one element
    may hold line breaks itself (block scalars, wrapped text); it replaces the node as it stands.
    """
    if not isinstance(value, str):
        return [_other(node, value, look)]
    if node.style in ("|", ">"):
        block = _block(source, node, value, parent_column=parent_column, explicit=explicit)
        if block is not None:
            return [block]
        return [_inline_after_block(source, node, double_quoted(value))]
    if (wrapped := _wrapped(source, node, value, look, parent_column=parent_column)) is not None:
        return [wrapped]
    was_text = node.style != "" or isinstance(resolve_plain(node.text), str)
    if "\n" in value and "\n" not in node.text and not look.flow and not look.json and fits_literal(value):
        return text_lines(value, look, parent_column + look.style.step)
    if node.style == '"' or look.json:
        return [double_quoted(value)]
    if node.style == "'":
        return [single_quoted(value) or double_quoted(value)]
    if was_text and node.text and "\n" not in value:
        return [value if plain_is_safe(value, flow=look.flow) else double_quoted(value)]
    return text_lines(value, look, parent_column + look.style.step)


def _other(node: Node, value: Any, look: Look) -> str:
    """A boolean, number or null in the notation of the old one."""
    old = node.text
    if node.style == "" and isinstance(value, bool) and isinstance(resolve_plain(old), bool):
        for pair in _BOOLEAN_PAIRS:
            if old.lower() in pair:
                word = pair[0] if value else pair[1]
                if old.isupper() and len(old) > 1:
                    return word.upper()
                return word.capitalize() if old[0].isupper() else word
    if node.style == "" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        match = _RADIX.match(old)
        radix = match is not None and not match["sign"] and isinstance(resolve_plain(old), int)
        if match and radix and (spelt := _in_radix(match["prefix"], match["digits"], value)):
            return spelt
    return inline_value(value, look)


def _in_radix(prefix: str, digits: str, value: int) -> str | None:
    letter = prefix[1:].lower()
    if not letter and digits == "":
        return None
    spec = {"x": "X" if digits != digits.lower() else "x", "o": "o", "b": "b", "": "o"}[letter]
    spelt = prefix + format(value, spec).rjust(len(digits), "0")
    return spelt if resolve_plain(spelt) == value and isinstance(resolve_plain(spelt), int) else None


def _wrapped(source: Source, node: Node, value: str, look: Look, *, parent_column: int) -> str | None:
    """Exchange words in a plain or quoted scalar of several lines, keeping its line breaks."""
    raw = source.work[node.body : node.end]
    if "\n" not in raw or len(raw) > MAX_SOURCE:
        return None
    inner = raw[1:-1] if node.style else raw
    units = flow_scalar_units(inner, node.style)
    if units is None:
        return None
    second = inner.split("\n")[1]
    indent = len(second) - len(second.lstrip(" ")) or parent_column + 2
    newline = source.newline_at(node.body)
    result = exchange_words(inner, units, node.text, value, style=node.style, indent=indent, newline=newline)
    if result is None or (
        not node.style and "\n" not in result and not plain_is_safe(result, flow=look.flow)
    ):
        return None
    return f"{node.style}{result}{node.style}"


def _inline_after_block(source: Source, node: Node, text: str) -> str:
    """One-line text in place of a block scalar; blank lines behind the block stay."""
    stop = source.content_end(node)
    if stop >= node.end:
        return text
    return text + source.work[stop : node.end]


def _block(source: Source, node: Node, value: str, *, parent_column: int, explicit: bool) -> str | None:
    """The whole block scalar with its new value, or None where a block cannot hold the value."""
    lines = value.split("\n")
    if not all(is_printable(line.replace("\t", "")) for line in lines) or not value.strip():
        return None
    match = _HEADER.match(source.work, node.body)
    if match is None:
        raise PlanConflict("no block indicator")
    header_stop = source.line_end(node.body)
    raw = source.work[header_stop : node.end] if header_stop < node.end else ""
    raw_lines = raw.split("\n")
    if raw_lines and raw_lines[-1] == "":
        raw_lines.pop()
    indent = _block_indent(raw_lines, node, parent_column)
    if node.style == ">":
        folded = folded_lines(node.text.rstrip("\n"), value.rstrip("\n"), raw_lines, indent)
        if folded is None:
            return None
        content = folded
    else:
        content = _literal_lines(node, value, raw_lines, indent)
    first = next((line for line in content if line.strip()), "")
    digit = match["digit"] or match["digit2"] or ""
    if not digit and first[indent : indent + 1] in (" ", "\t"):
        digit = str(indent - parent_column)
        if not 1 <= indent - parent_column <= 9:
            return None
    chomp = match["chomp"] or match["chomp2"] or ""
    new_chomp, tail = _chomping(source, node, value, chomp, raw_lines, explicit=explicit)
    order = digit + new_chomp if match["digit"] or not match["digit2"] else new_chomp + digit
    header = match["kind"] + order + source.work[match.end() : header_stop]
    newline = source.newline_at(node.body)
    text = header + "".join(f"{line.rstrip(chr(13))}{newline}" for line in (*content, *tail))
    if not source.work[node.body : node.end].endswith("\n"):
        text = text.removesuffix("\n").removesuffix("\r")
    return text


def _block_indent(raw_lines: list[str], node: Node, parent_column: int) -> int:
    """Indentation of the content lines, told by the first line that has text."""
    values = node.text.split("\n")
    for raw, value in zip(raw_lines, values, strict=False):
        if node.style == "|" and value.strip():
            return len(raw.rstrip("\r")) - len(value)
    for raw in raw_lines:
        if raw.strip():
            more = node.text.lstrip("\n")
            return len(raw) - len(raw.lstrip(" ")) - (len(more) - len(more.lstrip(" ")))
    return parent_column + 2


def _content_lines(text: str) -> list[str]:
    stripped = text.rstrip("\n")
    return stripped.split("\n") if stripped else []


def _literal_lines(node: Node, value: str, raw_lines: list[str], indent: int) -> list[str]:
    """Content lines of a literal block; lines whose text did not change keep their very characters."""
    old, new = _content_lines(node.text), _content_lines(value)
    pad = " " * indent
    head, tail = common_ends(old, new)
    matches = [(0, 0, head)]
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle[0]) + len(middle[1]) <= _MAX_DIFF_LINES:
        matcher = SequenceMatcher(None, *middle, autojunk=False)
        matches += [(head + m.a, head + m.b, m.size) for m in matcher.get_matching_blocks()]
    matches.append((len(old) - tail, len(new) - tail, tail))
    result: list[str] = []
    done = 0
    for old_start, new_start, size in matches:
        result += [pad + line if line else "" for line in new[done:new_start]]
        result += raw_lines[old_start : old_start + size]
        done = new_start + size
    return result + [pad + line if line else "" for line in new[done:]]


def _chomping(
    source: Source, node: Node, value: str, chomp: str, raw_lines: list[str], *, explicit: bool
) -> tuple[str, list[str]]:
    """Chomping indicator and the blank lines behind the content."""
    trailing = len(value) - len(value.rstrip("\n"))
    old_trailing = len(node.text) - len(node.text.rstrip("\n"))
    blanks: list[str] = []
    for line in reversed(raw_lines[len(_content_lines(node.text)) if node.style == "|" else 0 :]):
        if line.strip():
            break
        blanks.append(line)
    blanks.reverse()
    if explicit and trailing == 1:  # holds whatever blank lines come to follow
        return "", blanks if chomp != "+" else []
    at_end = not explicit and source.added_newline and node.end >= len(source.text)
    if trailing == old_trailing and (trailing or chomp == "-" or at_end):
        return chomp, blanks
    if trailing == 0:
        return "-", [] if chomp == "+" else blanks
    if trailing == 1 and chomp != "+":
        return "", blanks
    if trailing == 1:
        return "+", []
    return "+", [""] * (trailing - 1)


def fresh_spelling(value: Any, look: Look, *, parent_column: int) -> list[str]:
    """A scalar without regard to its predecessor; always explicit about its trailing newlines."""
    if isinstance(value, str):
        plain = replace(look, quote="")
        if look.flow or look.json:
            return [inline_text(value, plain)]
        return text_lines(value, plain, parent_column + look.style.step)
    return [inline_value(value, look)]
