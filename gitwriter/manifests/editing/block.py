"""Entries and items of block collections as runs of whole lines.

A removed entry takes the comment lines directly above it along, and the deeper ones below it; everything else
stays. New entries go behind the last one, before any comment tail that stands in the same column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..emitter import sorted_keys
from ..nodes import Node
from .models import entry_model, item_model
from .render import Look, entry_lines, item_lines
from .replacing import Place
from .source import Edit, PlanConflict, Source, clear_of
from .style import common_quote

_COMMENTED_ITEM = re.compile(r"^ *#( ?)- .*\n(?: *#\1  .*\n)*", re.MULTILINE)


class BlockEntries:
    """The entries of one block mapping."""

    def __init__(self, source: Source, node: Node) -> None:
        self._source = source
        self._entries = node.entries
        self.column = source.column(self._start(0))

    def _start(self, index: int) -> int:
        """Offset of the entry: its key, or the ``?`` before an explicit key."""
        key = self._entries[index][0]
        line = self._source.line_start(key.start)
        before = self._source.work[line : key.start].rstrip(" ")
        if before.endswith("?") and (len(before) == 1 or before[-2] in " -"):
            return line + len(before) - 1
        return key.start

    def lacks_colon(self, index: int) -> bool:
        """True for an explicit key alone on its line (``? key``), whose value is null."""
        key, value = self._entries[index]
        return value.end == key.end

    def give_value(self, index: int, value: Any, look: Look) -> Edit:
        """A value below an explicit key that has none."""
        position = self._source.line_end(self._entries[index][0].end)
        newline = self._source.newline_at(position - 1)
        first, *rest = entry_lines("k", value, look, self.column)
        lines = (first.replace("k:", ":", 1), *rest)
        return Edit(position, position, "".join(line + newline for line in lines))

    def place_of(self, index: int) -> Place:
        """Where the entry's value stands."""
        key = self._entries[index][0]
        explicit = self._start(index) != key.start
        colon = self._source.skip_trivia(key.end) if explicit else self._source.skip_blanks(key.end)
        if self._source.work[colon : colon + 1] != ":":
            raise PlanConflict("a key without a colon")
        return Place(after=colon + 1, column=self.column)

    def _content_stop(self, index: int) -> int:
        key, value = self._entries[index]
        return max(self._source.content_end(value), key.end)

    def _end(self, index: int) -> int:
        """Line start behind the entry and the deeper comments that follow it."""
        stop = self._source.line_end(self._content_stop(index))
        return self._source.after_deeper_comments(stop, self.column)

    def remove(self, removed: Collection[int], edits: list[Edit]) -> None:
        """Cut entries; at least one entry stays."""
        source = self._source
        first_kept = next(index for index in range(len(self._entries)) if index not in removed)
        for index in sorted(removed):
            start = self._start(index)
            if source.begins_line(start):
                top = self._top(index)
                edits.append(Edit(top, self._end(index), ""))
            elif index == 0:
                # The first entry shares its line with a dash: what follows moves up to the dash.
                end = source.line_end(self._content_stop(first_kept - 1))
                follow = source.skip_blanks(end)
                while source.work[follow : follow + 1] in ("\r", "\n"):
                    follow = source.skip_blanks(follow + 1)
                edits.append(Edit(start, follow, ""))
                removed = [other for other in removed if other >= first_kept]
                self.remove_whole_lines(removed, edits)
                return

    def remove_whole_lines(self, removed: Collection[int], edits: list[Edit]) -> None:
        """Cut entries that stand on lines of their own."""
        for index in sorted(removed):
            edits.append(Edit(self._top(index), self._end(index), ""))

    def _top(self, index: int) -> int:
        """Line start of the entry's first comment line.

        Items that are commented out below a list whose dashes stand in the column of the keys belong to that
        list, though a comment directly above a key is the key's.
        """
        source = self._source
        line = source.line_start(self._start(index))
        top = source.with_leading_comments(line, self.column)
        above = self._entries[index - 1][1] if index else None
        if above is None or above.flow or not above.items or source.column(above.body) != self.column:
            return top
        items = list(_COMMENTED_ITEM.finditer(source.work, top, line))
        return items[-1].end() if items else top

    def add(
        self, added: Mapping[str, Any], look: Look, quote: str, edits: list[Edit], *, since: int = 0
    ) -> None:
        """Put new entries behind the last one; the edits from ``since`` on are this mapping's own."""
        if not added:
            return
        position = clear_of(edits[since:], self._end(len(self._entries) - 1))
        newline = self._source.newline_at(max(position - 1, 0))
        lines: list[str] = []
        look = replace(
            look, quote=quote, key_quote=common_quote((key for key, _ in self._entries), flow=False)
        )
        for key in sorted_keys(added):
            lines += entry_lines(
                key, added[key], look, self.column, like=entry_model(self._entries, added[key])
            )
        edits.append(Edit(position, position, "".join(line + newline for line in lines)))


class BlockItems:
    """The items of one block sequence."""

    def __init__(self, source: Source, node: Node) -> None:
        self._source = source
        self._items = node.items
        self._dashes = [node.body]
        for item in node.items[:-1]:
            start = max(source.content_end(item), self._dashes[-1] + 1)
            self._dashes.append(source.skip_trivia(start))
        if any(source.work[dash : dash + 1] != "-" for dash in self._dashes):
            raise PlanConflict("a list item without a dash")
        self.column = source.column(self._dashes[0])
        self.first_begins_line = source.begins_line(self._dashes[0])

    def place_of(self, index: int) -> Place:
        """Where the item's value stands."""
        return Place(after=self._dashes[index] + 1, column=self.column, is_item=True)

    def chunk(self, index: int) -> tuple[int, int]:
        """The item's lines with the comments that travel with it."""
        source, dash = self._source, self._dashes[index]
        stop = max(source.content_end(self._items[index]), dash + 1)
        start = source.line_start(dash)
        if index or self.first_begins_line:
            start = source.with_leading_comments(start, self.column)
        return start, source.after_deeper_comments(source.line_end(stop), self.column)

    def own_chunk(self, index: int) -> tuple[int, int]:
        """The same, from its dash on where that is on the line of the parent's."""
        start, end = self.chunk(index)
        return (start, end) if index or self.first_begins_line else (self._dashes[0], end)

    def gap(self, index: int) -> str:
        """What lies between an item's lines and those of the next one."""
        return self._source.work[self.chunk(index)[1] : self.chunk(index + 1)[0]]

    def cut_up_to(self, index: int) -> Edit:
        """Cut the items before one that moves up to the dash with which the list begins; a comment above it
        moves along."""
        end = self.chunk(index - 1)[1]
        follow = self._source.skip_blanks(end)
        while self._source.work[follow : follow + 1] in ("\r", "\n"):
            follow = self._source.skip_blanks(follow + 1)
        return Edit(self._dashes[0], follow, "")

    def front(self) -> int:
        """Where an item before the first one goes."""
        return self.chunk(0)[0]

    def insertion(self, position: int, value: Any, look: Look, quote: str) -> Edit:
        """A new item at a line start, written as its siblings are."""
        newline = self._source.newline_at(max(position - 1, 0))
        look = replace(look, quote=quote)
        lines = item_lines(
            value, look, self.column, offset=self._content_offset(), like=item_model(self._items, value)
        )
        return Edit(position, position, "".join(line + newline for line in lines))

    def _content_offset(self) -> int:
        source = self._source
        for dash, item in zip(reversed(self._dashes), reversed(self._items), strict=True):
            same_line = source.line_start(dash) == source.line_start(item.start)
            if same_line and item.start > dash and not source.work[dash + 1 : item.start].strip():
                return max(item.start - dash, 2)
        return 2
