"""Members of bracketed collections: on one line, or each on a line of its own.

Commas follow the members that stay: a list that ends in a comma keeps doing so, one that does not gets none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..emitter import sorted_keys
from ..nodes import Kind, Node
from .models import item_model
from .render import Look, inline_key, inline_value, pretty_flow
from .source import Edit, PlanConflict, Source


class FlowMembers:
    """The members of one flow mapping or sequence."""

    def __init__(self, source: Source, node: Node) -> None:
        self._source = source
        if source.work[node.body : node.body + 1] not in ("{", "["):
            raise PlanConflict("a flow pair without brackets")
        if node.kind is Kind.MAPPING:
            self._spans = [(key.start, max(key.end, value.end)) for key, value in node.entries]
        else:
            self._spans = [(item.start, item.end) for item in node.items]
        self._items = node.items
        self._own_lines = all(source.begins_line(start) for start, _end in self._spans)
        self._indent = source.indent(self._spans[0][0])
        self._close = node.end - 1
        self._step = self._indent.removeprefix(source.indent(node.body)) if self._own_lines else "  "

    def render(self, value: Any, look: Look, key: str | None = None) -> str:
        """A new member's text without a comma."""
        look = replace(look, compact=self._is_compact(look))
        if self._own_lines:
            lines = pretty_flow(value, look, self._indent, self._step)
        else:
            lines = [inline_value(value, look, like=item_model(self._items, value))]
        newline = self._source.newline_at(self._spans[0][0])
        text = newline.join(lines)
        if key is None:
            return text
        label = inline_key(key, look)
        return f"{label}:{text}" if look.compact else f"{label}: {text}"

    def change(
        self,
        removed: Collection[int],
        added: dict[str, Any],
        inserted: Sequence[tuple[int | None, str]],
        look: Look,
        edits: list[Edit],
    ) -> None:
        """Cut members and put in new ones (each behind the staying member of that index, None: in front)."""
        if not removed and not added and not inserted:
            return
        kept = [index for index in range(len(self._spans)) if index not in removed]
        texts = list(inserted)
        texts += [(kept[-1], self.render(added[key], look, key)) for key in sorted_keys(added)]
        if self._own_lines:
            self._change_lines(kept, removed, texts, edits)
        else:
            self._change_inline(kept, removed, texts, edits, separator=self._separator(look))

    def _change_inline(
        self,
        kept: list[int],
        removed: Collection[int],
        texts: Sequence[tuple[int | None, str]],
        edits: list[Edit],
        *,
        separator: str,
    ) -> None:
        for index in sorted(removed):
            if index < kept[-1]:
                edits.append(Edit(self._spans[index][0], self._spans[index + 1][0], ""))
        if len(self._spans) - 1 > kept[-1]:
            edits.append(Edit(self._spans[kept[-1]][1], self._spans[-1][1], ""))
        for previous, text in texts:
            if previous is None:
                edits.append(Edit(self._spans[0][0], self._spans[0][0], f"{text}{separator}"))
            else:
                end = self._spans[previous][1]
                edits.append(Edit(end, end, f"{separator}{text}"))

    def _is_compact(self, look: Look) -> bool:
        """True for JSON without blanks behind its colons."""
        return look.json and '": ' not in self._source.work

    def _separator(self, look: Look) -> str:
        """What stands between all members: a comma, with a blank or line break as the others have it."""
        work, spans = self._source.work, self._spans
        gaps = {work[one[1] : other[0]] for one, other in pairwise(spans)}
        gap = gaps.pop() if len(gaps) == 1 else ""
        if "," in gap and not gap.strip(" ,\r\n"):
            return gap
        return "," if self._is_compact(look) else ", "

    def _comma(self, index: int) -> int | None:
        position = self._source.skip_trivia(self._spans[index][1])
        return position if self._source.work[position : position + 1] == "," else None

    def _change_lines(
        self,
        kept: list[int],
        removed: Collection[int],
        texts: Sequence[tuple[int | None, str]],
        edits: list[Edit],
    ) -> None:
        source = self._source
        last, final = kept[-1], len(self._spans) - 1
        trailing_comma = self._comma(final) is not None
        close_shares_line = not source.begins_line(self._close)
        behind_last = [text for previous, text in texts if previous == last]
        if close_shares_line and last != final:
            self._change_tail(last, behind_last, edits)
            self._cut_lines([index for index in removed if index < last], edits)
            self._insert_lines([pair for pair in texts if pair[0] != last], last, edits)
            return
        self._cut_lines(removed, edits)
        comma = self._comma(last)
        if behind_last and close_shares_line and last == final:
            end = self._spans[last][1]
            edits.append(Edit(end, end, "".join(f",{self._break()}{text}" for text in behind_last)))
            self._insert_lines([pair for pair in texts if pair[0] != last], last, edits)
            return
        if behind_last and comma is None:
            edits.append(Edit(self._spans[last][1], self._spans[last][1], ","))
        elif not behind_last and comma is not None and last != final and not trailing_comma:
            edits.append(Edit(comma, comma + 1, ""))
        self._insert_lines(texts, last, edits, trailing_comma=trailing_comma)

    def _cut_lines(self, removed: Collection[int], edits: list[Edit]) -> None:
        for index in sorted(removed):
            stop = self._source.line_end(max(self._comma(index) or 0, self._spans[index][1]))
            start = self._source.line_start(self._spans[index][0])
            top = self._source.with_leading_comments(start, self._source.column(self._spans[index][0]))
            edits.append(Edit(top, stop, ""))

    def _change_tail(self, last: int, texts: Sequence[str], edits: list[Edit]) -> None:
        """Cut the members behind ``last`` (or exchange them for new ones) before a bracket on their line."""
        source, end = self._source, self._spans[last][1]
        first_cut, stop = self._spans[last + 1][0], self._spans[-1][1]
        if texts:
            edits.append(Edit(first_cut, stop, f",{self._break()}".join(texts)))
        elif "#" in source.work[end:first_cut]:
            comma = self._comma(last)
            if comma is not None:
                edits.append(Edit(comma, comma + 1, ""))
            edits.append(Edit(source.line_stop(end), stop, self._break()))
        else:
            edits.append(Edit(end, stop, ""))

    def _break(self) -> str:
        return self._source.newline_at(self._spans[0][0]) + self._indent

    def _insert_lines(
        self,
        texts: Sequence[tuple[int | None, str]],
        last: int,
        edits: list[Edit],
        *,
        trailing_comma: bool = False,
    ) -> None:
        source = self._source
        newline = source.newline_at(self._spans[0][0])
        for number, (previous, text) in enumerate(texts):
            if previous is None:
                position = source.line_start(self._spans[0][0])
            else:
                position = source.line_end(max(self._comma(previous) or 0, self._spans[previous][1]))
            is_last = previous == last and number == len(texts) - 1
            comma = "" if is_last and not trailing_comma else ","
            edits.append(Edit(position, position, f"{self._indent}{text}{comma}{newline}"))
