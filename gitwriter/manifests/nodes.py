"""One document's text as a tree of nodes that know where they stand.

The editor changes a file by cutting and pasting text at exact positions, so it needs what a plain load
discards: where each key, value, alias and property begins and ends. The tree is built from parser events, not
from composed nodes, because composing forgets where an alias was written. Aliases stay references and are
never expanded, so a document that would grow without bound costs no more than its text. Depth and size are
bounded before anything recurses.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from reverser.errors import YamlRefused

from .limits import DEFAULT_LIMITS, Limits
from .scalars import MERGE_TAG
from .surrogates import readable

UNREAD: Final = object()
_COLON: Final = re.compile(r"[ \t]*:")
_PROPERTY: Final = re.compile(r"[^ \t\r\n,\[\]{}]*")
_CORE_PREFIX: Final = "tag:yaml.org,2002:"


class Kind(IntEnum):
    """What a node is."""

    SCALAR = 0
    MAPPING = 1
    SEQUENCE = 2
    ALIAS = 3


class Node:
    """One node. Offsets count characters of the document's text.

    ``start`` includes anchor and tag, ``body`` is where the content itself begins, ``end`` is just past the
    last character of the content (for a block collection: of its last child). ``style`` is one of ``'' ' " |
    >`` for scalars; ``flow`` tells bracketed collections. ``entries`` holds (key, value) pairs, ``items``
    sequence members, ``target`` what an alias names. ``size`` is the number of nodes after expanding aliases,
    ``value`` the plain Python value once it was read.
    """

    __slots__ = (
        "anchor",
        "body",
        "end",
        "entries",
        "flow",
        "items",
        "kind",
        "size",
        "start",
        "style",
        "tag",
        "target",
        "text",
        "value",
    )

    def __init__(self, kind: Kind, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.body = start
        self.end = end
        self.style = ""
        self.flow = False
        self.tag: str | None = None
        self.anchor: str | None = None
        self.text = ""
        self.entries: list[tuple[Node, Node]] = []
        self.items: list[Node] = []
        self.target: Node | None = None
        self.size = 1
        self.value: Any = UNREAD

    def __repr__(self) -> str:
        return f"Node({self.kind.name}, {self.start}:{self.end}, {self.text!r})"

    def resolved(self) -> Node:
        """The node itself, or what an alias refers to."""
        node = self
        while node.target is not None:
            node = node.target
        return node

    def is_merge_key(self) -> bool:
        """True for the key ``<<`` in its special meaning."""
        if self.kind is not Kind.SCALAR:
            return False
        return self.tag == MERGE_TAG or (self.text == "<<" and self.style == "" and self.tag is None)


class Tree:
    """A parsed document: its root (None for an empty one) and the unusual constructs seen on the way."""

    __slots__ = ("constructs", "root")

    def __init__(self, root: Node | None, constructs: frozenset[str]) -> None:
        self.root = root
        self.constructs = constructs


def parse_tree(text: str, *, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Parse the text of exactly one document.

    Raises YamlRefused with reason ``invalid-yaml``, ``too-deep``, ``too-big``, ``excessive-aliases`` or
    ``recursive-alias``.
    """
    if len(text) > limits.file_bytes:
        raise YamlRefused(
            "too-big", f"the document is larger than {limits.file_bytes} bytes; split it or raise the limit"
        )
    parser = CParser(readable(text))
    try:
        return _Builder(text, limits).build(parser)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        problem = error.problem or error.context or "cannot be read"
        raise YamlRefused(
            "invalid-yaml", f"line {line}, column {column}: {problem}", line=line, column=column
        ) from error
    except (yaml.YAMLError, UnicodeError) as error:
        reason = getattr(error, "reason", None) or "characters that YAML does not allow"
        line = _line_of(text, getattr(error, "position", None))
        raise YamlRefused("invalid-yaml", f"{reason}; remove or escape the character", line=line) from error
    finally:
        parser.dispose()


def _line_of(text: str, position: object) -> int:
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 0


class _Open:
    """A collection whose end has not been seen; for a mapping, with the key that waits for its value."""

    __slots__ = ("key", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key: Node | None = None


class _Builder:
    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._nodes = 0
        self._references = 0
        self._anchors: dict[str, Node] = {}
        self._constructs: set[str] = set()
        self._stack: list[_Open] = []
        self._root: Node | None = None

    def build(self, parser: Any) -> Tree:
        get_event = parser.get_event
        documents = 0
        while True:
            event = get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._open(event, Kind.MAPPING)
            elif kind is yaml.SequenceStartEvent:
                self._open(event, Kind.SEQUENCE)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    line = event.start_mark.line + 1
                    raise YamlRefused(
                        "invalid-yaml", f"line {line}: a second document begins here", line=line
                    )
            elif event is None or kind is yaml.StreamEndEvent:
                return Tree(self._root, frozenset(self._constructs))

    def _properties(self, event: Any, node: Node) -> None:
        if event.anchor is not None:
            node.anchor = event.anchor
            self._anchors[event.anchor] = node
            self._constructs.add("anchor")
            self._count_reference(event)
        tag = event.tag
        if tag is not None:
            node.tag = tag
            if tag.startswith(_CORE_PREFIX):
                if tag == _CORE_PREFIX + "binary":
                    self._constructs.add("binary")
            elif tag != "!":
                self._constructs.add("local-tag")

    def _scalar(self, event: Any) -> None:
        node = Node(Kind.SCALAR, event.start_mark.index, event.end_mark.index)
        node.text = event.value
        node.style = event.style or ""
        if event.anchor is not None or event.tag is not None:
            self._properties(event, node)
            node.body = self._after_properties(node)
        self._attach(node)

    def _open(self, event: Any, kind: Kind) -> None:
        if len(self._stack) >= self._limits.depth:
            line = event.start_mark.line + 1
            raise YamlRefused(
                "too-deep", f"line {line}: nests deeper than {self._limits.depth} levels", line=line
            )
        node = Node(kind, event.start_mark.index, -1)
        node.flow = bool(event.flow_style)
        if event.anchor is not None or event.tag is not None:
            self._properties(event, node)
            node.body = self._after_properties(node)
        self._stack.append(_Open(node))

    def _close(self, event: Any) -> None:
        node = self._stack.pop().node
        if node.flow:
            node.end = event.end_mark.index
        elif node.kind is Kind.MAPPING:
            node.end = node.entries[-1][1].end if node.entries else node.body
        else:
            node.end = node.items[-1].end if node.items else node.body
        self._attach(node)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        target = self._anchors.get(event.anchor)
        if target is None:
            raise YamlRefused(
                "invalid-yaml", f"line {line}: alias *{event.anchor} has no anchor before it", line=line
            )
        if target.end < 0:
            raise YamlRefused(
                "recursive-alias", f"line {line}: alias *{event.anchor} contains itself", line=line
            )
        node = Node(Kind.ALIAS, event.start_mark.index, event.end_mark.index)
        node.target = target
        node.size = target.size
        self._constructs.add("alias")
        self._count_reference(event)
        self._attach(node)

    def _count_reference(self, event: Any) -> None:
        self._references += 1
        if self._references > self._limits.aliases:
            raise YamlRefused(
                "excessive-aliases",
                f"holds more than {self._limits.aliases} anchors and aliases; write them out",
                line=event.start_mark.line + 1,
            )

    def _attach(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            raise YamlRefused(
                "too-big", f"the document holds more than {self._limits.nodes} keys and values; split it"
            )
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        parent = frame.node
        if parent.kind is Kind.SEQUENCE:
            parent.items.append(node)
            parent.size += node.size
        elif frame.key is None:
            frame.key = node
            if node.is_merge_key():
                self._constructs.add("merge-key")
        else:
            if node.start == node.end and node.start and self._text[node.start - 1] != ":":
                # The parser puts an empty value at the next token; it belongs behind the colon or, where
                # there is none (`? key`, `{key, other}`), behind the key.
                colon = _COLON.match(self._text, frame.key.end)
                node.start = node.body = node.end = colon.end() if colon else frame.key.end
            parent.entries.append((frame.key, node))
            parent.size += node.size + frame.key.size
            frame.key = None

    def _after_properties(self, node: Node) -> int:
        """Offset of the content behind ``&anchor`` and ``!tag``, blanks, comments and line breaks."""
        text, position, size = self._text, node.start, len(self._text)
        while position < size:
            char = text[position]
            if char in " \t\r\n":
                position += 1
            elif char == "#":
                position = _line_break(text, position)
            elif char in "&!" and not (
                node.kind is Kind.SCALAR and node.style == "" and position >= node.end
            ):
                position = _PROPERTY.match(text, position).end()  # type: ignore[union-attr]
            else:
                break
            if node.kind is Kind.SCALAR and node.style == "" and node.text == "" and position >= node.end:
                return node.end
        return position


def _line_break(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found
