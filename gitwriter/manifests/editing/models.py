"""Which neighbour a new value is written like.

A new item of a list looks like the item that it has most keys in common with: the order of its keys, its
quotes, block or flow style. A new entry of a mapping takes over the flow style of its siblings where all of
them have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..nodes import Kind, Node
from .render import is_block

_LOOKED_AT = 50  # items at the end of a long list


def item_model(items: Sequence[Node], value: Any) -> Node | None:
    """The item of a list that a new one is written like, or None."""
    if isinstance(value, list | tuple):
        return next((item for item in items if item.kind is Kind.SEQUENCE), None)
    if not isinstance(value, Mapping):
        return None
    likes = [item for item in items[-_LOOKED_AT:] if item.resolved().kind is Kind.MAPPING]
    in_flow = sum(item.resolved().flow for item in likes)
    if 0 < in_flow < len(likes):
        likes = [item for item in likes if item.resolved().flow is (in_flow * 2 > len(likes))]
    return max(reversed(likes), key=lambda item: _shared(item, value), default=None)


def _shared(item: Node, value: Mapping[str, Any]) -> int:
    return sum(key.text in value for key, _value in item.resolved().entries)


def entry_model(entries: Sequence[tuple[Node, Node]], value: Any) -> Node | None:
    """A sibling value whose flow style a new collection follows: only where all such siblings have it, and
    one of them holds collections too where the new one does."""
    if not isinstance(value, Mapping | list):
        return None
    kind = Kind.MAPPING if isinstance(value, Mapping) else Kind.SEQUENCE
    siblings = [node for _key, node in entries if node.kind is kind and (node.items or node.entries)]
    if not all(node.flow for node in siblings):
        return None
    if any(map(is_block, value.values() if isinstance(value, Mapping) else value)):
        siblings = [node for node in siblings if _holds_collections(node)]
    return siblings[-1] if siblings else None


def _holds_collections(node: Node) -> bool:
    members = node.items or [value for _key, value in node.entries]
    return any(member.items or member.entries for member in members)
