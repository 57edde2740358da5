"""The document's text with its lines, and edits that do not overlap.

Positions are characters of the parsed text. ``work`` is that text with a final newline added where it lacks
one, so that whole-line edits need no special case at the end of a file; the missing newline is taken off
again at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..nodes import Kind, Node

_HEADER = re.compile(r"[|>][1-9+-]*")
_TEXT = re.compile(r"[^ \t\r\n]")


class PlanConflict(Exception):
    """Two edits touch the same text, or a shape of text that the planner does not know; a wider rewrite is
    needed."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``[start, end)`` by ``text``."""

    start: int
    end: int
    text: str


def clear_of(edits: Sequence[Edit], position: int) -> int:
    """The position, or the end of the edit in whose range it lies: a block that takes in the blank lines
    behind it ends later than it did.
    """
    return max((edit.end for edit in edits if edit.start < position < edit.end), default=position)


def apply_edits(text: str, edits: Sequence[Edit], *, start: int = 0, end: int | None = None) -> str:
    """The slice ``[start, end)`` of the text with the edits made; raises PlanConflict where they overlap."""
    stop = len(text) if end is None else end
    parts: list[str] = []
    position = start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position or edit.end > stop:
            raise PlanConflict("edits overlap")
        parts += (text[position : edit.start], edit.text)
        position = edit.end
    parts.append(text[position:stop])
    return "".join(parts)


class Source:
    """Line arithmetic on one document."""

    __slots__ = ("added_newline", "newline", "text", "work")

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.added_newline = not text.endswith("\n")
        self.work = text + self.newline if self.added_newline else text

    def finish(self, result: str) -> str:
        """Take off the final newline (and blank lines laid bare) where the original ends without one."""
        return result.rstrip("\r\n") if self.added_newline else result

    def line_start(self, position: int) -> int:
        """Offset of the first character of the line."""
        return self.work.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """Offset behind the line's newline."""
        found = self.work.find("\n", position)
        return len(self.work) if found < 0 else found + 1

    def line_stop(self, position: int) -> int:
        """Offset of the line's newline (of its CR in a CRLF file)."""
        end = self.line_end(position)
        end -= self.work.endswith("\n", 0, end)
        return end - self.work.endswith("\r", 0, end) if end else end

    def newline_at(self, position: int) -> str:
        """The line ending in use around a position."""
        end = self.line_end(position)
        return "\r\n" if self.work.endswith("\r\n", 0, end) else "\n"

    def column(self, position: int) -> int:
        """Column of a position."""
        return position - self.line_start(position)

    def indent(self, position: int) -> str:
        """The blanks with which the line begins."""
        start = self.line_start(position)
        return self.work[start : self.skip_blanks(start)]

    def begins_line(self, position: int) -> bool:
        """True when only blanks stand before the position on its line."""
        return not self.work[self.line_start(position) : position].strip()

    def skip_trivia(self, position: int) -> int:
        """The next character that is neither blank, line break nor comment."""
        work, size = self.work, len(self.work)
        while position < size:
            char = work[position]
            if char in " \t\r\n":
                position += 1
            elif char == "#" and (position == 0 or work[position - 1] in " \t\r\n"):
                position = self.line_end(position)
            else:
                break
        return position

    def skip_blanks(self, position: int) -> int:
        """The next character that is not a blank."""
        work, size = self.work, len(self.work)
        while position < size and work[position] in " \t":
            position += 1
        return position

    def block_header_end(self, node: Node) -> int:
        """Offset behind the indicator of a block scalar."""
        match = _HEADER.match(self.work, node.body)
        if match is None:
            raise PlanConflict("no block indicator")
        return match.end()

    def content_end(self, node: Node) -> int:
        """Offset behind the last character that belongs to the node, never behind its last newline."""
        while not node.flow:
            if node.entries:
                node = node.entries[-1][1]
            elif node.items:
                node = node.items[-1]
            else:
                break
        if node.kind is not Kind.SCALAR or node.style not in ("|", ">"):
            return node.end
        header_end = self.block_header_end(node)
        if "+" in self.work[node.body : header_end]:
            stop = self.line_stop(max(node.end - 1, node.body)) if node.end > node.body else node.end
            return max(stop, header_end)
        if node.style == "|":
            position = self.line_stop(header_end)
            stripped = node.text.rstrip("\n")
            for _ in range(stripped.count("\n") + 1 if stripped else 0):
                position = self.line_stop(self.line_end(position))
            return min(position, len(self.work))
        return max(header_end, node.body + len(self.work[node.body : node.end].rstrip(" \t\r\n")))

    def without_blank_tail(self, node: Node, edit: Edit) -> Edit:
        """An edit of a block scalar without the blank lines behind its text, unless they become its own:
        what is added behind the scalar stands before them.
        """
        if node.style not in ("|", ">") or "+" in edit.text.split("\n", 1)[0].split("#", 1)[0]:
            return edit
        stop = self.line_end(self.content_end(node))
        tail = self.work[stop : edit.end]
        if not tail or tail.strip() or not edit.text.endswith("\n" + tail):
            return edit
        return Edit(edit.start, stop, edit.text.removesuffix(tail))

    def after_deeper_comments(self, position: int, column: int) -> int:
        """Move a line start past following comment lines that are indented deeper than ``column``."""
        work = self.work
        text = _TEXT.search(work, position)
        while text is not None and text[0] == "#":
            start = self.line_start(text.start())
            if text.start() - start <= column or work[start : text.start()].strip(" "):
                break
            position = self.line_end(text.start())
            text = _TEXT.search(work, position)
        return position

    def with_leading_comments(self, position: int, column: int) -> int:
        """Move a line start up over the comment lines directly above that stand in the same column."""
        while position > 0:
            above = self.work.rfind("\n", 0, position - 1) + 1
            line = self.work[above:position]
            if line.lstrip(" ")[:1] != "#" or len(line) - len(line.lstrip(" ")) != column:
                break
            position = above
        return position
