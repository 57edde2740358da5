"""Replacing a node by a newly written one.

What is not the value stays: the key, the anchor, the comment behind the key. Only the value's own text is
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..nodes import Kind, Node
from .render import (
    Look,
    flow_look,
    inline_text,
    inline_value,
    is_block,
    mapping_lines,
    pretty_flow,
    sequence_lines,
)
from .source import Edit, PlanConflict, Source
from .spelling import fresh_spelling

_MEMBER = re.compile(r'[ \t]*(?:"(?:[^"\\]|\\.)*"[ \t]*:[ \t]*)?')
_TAG = re.compile(r"![^\s]*\s*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: ``after`` its indicator (colon or dash), whose key or dash is in ``column``."""

    after: int
    column: int
    is_item: bool = False
    is_root: bool = False


def replace_node(source: Source, node: Node, target: Any, place: Place, look: Look) -> list[Edit]:
    """Edits that put the target where the node stands."""
    if look.flow:
        return _replace_in_flow(source, node, target, look)
    if place.is_root:
        raise PlanConflict("the whole document has to be written afresh")
    edits = _without_tag(source, node)
    first, rest = _rendered(source, node, target, place, look)
    if node.kind is Kind.SCALAR and node.style in ("|", ">"):
        return edits + _over_block_scalar(source, node, first, rest, place)
    if not node.flow and (node.entries or node.items):
        return edits + _over_block_collection(source, node, first, rest, place)
    return edits + _over_inline(source, node, first, rest, place)


def _replace_in_flow(source: Source, node: Node, target: Any, look: Look) -> list[Edit]:
    text = _pretty(source, node, target, look) or inline_value(target, look)
    if node.body < node.end:
        return [*_without_tag(source, node), Edit(node.body, node.end, text)]
    mark = " " if source.work[node.end - 1] == ":" else ": "
    behind = source.skip_blanks(node.end)
    if source.work[behind : behind + 1] != ",":
        behind = node.end + (source.work[node.end : behind] == " " and not look.style.braces)
    return [Edit(node.end, behind, f"{mark}{text}")]


def _pretty(source: Source, node: Node, target: Any, look: Look) -> str:
    """A collection over several lines, where JSON is written so around it; else empty."""
    if not (look.json and look.style.member and is_block(target)):
        return ""
    old = source.work[node.body : node.end]
    if "\n" not in old and (node.items or node.entries):
        return ""
    if not _MEMBER.fullmatch(source.work, source.line_start(node.body), node.body):
        return ""
    lines = pretty_flow(target, look, source.indent(node.body), look.style.member)
    return source.newline_at(node.body).join(lines)


def _without_tag(source: Source, node: Node) -> list[Edit]:
    if node.tag is None:
        return []
    match = _TAG.search(source.work, node.start, node.body)
    return [Edit(match.start(), match.end(), "")] if match else []


def _rendered(source: Source, node: Node, target: Any, place: Place, look: Look) -> tuple[str, list[str]]:
    """Text on the indicator's line (empty for a block collection) and the lines below it."""
    if is_block(target):
        inner, model = replace(look, quote="", key_quote=look.style.key_quote), node.resolved()
        kind = Kind.MAPPING if isinstance(target, Mapping) else Kind.SEQUENCE
        if model.flow and model.kind is kind and (model.entries or model.items):
            return inline_value(target, flow_look(model, look)), []
        if isinstance(target, Mapping):
            column = _content_column(source, node, place, look.style.step)
            return "", mapping_lines(target, inner, column, like=model)
        column = _content_column(source, node, place, look.style.dash)
        return "", sequence_lines(target, inner, column, like=model)
    if isinstance(target, str):
        below = source.line_end(node.end)
        if node.body >= node.end and source.after_deeper_comments(below, place.column) > below:
            return inline_text(target, look), []  # a block would take in the comments below it
        first, *rest = fresh_spelling(target, look, parent_column=place.column)
        return first, rest
    return inline_value(target, look), []


def _content_column(source: Source, node: Node, place: Place, step: int) -> int:
    if not place.is_item:
        return place.column + step
    on_dash_line = source.line_start(node.body) == source.line_start(place.after)
    if node.anchor is None and on_dash_line and node.body < node.end:
        return source.column(node.body)
    return place.column + 2


def _joined(lines: list[str], newline: str) -> str:
    return "".join(line + newline for line in lines)


def _over_inline(source: Source, node: Node, first: str, rest: list[str], place: Place) -> list[Edit]:
    newline = source.newline_at(place.after)
    below = source.line_end(node.end)
    start = node.start if node.kind is Kind.ALIAS else node.body
    if not first and node.anchor is None and source.begins_line(start):
        tail = source.skip_blanks(node.end)
        if tail < source.line_stop(node.end):  # a comment keeps the line
            return [Edit(start, tail, ""), Edit(below, below, _joined(rest, newline))]
        return [Edit(source.line_start(start), below, _joined(rest, newline))]
    if not first and place.is_item and node.anchor is None:
        first, rest = rest[0].lstrip(" "), rest[1:]
    if start >= node.end:  # an empty value
        head = [Edit(node.end, node.end, f" {first}")] if first else []
    elif first:
        head = [Edit(start, node.end, first)]
    else:
        blank = len(source.work[:start].rstrip(" \t"))
        if "\n" in source.work[blank:start]:
            blank = start
        head = [Edit(max(blank, place.after), node.end, "")]
    return [*head, Edit(below, below, _joined(rest, newline))] if rest else head


def _over_block_scalar(source: Source, node: Node, first: str, rest: list[str], place: Place) -> list[Edit]:
    newline = source.newline_at(place.after)
    header_end = source.block_header_end(node)
    below = source.line_end(header_end)
    stop = max(source.line_end(source.content_end(node)), below)
    if not first and place.is_item and node.anchor is None:
        first, rest = rest[0].lstrip(" "), rest[1:]
    start = node.body if first else max(len(source.work[: node.body].rstrip(" \t")), place.after)
    return [Edit(start, header_end, first), Edit(below, stop, _joined(rest, newline))]


def _over_block_collection(
    source: Source, node: Node, first: str, rest: list[str], place: Place
) -> list[Edit]:
    newline = source.newline_at(place.after)
    stop = source.content_end(node)
    if source.line_start(node.body) == source.line_start(place.after):  # begins behind the dash
        if not first:
            first, rest = rest[0].lstrip(" "), rest[1:]
        if rest:  # a comment behind the old text moves up to the first new line
            tail = source.work[stop : source.line_stop(stop)].rstrip()
            return [Edit(node.body, source.line_stop(stop), newline.join([first + tail, *rest]))]
        return [Edit(node.body, stop, first)]
    end = source.after_deeper_comments(source.line_end(stop), place.column)
    head = place.after
    if node.anchor is not None:
        head = len(source.work[: node.body].rstrip())
        head = min(head, source.line_stop(node.start))
        match = re.compile(r"(?:[&!][^\s]*[ \t]*)+").match(source.work, node.start)
        head = node.start + len(match[0].rstrip()) if match else head
    below = source.line_end(head)
    edits = [Edit(below, end, _joined(rest, newline))]
    return [Edit(head, head, f" {first}"), *edits] if first else edits
