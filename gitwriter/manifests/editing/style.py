"""How a document is written, so that new text looks as if the same hand had written it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..nodes import Kind, Node
from ..scalars import plain_is_safe, resolve_plain
from .source import Source

_LOOKED_AT = 50  # children that tell the habit of a long collection


@dataclass(frozen=True, slots=True)
class DocumentStyle:
    """``step`` is the indentation of a nested mapping, ``dash`` that of a list below its key (0: flush
    with it), ``gap`` that of an item behind its dash, ``braces`` and ``brackets`` the blank within flow
    mappings and lists, if any, ``list_quote`` the quote that all text in flow lists has, ``key_quote`` that
    of all keys, ``member`` the indentation of a JSON document's members."""

    step: int = 2
    dash: int = 0
    gap: int = 2
    braces: str = ""
    brackets: str = ""
    list_quote: str = ""
    key_quote: str = ""
    member: str = ""


class _Habits:
    """How often each indentation occurs."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.steps: Counter[int] = Counter()
        self.dashes: Counter[int] = Counter()
        self.gaps: Counter[int] = Counter()

    def note_entries(self, entries: Iterable[tuple[Node, Node]]) -> None:
        """Count the block collections among the values."""
        for key, value in entries:
            if value.flow or not (value.items or value.entries):
                continue
            offset = self._source.column(value.body) - self._source.column(key.start)
            if value.items and offset >= 0:
                self.dashes[offset] += 1
                self.gaps[_gap(value, self._source)] += 1
            elif value.entries and offset > 0:
                self.steps[offset] += 1


def _gap(node: Node, source: Source) -> int:
    """Columns from a list's dash to its first item, 2 where that stands on another line."""
    first = node.items[0]
    between = source.work[node.body + 1 : first.start]
    return 2 if first.start <= node.body or between.strip(" ") else first.start - node.body


def document_style(root: Node, source: Source) -> DocumentStyle:
    """Measure a document by the habit that occurs most often."""
    habits = _Habits(source)
    padded: Counter[Kind] = Counter()
    listed: list[Node] = []
    keys: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.flow:
            listed += node.items
            if node.items or node.entries:
                padded[node.kind] += 1 if is_padded(node, source) else -1
            continue
        if node.kind is Kind.SCALAR:
            continue
        stack.extend(node.items)
        habits.note_entries(node.entries)
        for key, value in node.entries:
            keys.append(key)
            if value.items or value.entries:
                stack.append(value)
    return DocumentStyle(
        step=_most(habits.steps, 2),
        dash=_most(habits.dashes, 0),
        gap=_most(habits.gaps, 2),
        braces=" " if padded[Kind.MAPPING] > 0 else "",
        brackets=" " if padded[Kind.SEQUENCE] > 0 else "",
        list_quote=common_quote(listed, flow=True),
        key_quote=common_quote(keys, flow=False),
        member=_member_indent(root, source),
    )


def _most(counted: Counter[int], otherwise: int) -> int:
    return counted.most_common(1)[0][0] if counted else otherwise


def _member_indent(root: Node, source: Source) -> str:
    first = root.entries[0][0].start if root.flow and root.entries else 0
    indent = source.work[source.line_start(first) : first]
    return indent if first and not indent.strip() else ""


def is_padded(node: Node, source: Source) -> bool:
    """True for a flow collection written as ``{ a: 1 }``, on one line."""
    return source.work[node.body + 1] == source.work[node.end - 2] == " "


def common_quote(nodes: Iterable[Node], *, flow: bool) -> str:
    """The quote character that all string scalars among the nodes share without needing it; else an empty
    string."""
    styles: set[str] = set()
    needless = False
    for node in nodes:
        if node.kind is not Kind.SCALAR or node.style in ("|", ">"):
            continue
        if node.style == "":
            if isinstance(resolve_plain(node.text), str):
                return ""
            continue
        styles.add(node.style)
        needless = needless or plain_is_safe(node.text, flow=flow)
    return styles.pop() if len(styles) == 1 and needless else ""


def item_quote(pairs: Iterable[tuple[Node, Any]], *, flow: bool) -> str:
    """The quote of new items of a list, told by its items and what becomes of them.

    Quotes that all items need tell no habit, until one of them keeps its quotes though it no longer needs
    them.
    """
    pairs = list(pairs)
    quote = common_quote((node for node, _target in pairs), flow=flow)
    if quote or not all(node.style in ("'", '"') for node, _target in pairs):
        return quote
    if len({node.style for node, _target in pairs}) != 1:
        return ""
    freed = any(isinstance(target, str) and plain_is_safe(target, flow=flow) for _node, target in pairs)
    return pairs[0][0].style if freed else ""


def local_style(node: Node, source: Source, style: DocumentStyle) -> DocumentStyle:
    """The style below a block collection: its own children's habit, where they agree, wins over the
    document's."""
    habits = _Habits(source)
    if node.kind is Kind.MAPPING:
        habits.note_entries(node.entries[:_LOOKED_AT])
    else:
        gap = _gap(node, source)
        for item in node.items[:_LOOKED_AT]:
            if item.kind is Kind.MAPPING and not item.flow:
                habits.note_entries(item.entries)
        if gap > 2:
            habits.steps[gap] += 1
            habits.gaps[gap] += 1
    agreed = replace(
        style,
        step=_agreed(habits.steps, style.step),
        dash=_agreed(habits.dashes, style.dash),
        gap=_agreed(habits.gaps, style.gap),
    )
    return style if agreed == style else agreed


def _agreed(counted: Counter[int], otherwise: int) -> int:
    return next(iter(counted)) if len(counted) == 1 else otherwise
