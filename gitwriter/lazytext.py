"""An object of the journal as the planner reads it, kept as text.

A replay may bring tens of thousands of objects. As dictionaries they take several times the memory of their
text, and each is needed only for a moment: so the text is kept and parsed on access. The last one of each
thread stays parsed, because an object is read several times in a row.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_latest = threading.local()


class ParsedText(Mapping[str, Any]):
    """The JSON object in ``text``. Its values must not be changed."""

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    def _value(self) -> dict[str, Any]:
        if getattr(_latest, "owner", None) is not self:
            _latest.value, _latest.owner = orjson.loads(self._text), self
        value: dict[str, Any] = _latest.value
        return value

    def __getitem__(self, key: str) -> Any:
        return self._value()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._value())

    def __len__(self) -> int:
        return len(self._value())
