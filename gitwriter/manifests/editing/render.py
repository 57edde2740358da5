"""New nodes as text: block lines at a column, or one flow expression.

Unlike a whole new document, text that goes into an existing one is quoted only where a reader would need it,
or where its neighbours are quoted throughout: ``--verbose`` next to other flags, ``1.2.3`` next to other
versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..emitter import fits_literal, inline_scalar, literal_lines, sorted_keys
from ..nodes import Kind, Node
from ..scalars import double_quoted, escape_double, plain_is_safe, single_quoted
from .style import DocumentStyle, common_quote

_MAX_SIMPLE_KEY = 900


@dataclass(frozen=True, slots=True)
class Look:
    """Everything about the surroundings that shapes new text: ``quote`` and ``key_quote`` are what all text
    and all keys around have; ``compact`` is JSON without blanks. With ``as_given`` the keys of new mappings
    are written in the order in which they came."""

    style: DocumentStyle
    flow: bool = False
    json: bool = False
    compact: bool = False
    quote: str = ""
    key_quote: str = ""
    as_given: bool = False

    def keys(self, value: Mapping[str, Any]) -> list[str]:
        """The keys of a new mapping in the order in which they are written."""
        return list(value) if self.as_given else sorted_keys(value)

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


def inline_key(key: str, look: Look) -> str:
    """A key, without its colon."""
    return inline_text(key, replace(look, quote=look.key_quote))


def inline_value(value: Any, look: Look, *, like: Node | None = None) -> str:
    """A scalar, an empty collection, or (within brackets) a whole value on one line; a mapping has its keys
    in the order of those of ``like``."""
    if isinstance(value, str):
        return inline_text(value, look)
    if isinstance(value, Mapping):
        inner = look.inside_flow()
        colon, comma = (":", ",") if look.compact else (": ", ", ")
        model = _same_kind(like, Kind.MAPPING)
        likes = {key.text: node for key, node in model.entries} if model is not None else {}
        if model is not None:
            inner = replace(inner, key_quote=common_quote((key for key, _value in model.entries), flow=True))
        pairs = (
            f"{inline_key(key, inner)}{colon}{inline_value(value[key], inner, like=likes.get(key))}"
            for key in _ordered_keys(value, model, inner)
        )
        pad = look.style.braces if value and not look.json else ""
        return "{" + pad + comma.join(pairs) + pad + "}"
    if isinstance(value, list | tuple):
        inner = look.inside_flow()
        pad = look.style.brackets if value and not look.json else ""
        comma = "," if look.compact else ", "
        return "[" + pad + comma.join(inline_value(item, inner) for item in value) + pad + "]"
    return inline_scalar(value)


def pretty_flow(value: Any, look: Look, indent: str, step: str) -> list[str]:
    """A value as JSON-like lines; the first line has no indentation, the others stand at ``indent`` or
    deeper."""
    if look.json and isinstance(value, Mapping | list | tuple) and value:
        in_order = not look.as_given
        lines = json.dumps(value, indent=step or "  ", ensure_ascii=False, sort_keys=in_order).split("\n")
        if all(line == line.strip("\x7f\x85\u2028\u2029\ufeff") and line.isprintable() for line in lines):
            return lines[:1] + [indent + line for line in lines[1:]]
    return [inline_value(value, look)]


def is_block(value: Any) -> bool:
    """True for values that a block style writes on lines of their own."""
    return isinstance(value, Mapping | list | tuple) and bool(value)


def text_lines(text: str, look: Look, indent: int) -> list[str]:
    """A string behind its indicator: one line, or a block header followed by content lines at ``indent``."""
    # A block that keeps trailing blank lines would take in those that follow it in the file.
    if not look.flow and not look.json and fits_literal(text) and not text.endswith("\n\n"):
        header, lines = literal_lines(text)
        return [header] + [" " * indent + line if line else "" for line in lines]
    return [inline_text(text, look)]


def _same_kind(like: Node | None, kind: Kind) -> Node | None:
    """The model node when it is of that kind and holds something, else None."""
    node = like.resolved() if like is not None else None
    return node if node is not None and node.kind is kind and (node.items or node.entries) else None


def _ordered_keys(value: Mapping[str, Any], model: Node | None, look: Look) -> list[str]:
    """Keys in the model's order, the others behind them in the look's."""
    keys = look.keys(value)
    if model is None:
        return keys
    rank = {key.text: index for index, (key, _value) in enumerate(model.entries)}
    return sorted(keys, key=lambda key: rank.get(key, len(rank)))


def mapping_lines(
    value: Mapping[str, Any], look: Look, column: int, *, like: Node | None = None
) -> list[str]:
    """A mapping as block lines at a column; ``like`` is a node to take key order and styles from."""
    model = _same_kind(like, Kind.MAPPING)
    likes = {key.text: node for key, node in model.entries} if model is not None else {}
    if model is not None and not model.flow:
        look = replace(look, key_quote=common_quote((key for key, _value in model.entries), flow=False))
    lines: list[str] = []
    for key in _ordered_keys(value, model, look):
        lines += entry_lines(key, value[key], look, column, like=likes.get(key))
    return lines


def entry_lines(key: str, value: Any, look: Look, column: int, *, like: Node | None = None) -> list[str]:
    """One entry of a block mapping."""
    pad = " " * column
    label = inline_key(key, look)
    if len(label) > _MAX_SIMPLE_KEY:
        pad, label = f"{pad}? {label}\n{pad}", ""
    first, rest = _value_lines(value, look, like, column + look.style.step, column + look.style.dash)
    return [*f"{pad}{label}:{' ' if first else ''}{first}".split("\n"), *rest]


def _value_lines(
    value: Any, look: Look, like: Node | None, column: int, dash_column: int
) -> tuple[str, list[str]]:
    """Text behind the indicator (empty for block collections) and the lines below."""
    nested = replace(look, quote="", key_quote=look.style.key_quote)
    if is_block(value):
        kind = Kind.MAPPING if isinstance(value, Mapping) else Kind.SEQUENCE
        model = _same_kind(like, kind)
        if look.flow or (model is not None and model.flow):
            return inline_value(value, flow_look(model, look) if model is not None else look, like=model), []
        if isinstance(value, Mapping):
            return "", mapping_lines(value, nested, column, like=model)
        return "", sequence_lines(value, nested, dash_column, like=model)
    if isinstance(value, str):
        if like is not None and not look.quote and like.kind is Kind.SCALAR:
            look = replace(look, quote=common_quote((like,), flow=look.flow))
        first, *rest = text_lines(value, look, column)
        return first, rest
    return inline_value(value, look), []


def sequence_lines(
    value: list[Any] | tuple[Any, ...], look: Look, column: int, *, like: Node | None = None
) -> list[str]:
    """A sequence as block lines whose dashes stand at a column."""
    model = _same_kind(like, Kind.SEQUENCE)
    likes = model.items if model is not None else []
    quote = common_quote(likes, flow=False)
    lines: list[str] = []
    for index, item in enumerate(value):
        model_item = likes[min(index, len(likes) - 1)] if likes else None
        lines += item_lines(item, replace(look, quote=quote), column, offset=look.style.gap, like=model_item)
    return lines


def item_lines(
    value: Any, look: Look, column: int, *, offset: int = 2, like: Node | None = None
) -> list[str]:
    """One item of a block sequence; its content begins ``offset`` columns behind the dash."""
    pad = " " * column + "-" + " " * (offset - 1)
    first, rest = _value_lines(value, look, like, column + offset, column + offset)
    if first:
        return [pad + first, *rest]
    return [pad + rest[0][column + offset :], *rest[1:]]


def flow_look(node: Node, look: Look) -> Look:
    """The look of text between a flow collection's brackets."""
    nodes = node.items if node.kind is Kind.SEQUENCE else [value for _key, value in node.entries]
    json = look.json or _is_json(node)
    quote = "" if json else common_quote(nodes, flow=True)
    if not (quote or json) and nodes and all(item.style in ("'", '"') for item in nodes):
        quote = look.style.list_quote  # quoted by need, which tells no habit
    keys = "" if json else common_quote((key for key, _value in node.entries), flow=True)
    return replace(look, flow=True, json=json, quote=quote, key_quote=keys)


def _is_json(node: Node) -> bool:
    """True for a flow mapping whose keys are all double-quoted, and for lists of such."""
    if node.kind is Kind.MAPPING:
        return node.flow and bool(node.entries) and all(key.style == '"' for key, _value in node.entries)
    return (
        node.flow
        and bool(node.items)
        and all(item.kind is Kind.MAPPING and _is_json(item) for item in node.items)
    )
