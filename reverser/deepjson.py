"""JSON from an API server may be nested ten thousand levels deep, and the reader goes to a thousand.

Where one object or request of many is that deep, the others must not be lost with it. What is nested deeper
than anything that is used here is left out; only brackets and texts are looked at, so no depth is too deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

DEEPEST = 400
"""Levels that are read. What was cut has at least as many, and that is deeper than an object may be to be
mirrored: it is seen, and never written as what it is not.
"""
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
"""A text that nobody closed goes to the end: each byte is looked at once, whatever it is."""
OPENING, CLOSING = (b"[", b"{"), (b"]", b"}")


def loads(text: bytes) -> Any:
    """The value, with null for what is nested too deeply. Raises orjson.JSONDecodeError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        cut = shallow(text)
        if len(cut) == len(text):
            raise
    return orjson.loads(cut)


def shallow(text: bytes) -> bytes:
    """The text with null for everything below the deepest level."""
    kept: list[bytes] = []
    since = 0
    for token, at, after, depth in tokens(text):
        if depth != DEEPEST:
            continue
        if token in OPENING:
            kept += (text[since:at], b"null")
        elif token in CLOSING:
            since = after
    return b"".join((*kept, text[since:]))


def tokens(text: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    """Texts, brackets and commas: where each starts and ends, and how many brackets are open around it."""
    depth = 0
    for found in _TOKENS.finditer(text):
        token = found.group()
        depth -= token in CLOSING
        yield token, found.start(), found.end(), depth
        depth += token in OPENING
