"""What anchors, aliases and merge keys will mean after the edit.

An alias may stay only where the anchor's new value is the value wanted at the alias; else it is written out
at that place alone. A merge supplies a key only where the merged mapping's new value for it is the wanted
one; a wanted difference becomes an own key, and a merge that would bring in an unwanted key is dropped, its
other keys written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..loading import key_of
from ..nodes import Kind, Node
from .alignment import Alignment
from .compare import equal_as_kubernetes

GONE: Final = object()


class AnchorTargets:
    """The value that each anchored node will have, or GONE.

    With ``part_moved`` an alias is not trusted across the border of a list item that moves: the alias might
    come to stand before its anchor.
    """

    def __init__(
        self,
        value_of: Callable[[Node], Any],
        alignment: Callable[[Node, list[Any]], Alignment],
        *,
        part_moved: bool = False,
    ) -> None:
        self._value_of = value_of
        self._alignment = alignment
        self._part_moved = part_moved
        self._new: dict[int, Any] = {}
        self._home: dict[int, int] = {}  # anchored node or alias -> the innermost moving item around it

    def collect(self, node: Node, target: Any, home: int = 0) -> None:
        """Record the targets of every anchored node at and below a node."""
        if node.anchor is not None:
            self._new[id(node)] = target
        if node.anchor is not None or node.target is not None:
            self._home[id(node)] = home
        if node.kind is Kind.MAPPING:
            wanted = target if isinstance(target, Mapping) and target else None
            for key_node, value_node in node.entries:
                if key_node.anchor is not None:
                    self._new[id(key_node)] = self._value_of(key_node)
                if key_node.is_merge_key():
                    self.collect(value_node, GONE if wanted is None else self._value_of(value_node), home)
                    continue
                key = key_of(key_node)
                below = wanted[key] if wanted is not None and key in wanted else GONE
                self.collect(value_node, below, home)
        elif node.kind is Kind.SEQUENCE:
            found: dict[int, Any] = {}
            staying: frozenset[int] = frozenset(range(len(node.items)))
            if isinstance(target, list) and target:
                alignment = self._alignment(node, target)
                found = {old: target[new] for new, old in enumerate(alignment.match) if old is not None}
                staying = alignment.staying
            for index, item in enumerate(node.items):
                self.collect(item, found.get(index, GONE), home if index in staying else id(item))

    def new_value(self, node: Node) -> Any:
        """The value that a node (an alias: its anchor) will have, or GONE."""
        if node.target is None:
            return self._value_of(node)
        if self._part_moved and self._home.get(id(node)) != self._home.get(id(node.target)):
            return GONE
        return self._new.get(id(node.target), GONE)

    def alias_stays(self, alias: Node, target: Any) -> bool:
        """True when the alias will read as its target."""
        value = self.new_value(alias)
        return value is not GONE and equal_as_kubernetes(value, target)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a mapping's merge keys bring in, and whether they have to go."""

    dropped: bool = False
    supplied: dict[str, Any] = field(default_factory=dict)

    def supplies(self, key: str, value: Any) -> bool:
        """True when the merge brings in the key with the wanted value."""
        return not self.dropped and key in self.supplied and equal_as_kubernetes(self.supplied[key], value)


_NO_MERGE: Final = MergePlan()


def merge_plan(
    node: Node, target: Mapping[str, Any], anchors: AnchorTargets | None, value_of: Callable[[Node], Any]
) -> MergePlan:
    """Decide about the merge keys of one mapping."""
    if not any(key_node.is_merge_key() for key_node, _value in node.entries):
        return _NO_MERGE
    supplied: dict[str, Any] = {}
    own_before: set[str] = set()
    for key_node, value_node in node.entries:
        if not key_node.is_merge_key():
            own_before.add(key_of(key_node))
            continue
        resolved = value_node.resolved()
        sources = resolved.items[::-1] if resolved.kind is Kind.SEQUENCE else [value_node]
        for source in sources:
            value = value_of(source) if anchors is None else anchors.new_value(source)
            if not isinstance(value, Mapping):
                return MergePlan(dropped=True)
            supplied.update(value)
            # The Kubernetes reader lets a later merge override an earlier own key.
            if any(
                key in value and not equal_as_kubernetes(value[key], target.get(key)) for key in own_before
            ):
                return MergePlan(dropped=True)
    return MergePlan(dropped=any(key not in target for key in supplied), supplied=supplied)
