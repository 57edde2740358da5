"""How a document is written, so that new text looks as if the same hand had written it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..nodes import Kind, Node
from ..scalars import plain_is_safe, resolve_plain
from .source import Source


@dataclass(frozen=True, slots=True)
class DocumentStyle:
    """``step`` is the indentation of a nested mapping, ``dash`` that of a list below its key (0: flush
    with it), ``braces`` and ``brackets`` the blank within flow mappings and lists, if any, ``list_quote`` the
    quote that all text in flow lists has, ``member`` the indentation of a JSON document's members."""

    step: int = 2
    dash: int = 0
    braces: str = ""
    brackets: str = ""
    list_quote: str = ""
    member: str = ""


def document_style(root: Node, source: Source) -> DocumentStyle:
    """Measure a document by the habit that occurs most often."""
    steps: Counter[int] = Counter()
    dashes: Counter[int] = Counter()
    padded: Counter[Kind] = Counter()
    listed: list[Node] = []
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
        for key, value in node.entries:
            if not (value.items or value.entries):
                continue
            stack.append(value)
            if value.flow:
                continue
            offset = source.column(value.body) - source.column(key.start)
            if value.items and offset >= 0:
                dashes[offset] += 1
            elif value.entries and offset > 0:
                steps[offset] += 1
    step = steps.most_common(1)[0][0] if steps else 2
    return DocumentStyle(
        step=step,
        dash=dashes.most_common(1)[0][0] if dashes else 0,
        braces=" " if padded[Kind.MAPPING] > 0 else "",
        brackets=" " if padded[Kind.SEQUENCE] > 0 else "",
        list_quote=common_quote(listed, flow=True),
        member=_member_indent(root, source),
    )


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
