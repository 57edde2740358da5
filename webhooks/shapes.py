"""Reading JSON from outside: total functions, unexpected shapes give empty values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NOTHING: Mapping[str, Any] = {}


def text(value: object) -> str:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def child(value: object, name: str) -> Mapping[str, Any]:
    """An object inside an object, or an empty one."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else _NOTHING


def first(values: object) -> str:
    """The first text of a list, untrimmed; empty when there is none."""
    return text(values[0]) if isinstance(values, list) and values else ""
