"""The source form of an object: what a file has to say so that the build renders the live object.

Three values are merged: the file's source, what the build renders from it now, and the live object. Where
live equals the render the file keeps what it says, so nothing that the build adds leaks into it; where
live differs the file gets the live value, provided that the build left that place alone. A place that
both changed is a conflict.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..editing import equal_as_kubernetes
from ..fields import MISSING


class Conflict(Exception):
    """A difference that no edit of the source file can express; `pointer` is where."""

    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


def source_form(source: Any, rendered: Any, live: Any, pointer: str = "") -> Any:
    """The new source value (MISSING = absent); raises Conflict. Inputs may be MISSING and are not changed."""
    if _same(rendered, live):
        return source
    if _same(source, rendered):
        return copy.deepcopy(live)
    if isinstance(rendered, Mapping) and isinstance(live, Mapping):
        return _mapping(source if isinstance(source, Mapping) else {}, rendered, live, pointer)
    if isinstance(rendered, list) and isinstance(live, list) and isinstance(source, list):
        return _list(source, rendered, live, pointer)
    raise Conflict(pointer or "/")


def _mapping(
    source: Mapping[str, Any], rendered: Mapping[str, Any], live: Mapping[str, Any], pointer: str
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in dict.fromkeys([*source, *rendered, *live]):
        below = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        value = source_form(
            source.get(key, MISSING), rendered.get(key, MISSING), live.get(key, MISSING), below
        )
        if value is not MISSING:
            result[key] = value
    return result


def _list(source: list[Any], rendered: list[Any], live: list[Any], pointer: str) -> list[Any]:
    """Pair items by their unique names; source and render must hold the same ones."""
    by_name = [_named(items) for items in (source, rendered, live)]
    if all(names is not None for names in by_name):
        from_source, from_render, from_live = (names or {} for names in by_name)
        if list(from_source) == list(from_render):
            return [
                source_form(
                    from_source.get(name, MISSING), from_render.get(name, MISSING), item, f"{pointer}/{index}"
                )
                for index, (name, item) in enumerate(from_live.items())
            ]
    if len(source) == len(rendered) == len(live):
        return [
            source_form(mine, built, item, f"{pointer}/{index}")
            for index, (mine, built, item) in enumerate(zip(source, rendered, live, strict=True))
        ]
    raise Conflict(pointer)


def _named(items: list[Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for item in items:
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _same(left: Any, right: Any) -> bool:
    if left is MISSING or right is MISSING:
        return left is right
    return equal_as_kubernetes(left, right)
