"""The lines of a folded block whose text changed.

First only the changed words are exchanged, so that the writer's line breaks stay. Where lines come, go or
are indented for themselves (lists and commands between prose) that is not enough: then the lines of the
value that stayed keep their source lines, and only the others are written, each on one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from .likeness import likeness
from .wrapped import MAX_SOURCE, common_ends, exchange_words, folded_units

_MAX_LINES = 1500
_ALIKE = 0.3
_LOOKED_AT = 20


def folded_lines(old: str, new: str, raw_lines: list[str], indent: int) -> list[str] | None:
    """Source lines of the new text, or None where no folded block holds it.

    Both texts come without their last line breaks, ``raw_lines`` are the block's content lines, ``indent``
    its indentation.
    """
    raw_lines = [line.rstrip("\r") for line in raw_lines]
    while raw_lines and not raw_lines[-1].strip():
        raw_lines.pop()
    raw = "\n".join(raw_lines)
    if len(raw) <= MAX_SOURCE:
        exchanged = _exchanged(raw, old, new, indent)
        if exchanged is not None:
            return exchanged.split("\n")
    else:
        raw_lines = []
    lines = _by_lines(new, raw_lines, indent)
    return lines if _text("\n".join(lines), indent) == new else None


def _text(raw: str, indent: int) -> str:
    return "".join(unit[0] for unit in folded_units(raw, indent))


def _exchanged(raw: str, old: str, new: str, indent: int) -> str | None:
    units = folded_units(raw, indent)
    result = exchange_words(raw, units, old, new, style=">", indent=indent, newline="\n")
    return result if result is not None and _text(result, indent) == new else None


def _is_apart(line: str) -> bool:
    """True for a line that begins with a blank: it is not folded, and breaks around it stand."""
    return line[:1] in (" ", "\t")


def _runs(raw_lines: list[str], indent: int) -> list[tuple[int, int]]:
    """Source lines, from and to, of each line of the value that is not empty."""
    runs: list[tuple[int, int]] = []
    open_run = False
    for number, line in enumerate(raw_lines):
        body = line[indent:] if not line[:indent].strip() else line
        if not body:
            open_run = False
            continue
        if open_run and not _is_apart(body):
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
        open_run = not _is_apart(body)
    return runs


def _by_lines(new: str, raw_lines: list[str], indent: int) -> list[str]:
    """The new text with the source lines of those of its lines that stayed."""
    runs = _runs(raw_lines, indent)
    sources = ["\n".join(raw_lines[start:stop]) for start, stop in runs]
    old_lines = [_text(source, indent) for source in sources]
    new_lines = [line for line in new.split("\n") if line]
    written, stayed = _written(old_lines, new_lines, sources, indent)
    result: list[str] = []
    breaks, number = 0, -1
    for line in new.split("\n"):
        if not line:
            breaks += 1
            continue
        number += 1
        blank = breaks if number == 0 else breaks + 1
        if number and (_is_apart(line) or _is_apart(new_lines[number - 1])):
            blank -= 1
        run = stayed.get(number)
        before = (
            raw_lines[runs[run - 1][1] : runs[run][0]] if run and stayed.get(number - 1) == run - 1 else []
        )
        result += before if len(before) == blank else [""] * blank
        result += written[number]
        breaks = 0
    return result


def _changes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    """As SequenceMatcher's opcodes; of very many lines only those at both ends are compared."""
    head, tail = common_ends(old, new)
    old_stop, new_stop = len(old) - tail, len(new) - tail
    changes = [("equal", 0, head, 0, head), ("equal", old_stop, len(old), new_stop, len(new))]
    if old_stop + new_stop - 2 * head <= _MAX_LINES:
        matcher = SequenceMatcher(None, old[head:old_stop], new[head:new_stop], autojunk=False)
        changes += [
            (tag, head + i1, head + i2, head + j1, head + j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    return changes


def _paired(
    old_lines: list[str], new_lines: list[str], olds: range, news: range
) -> Iterator[tuple[int, int]]:
    """Changed lines that are still the same line, in order."""
    start = olds.start
    for new in news:
        for old in range(start, min(start + _LOOKED_AT, olds.stop)):
            if _is_apart(old_lines[old]) == _is_apart(new_lines[new]) and (
                likeness(old_lines[old], new_lines[new]) >= _ALIKE
            ):
                yield old, new
                start = old + 1
                break


def _written(
    old_lines: list[str], new_lines: list[str], sources: list[str], indent: int
) -> tuple[list[list[str]], dict[int, int]]:
    """The source of each new line, and which old line each is that stayed or changed in its place."""
    written = [[" " * indent + line] for line in new_lines]
    stayed: dict[int, int] = {}
    for tag, i1, i2, j1, j2 in _changes(old_lines, new_lines):
        if tag == "equal":
            for old, new in zip(range(i1, i2), range(j1, j2), strict=True):
                written[new], stayed[new] = sources[old].split("\n"), old
            continue
        for old, new in _paired(old_lines, new_lines, range(i1, i2), range(j1, j2)):
            source = _exchanged(sources[old], old_lines[old], new_lines[new], indent)
            if source is not None:
                written[new], stayed[new] = source.split("\n"), old
    return written, stayed
