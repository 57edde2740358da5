"""Typed look-ups in decoded JSON that note what is wrong and go on.

A Reader never raises: a missing field silently gives its default, a field of a wrong type gives its default
and one line in ``problems``, which all readers of one object share. Lines are bounded, since they end in a
status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST_PROBLEMS = 20


class Reader:
    """One JSON object at ``path``."""

    __slots__ = ("_data", "_path", "problems")

    def __init__(self, data: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self._data = data
        self._path = path
        self.problems = problems

    def _at(self, field: str) -> str:
        return ".".join(part for part in (self._path, field) if part)

    def problem(self, field: str, what: str) -> None:
        """Note ``<path>.<field>: what``, once."""
        line = f"{self._at(field)}: {what}"
        if len(self.problems) < _MOST_PROBLEMS and line not in self.problems:
            self.problems.append(line)

    def has(self, field: str) -> bool:
        """True when the field is there and not null."""
        return self._data.get(field) is not None

    def raw(self, field: str) -> Any:
        """The field as it is."""
        return self._data.get(field)

    def raw_mapping(self, field: str) -> Mapping[str, Any]:
        """The field if it is an object, else an empty one."""
        value = self._data.get(field)
        return value if isinstance(value, Mapping) else {}

    def child(self, field: str) -> Reader:
        """The object under ``field``; an empty one when it is missing or of another type."""
        value = self._data.get(field)
        if value is not None and not isinstance(value, Mapping):
            self.problem(field, "must be an object")
            value = None
        return Reader(value or {}, self._at(field), self.problems)

    def children(self, field: str) -> list[Reader]:
        """The objects in the list under ``field``."""
        out = []
        for index, item in enumerate(self._list(field)):
            where = f"{field}[{index}]"
            if isinstance(item, Mapping):
                out.append(Reader(item, self._at(where), self.problems))
            else:
                self.problem(where, "must be an object")
        return out

    def _list(self, field: str) -> Sequence[Any]:
        value = self._data.get(field)
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return value
        self.problem(field, "must be a list")
        return ()

    def text(self, field: str, default: str = "") -> str:
        """A string."""
        value = self._data.get(field)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(field, "must be a string")
            return default
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings; other items are left out."""
        items = self._list(field)
        good = tuple(item for item in items if isinstance(item, str))
        if len(good) != len(items):
            self.problem(field, "must hold strings only")
        return good

    def text_map(self, field: str) -> dict[str, str]:
        """An object of strings; other values are left out."""
        value = self.child(field)._data
        good = {key: item for key, item in value.items() if isinstance(key, str) and isinstance(item, str)}
        if len(good) != len(value):
            self.problem(field, "must hold strings only")
        return good

    def flag(self, field: str, default: bool = False) -> bool:
        """A boolean."""
        value = self._data.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(field, "must be true or false")
            return default
        return value

    def number(self, field: str, default: int = 0) -> int:
        """An integer."""
        value = self._data.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(field, "must be an integer")
            return default
        return value

    def choice(self, field: str, allowed: Sequence[str], default: str, *, unknown: str | None = None) -> str:
        """One of ``allowed``; ``default`` when missing, ``unknown`` (else the default) when another."""
        value = self.text(field, default)
        if value in allowed:
            return value
        self.problem(field, f"{value[:100]!r} is none of {', '.join(allowed)}")
        return default if unknown is None else unknown
