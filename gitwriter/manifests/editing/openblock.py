"""A block scalar at the end of a file that lacks its last newline.

Whether the value ends in a newline then depends on the reader: kubectl says yes, kustomize no. The live
object shows which reading was applied, and neither counts as a change. Text added behind such a block gives
it the newline for every reader, so the block header has to say that its value has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..nodes import Kind, Node
from .source import Edit, PlanConflict, Source


def open_block(root: Node | None, text: str) -> Node | None:
    """The block scalar that ends the text without its newline, or None."""
    node = root
    if node is None or text.endswith("\n"):
        return None
    while not node.flow and (node.entries or node.items):
        node = node.entries[-1][1] if node.entries else node.items[-1]
    if node.kind is not Kind.SCALAR or node.style not in ("|", ">") or node.end < len(text):
        return None
    header = text[node.body : text.find("\n", node.body)].split("#", maxsplit=1)[0]
    return None if "-" in header or not node.text or node.text.endswith("\n") else node


def is_closed_in(block: Node, desired: Mapping[str, Any]) -> bool:
    """True when the desired object holds the block's text with a newline at its end, and nowhere without."""
    found: set[str] = set()
    stack: list[Any] = [desired]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, Sequence) and not isinstance(value, str):
            stack.extend(value)
        elif (
            isinstance(value, str)
            and value.startswith(block.text)
            and value in (block.text, block.text + "\n")
        ):
            found.add(value)
    return found == {block.text + "\n"}


def closing(source: Source, root: Node, edits: Sequence[Edit]) -> list[Edit]:
    """The edits of an open block's header that text added behind the block makes necessary."""
    block = open_block(root, source.text)
    if block is None or any(edit.end > block.body and edit.start < block.end for edit in edits):
        return []
    if not any(edit.text and edit.start >= block.end for edit in edits):
        return []
    try:
        stop = source.block_header_end(block)
    except PlanConflict:
        return []
    if source.work[stop - 1] == "+":
        return [Edit(stop - 1, stop, "-")]
    return [Edit(stop, stop, "-")]


def reopened(text: str, block_text: str, reads_right: Callable[[str], bool]) -> str:
    """The edited text without its last newline, where it still ends in the very block or needs none."""
    bare = text.rstrip("\r\n")
    return bare if bare.endswith(block_text) or reads_right(bare) else text
