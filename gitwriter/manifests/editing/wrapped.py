"""Changing some words of a scalar that is spread over several lines.

Quoted and plain scalars over several lines and folded blocks hide how their text maps to their value: a line
break is a blank, an empty line a line break. Here the source is cut into units that each stand for a piece of
the value, the old and new values are compared word by word, and only the words that changed are exchanged;
all other lines keep their breaks. Every function returns None where it cannot be sure; the caller then
rewrites the scalar.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from ..scalars import escape_double, is_printable

_FOLD = re.compile(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*[ \t]*")
_ESCAPED_FOLD = re.compile(r"\\\r?\n(?:[ \t]*\r?\n)*[ \t]*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TOKEN = re.compile(r"\n+|[ \t]+|[^ \t\n]+")
_MAX_TOKENS = 1500
MAX_SOURCE = 300_000  # every character is looked at; nobody wraps so long a text by hand

Unit = tuple[str, int, int]  # piece of the value, source start, source end


def flow_scalar_units(source: str, style: str) -> list[Unit] | None:
    """Units of a plain or quoted scalar; for quoted ones the source excludes the quotes. None for an unknown
    escape."""
    units: list[Unit] = []
    position, size = 0, len(source)
    while position < size:
        char = source[position]
        if char in " \t\r\n" and (match := _FOLD.match(source, position)):
            breaks = match[0].count("\n")
            units.append((" " if breaks == 1 else "\n" * (breaks - 1), position, match.end()))
            position = match.end()
        elif style == '"' and char == "\\":
            if match := _ESCAPED_FOLD.match(source, position):
                piece = "\n" * (match[0].count("\n") - 1)
            else:
                match = _ESCAPE.match(source, position)
                if match is None:
                    return None
                digits = match[1] or match[2] or match[3]
                piece = chr(int(digits, 16)) if digits else _SIMPLE_ESCAPES.get(match[4], "")
            units.append((piece, position, match.end()))
            position = match.end()
        elif style == "'" and source.startswith("''", position):
            units.append(("'", position, position + 2))
            position += 2
        else:
            units.append((char, position, position + 1))
            position += 1
    return units


def folded_units(source: str, indent: int) -> list[Unit]:
    """Units of a folded block's content lines (without the header line, up to the last content line's
    end)."""
    units: list[Unit] = []
    breaks_start = 0
    breaks = 0
    previous_more: bool | None = None  # None before the first content line
    position = 0
    for raw in _LINE.findall(source):
        line = raw.rstrip("\r\n")
        body = line[indent:] if line[:indent].strip() == "" else line
        if body == "":
            breaks += 1
            position += len(raw)
            continue
        more = body[0] in " \t"
        start = position + len(line) - len(body)
        if previous_more is None:
            piece = "\n" * breaks
        elif more or previous_more:
            piece = "\n" * (breaks + 1)
        else:
            piece = "\n" * breaks if breaks else " "
        if piece:
            units.append((piece, breaks_start, start))
        units += [(char, start + offset, start + offset + 1) for offset, char in enumerate(body)]
        breaks_start = position + len(line)
        breaks = 0
        previous_more = more
        position += len(raw)
    return units


def exchange_words(
    source: str, units: list[Unit], old: str, new: str, *, style: str, indent: int, newline: str
) -> str | None:
    """The source with the words exchanged that differ between the two values, or None where that is not
    safe."""
    if "".join(unit[0] for unit in units) != old or not new:
        return None
    starts: dict[int, int] = {}  # value offset -> source offset
    texts: dict[int, int] = {}  # the same, behind line breaks that stand for nothing
    offset = 0
    for piece, begin, _end in units:
        starts.setdefault(offset, begin)
        texts[offset] = begin
        offset += len(piece)
    starts.setdefault(offset, units[-1][2] if units else 0)
    old_tokens, new_tokens = _TOKEN.findall(old), _TOKEN.findall(new)
    parts: list[str] = []
    position = 0
    for begin, end, text in _changes(old_tokens, new_tokens):
        if begin not in starts or end not in starts:
            return None
        written = _encode(text, style, indent, newline)
        if written is None:
            return None
        start = texts[begin] if begin < end else starts[begin]
        if style == '"' and text[:1] == " " and not source[:start].rpartition("\n")[2].strip():
            written = f"\\{written}"  # a blank that begins a line would be part of the line break
        parts += (source[position:start], written)
        position = max(starts[end], position)
    parts.append(source[position:])
    return "".join(parts)


def common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many leading and how many trailing elements the lists share (never counted twice)."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _changes(old: list[str], new: list[str]) -> list[tuple[int, int, str]]:
    """Changed stretches as (old value start, old value end, new text)."""
    head, tail = common_ends(old, new)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    offsets = [sum(map(len, old[:head]))]
    for token in old_middle:
        offsets.append(offsets[-1] + len(token))
    if len(old_middle) + len(new_middle) > _MAX_TOKENS:
        return [(offsets[0], offsets[-1], "".join(new_middle))]
    matcher = SequenceMatcher(None, old_middle, new_middle, autojunk=False)
    return [
        (offsets[i1], offsets[i2], "".join(new_middle[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _encode(text: str, style: str, indent: int, newline: str) -> str | None:
    if style == '"':
        return escape_double(text)
    if not is_printable(text.replace("\n", "")):
        return None
    if style == "'":
        text = text.replace("'", "''")
    pieces = re.split(r"(\n+)", text)
    pad = " " * indent
    return "".join(
        newline * (len(piece) + 1) + pad if piece.startswith("\n") else piece for piece in pieces if piece
    )
