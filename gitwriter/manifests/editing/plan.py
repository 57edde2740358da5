"""From the difference between a document and its target to edits of the text.

The planner walks the node tree and the target together. Where they agree it touches nothing; where they
differ it plans the smallest edit of that node: a scalar is respelt, an entry's lines are cut or added, an
item is moved with its comments. Nodes in ``forced`` are rewritten instead: the fallback when a first result
did not read back as intended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..loading import Constructor, key_of
from ..nodes import Kind, Node, Tree
from .alignment import Alignment, align
from .anchors import AnchorTargets, merge_plan
from .block import BlockEntries, BlockItems
from .compare import equal_as_kubernetes, equal_scalars
from .flow import FlowMembers
from .openblock import closing
from .render import Look, flow_look
from .replacing import Place, replace_node
from .source import Edit, PlanConflict, Source, apply_edits, clear_of
from .spelling import respell
from .style import common_quote, document_style, item_quote, local_style

NodeKey = tuple[int, int]


def node_key(node: Node) -> NodeKey:
    """Identity of a node within one parse of one text."""
    return (node.start, int(node.kind))


@dataclass(frozen=True, slots=True)
class Plan:
    """The edits, and the nodes that they touch (innermost first)."""

    edits: tuple[Edit, ...]
    touched: tuple[Node, ...]


class Planner:
    """Plans the edits for one document; one instance, one plan."""

    def __init__(
        self,
        source: Source,
        tree: Tree,
        *,
        forced: Collection[NodeKey] = (),
        part_moved: bool = False,
        as_given: bool = False,
    ) -> None:
        self.source = source
        self._tree = tree
        self._forced = frozenset(forced)
        self._part_moved = part_moved
        self._constructor = Constructor(set())
        self._alignments: dict[int, Alignment] = {}
        self._anchors: AnchorTargets | None = None
        self.touched: list[Node] = []
        self.rewrote_block = False
        assert tree.root is not None
        self._look = Look(document_style(tree.root, source), as_given=as_given)

    def plan(self, target: Mapping[str, Any]) -> Plan:
        """Plan the edits that turn the document into the target; raises PlanConflict."""
        root = self._tree.root
        assert root is not None
        if "anchor" in self._tree.constructs:
            self._anchors = AnchorTargets(self.value_of, self.alignment, part_moved=self._part_moved)
            self._anchors.collect(root, target)
        edits: list[Edit] = []
        self.value(root, target, Place(after=root.start, column=0, is_root=True), self._look, edits)
        edits += closing(self.source, root, edits)
        return Plan(tuple(edits), tuple(self.touched))

    def value_of(self, node: Node) -> Any:
        """Value of a node before the edit."""
        return self._constructor.value_of(node)

    def alignment(self, node: Node, target: list[Any]) -> Alignment:
        """How the items of a sequence match those of its target; the same answer for the same node every
        time."""
        known = self._alignments.get(id(node))
        if known is None or len(known.match) != len(target):
            known = self._alignments[id(node)] = align([self.value_of(item) for item in node.items], target)
        return known

    def value(self, node: Node, target: Any, place: Place, look: Look, edits: list[Edit]) -> None:
        """Plan what turns one node into its target."""
        if node_key(node) in self._forced:
            if node.style in ("|", ">") and isinstance(target, str):
                self._scalar(node, target, place, look, edits, explicit=True)
            else:
                self._replace(node, target, place, look, edits)
            return
        if node.kind is Kind.ALIAS:
            if self._anchors is None or not self._anchors.alias_stays(node, target):
                self._replace(node, target, place, look, edits)
        elif self._is_left_alone(node, target):
            return
        elif target and _same_shape(node, target):
            done = len(edits)
            try:
                if isinstance(target, Mapping):
                    self._mapping(node, target, place, look, edits)
                else:
                    self._sequence(node, list(target), place, look, edits)
            except PlanConflict:
                del edits[done:]
                self._replace(node, target, place, look, edits)
                self.rewrote_block = True
        elif node.kind is Kind.SCALAR and not isinstance(target, Mapping | list | tuple):
            if not equal_scalars(self.value_of(node), target):
                self._scalar(node, target, place, look, edits)
        elif not equal_as_kubernetes(self.value_of(node), target):
            self._replace(node, target, place, look, edits)

    def _is_left_alone(self, node: Node, target: Any) -> bool:
        """An equal node, unless a part of it has to be rewritten because of what comes to stand beside it."""
        if self._anchors is not None or any(node.start <= start < node.end for start, _ in self._forced):
            return False
        return equal_as_kubernetes(self.value_of(node), target)

    def _replace(self, node: Node, target: Any, place: Place, look: Look, edits: list[Edit]) -> None:
        self.touched.append(node)
        edits += replace_node(self.source, node, target, place, look)

    def _scalar(
        self,
        node: Node,
        target: Any,
        place: Place,
        look: Look,
        edits: list[Edit],
        *,
        explicit: bool = False,
    ) -> None:
        unblock = node.style in ("|", ">") and not isinstance(target, str)
        if node.tag is not None or node.body >= node.end or unblock:
            self._replace(node, target, place, look, edits)
            return
        self.touched.append(node)
        first, *rest = respell(self.source, node, target, look, parent_column=place.column, explicit=explicit)
        edits.append(self.source.without_blank_tail(node, Edit(node.body, node.end, first)))
        if rest:
            newline = self.source.newline_at(node.end)
            below = self.source.line_end(node.end)
            edits.append(Edit(below, below, "".join(line + newline for line in rest)))

    def _mapping(
        self, node: Node, target: Mapping[str, Any], place: Place, look: Look, edits: list[Edit]
    ) -> None:
        if not node.entries:
            self._replace(node, target, place, look, edits)
            return
        merges = merge_plan(node, target, self._anchors, self.value_of)
        removed: set[int] = set()
        present: set[str] = set()
        kept: list[tuple[int, str]] = []
        for index, (key_node, _value_node) in enumerate(node.entries):
            if key_node.is_merge_key():
                if merges.dropped:
                    removed.add(index)
                continue
            key = key_of(key_node)
            present.add(key)
            if key in target:
                kept.append((index, key))
            else:
                removed.add(index)
        added = [key for key in target if key not in present and not merges.supplies(key, target[key])]
        if len(removed) == len(node.entries):
            self._replace(node, target, place, look, edits)
            return
        if removed or added:
            self.touched.append(node)
        if node.flow:
            inner = flow_look(node, look)
            for index, key in kept:
                self.value(node.entries[index][1], target[key], place, inner, edits)
            if removed or added:
                members = FlowMembers(self.source, node)
                members.change(removed, {key: target[key] for key in added}, [], inner, edits)
            return
        look = self._local(node, look)
        entries, since = BlockEntries(self.source, node), len(edits)
        for index, key in kept:
            value_node = node.entries[index][1]
            if not entries.lacks_colon(index):
                self.value(value_node, target[key], entries.place_of(index), look, edits)
            elif target[key] is not None:
                self.touched.append(value_node)
                edits.append(entries.give_value(index, target[key], look))
        entries.remove(removed, edits)
        quote = common_quote((value for _key, value in node.entries), flow=False) if added else ""
        entries.add({key: target[key] for key in added}, look, quote, edits, since=since)

    def _local(self, node: Node, look: Look) -> Look:
        """The look below a block collection."""
        style = local_style(node, self.source, look.style)
        return look if style is look.style else replace(look, style=style)

    def _item_quote(self, node: Node, target: list[Any], *, flow: bool) -> str:
        """The quote of the list's new items; empty where there are none."""
        match = self.alignment(node, target).match
        if None not in match:
            return ""
        becomes = {old: value for old, value in zip(match, target, strict=True) if old is not None}
        return item_quote(((item, becomes.get(index)) for index, item in enumerate(node.items)), flow=flow)

    def _sequence(self, node: Node, target: list[Any], place: Place, look: Look, edits: list[Edit]) -> None:
        if not node.items:
            self._replace(node, target, place, look, edits)
            return
        match = self.alignment(node, target).match
        slots = sorted(index for index in match if index is not None)
        removed = set(range(len(node.items))).difference(slots)
        added = len(match) > len(slots)
        if removed or added:
            self.touched.append(node)
        if not slots and (node.flow or not self.source.begins_line(node.body)):
            self._replace(node, target, place, look, edits)
        elif node.flow:
            self._flow_sequence(node, target, slots, look, edits)
        else:
            self._block_sequence(node, target, slots, look, edits)

    def _block_sequence(
        self, node: Node, target: list[Any], slots: list[int], look: Look, edits: list[Edit]
    ) -> None:
        """Items that stay share out the places of their kind: what lies between the places stays there."""
        match = self.alignment(node, target).match
        items = BlockItems(self.source, node)
        removed = set(range(len(node.items))).difference(slots)
        if not items.first_begins_line and (slots[0] != 0 or match[0] != 0):
            if match[0] != slots[0]:
                edits.append(self._behind_a_dash(items, node, target, slots, look))
                return
            edits.append(items.cut_up_to(slots[0]))
            removed -= set(range(slots[0]))
        look, quote = self._local(node, look), self._item_quote(node, target, flow=False)
        free = iter(slots)
        position = items.front()
        for index, value in enumerate(target):
            old = match[index]
            if old is None:
                edits.append(items.insertion(position, value, look, quote))
                continue
            slot, since = next(free), len(edits)
            if slot == old:
                self.value(node.items[old], value, items.place_of(old), look, edits)
            else:
                inner: list[Edit] = []
                self.value(node.items[old], value, items.place_of(old), look, inner)
                start, end = items.chunk(old)
                text = apply_edits(self.source.work, inner, start=start, end=end)
                edits.append(Edit(*items.chunk(slot), text))
            position = clear_of(edits[since:], items.chunk(slot)[1])
        edits += [Edit(*items.chunk(index), "") for index in sorted(removed)]

    def _behind_a_dash(
        self, items: BlockItems, node: Node, target: list[Any], slots: list[int], look: Look
    ) -> Edit:
        """The items of a list that begins on its parent's line, where another one comes to stand first."""
        match = self.alignment(node, target).match
        look, quote = self._local(node, look), self._item_quote(node, target, flow=False)
        free, place = iter(slots), 0
        parts: list[str] = []
        for index, value in enumerate(target):
            old = match[index]
            if old is None:
                parts.append(items.insertion(items.chunk(0)[1], value, look, quote).text)
                continue
            slot = next(free)
            parts += [items.gap(number) for number in range(place, slot)]
            place = slot
            inner: list[Edit] = []
            self.value(node.items[old], value, items.place_of(old), look, inner)
            start, end = items.own_chunk(old)
            indent = " " * items.column if start != items.chunk(old)[0] else ""
            parts.append(indent + apply_edits(self.source.work, inner, start=start, end=end))
        last = len(node.items) - 1
        parts += [items.gap(number) for number in range(place, last)]
        return Edit(items.own_chunk(0)[0], items.chunk(last)[1], "".join(parts).lstrip(" \r\n"))

    def _flow_sequence(
        self, node: Node, target: list[Any], slots: list[int], look: Look, edits: list[Edit]
    ) -> None:
        place = Place(after=node.body, column=0)
        match = self.alignment(node, target).match
        inner = flow_look(node, look)
        if not (inner.quote or inner.json):
            inner = replace(inner, quote=self._item_quote(node, target, flow=True))
        members = FlowMembers(self.source, node)
        inserted: list[tuple[int | None, str]] = []
        free = iter(slots)
        slot: int | None = None
        for index, value in enumerate(target):
            old = match[index]
            if old is None:
                inserted.append((slot, members.render(value, inner)))
                continue
            slot = next(free)
            item, place_of_item = node.items[old], node.items[slot]
            if slot == old:
                self.value(item, value, place, inner, edits)
                continue
            nested: list[Edit] = []
            self.value(item, value, place, inner, nested)
            text = apply_edits(self.source.work, nested, start=item.start, end=item.end)
            edits.append(Edit(place_of_item.start, place_of_item.end, text))
        members.change(set(range(len(node.items))).difference(slots), {}, inserted, inner, edits)


def _same_shape(node: Node, target: Any) -> bool:
    if node.kind is Kind.MAPPING:
        return isinstance(target, Mapping)
    return node.kind is Kind.SEQUENCE and isinstance(target, list | tuple)
