"""How to continue when an edit did not read back as intended: rewrite more, a step at a time.

First the node at which the result differs, then the block that holds it; when only the root is left, the
document.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ..loading import key_of
from ..nodes import Kind, Node
from .compare import Path
from .plan import NodeKey, Planner, node_key


class Fallback(IntEnum):
    """How much had to be rewritten to get the result."""

    NONE = 0
    NODE = 1
    PARENT = 2
    DOCUMENT = 3


class Parents:
    """Finds what to rewrite next: the suspected nodes first, then what holds them."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._parent: dict[NodeKey, Node] = {}
        stack = [root]
        while stack:
            node = stack.pop()
            for child in (*node.items, *(value for _key, value in node.entries)):
                self._parent[node_key(child)] = node
                stack.append(child)

    def widen(self, suspects: list[Node], forced: set[NodeKey]) -> Fallback | None:
        """Add nodes to ``forced``; None when only the whole document is left."""
        level = Fallback.NODE
        added = False
        for suspect in suspects:
            node = suspect
            while node is not self._root and node_key(node) in forced:
                level = Fallback.PARENT
                node = self._parent[node_key(node)]
            if node is not self._root:
                forced.add(node_key(node))
                added = True
                if node.kind is not Kind.SCALAR:
                    level = Fallback.PARENT
        return level if added else None


def node_at(planner: Planner, root: Node | None, target: Any, path: Path) -> Node:
    """The deepest node of the old tree that lies on the path into the target."""
    assert root is not None
    node = root
    for step in path:
        child: Node | None = None
        if node.kind is Kind.MAPPING and isinstance(step, str):
            child = next(
                (value for key, value in node.entries if not key.is_merge_key() and key_of(key) == step), None
            )
            target = target.get(step) if isinstance(target, Mapping) else None
        elif node.kind is Kind.SEQUENCE and isinstance(step, int) and isinstance(target, list):
            match = planner.alignment(node, target).match
            old = match[step] if step < len(match) else None
            child = node.items[old] if old is not None else None
            target = target[step] if step < len(target) else None
        if child is None:
            break
        node = child
    return node
