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

_KEYS = ("name", "mountPath", "containerPort", "port", "devicePath", "ip")


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
    if live is MISSING and isinstance(source, list) and isinstance(rendered, list):
        return MISSING  # all items went at once; see _paired
    if isinstance(rendered, list) and isinstance(live, list):
        items: Any = [] if source is MISSING else source
        if isinstance(items, list):
            return _list(items, rendered, live, pointer)
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
    """Pair items by a field that tells them apart in all three lists, else by their places."""
    for key in _KEYS:
        named = [_named(items, key) for items in (source, rendered, live)]
        from_source, from_render, from_live = named
        if from_source is not None and from_render is not None and from_live is not None:
            return _paired(from_source, from_render, from_live, pointer)
    if len(source) == len(rendered) == len(live):
        return [
            source_form(mine, built, item, f"{pointer}/{index}")
            for index, (mine, built, item) in enumerate(zip(source, rendered, live, strict=True))
        ]
    raise Conflict(pointer)


def _paired(
    source: Mapping[Any, Any], rendered: Mapping[Any, Any], live: Mapping[Any, Any], pointer: str
) -> list[Any]:
    """The items of the source in the order of live. Items that only the build adds stay out; items that it
    drops keep their places. One that live lacks goes, also where the build alters it: what it alters is the
    source's. A patch that would bring it back is found by building.
    """
    place = {name: index for index, name in enumerate(live)}
    order = list(live)
    previous: Any = MISSING
    for name in source:
        if name not in live:
            order.insert(0 if previous is MISSING else order.index(previous) + 1, name)
        previous = name
    order += [name for name in rendered if name not in live and name not in source]
    items = [
        source_form(
            source.get(name, MISSING),
            rendered.get(name, MISSING),
            live.get(name, MISSING),
            f"{pointer}/{place.get(name, '-')}",
        )
        for name in order
        if name in live or name not in source or name not in rendered
    ]
    return [item for item in items if item is not MISSING]


def _named(items: list[Any], key: str) -> dict[Any, Any] | None:
    found: dict[Any, Any] = {}
    for item in items:
        name = item.get(key) if isinstance(item, Mapping) else None
        if not isinstance(name, str | int) or name in found:
            return None
        found[name] = item
    return found


def _same(left: Any, right: Any) -> bool:
    if left is MISSING or right is MISSING:
        return left is right
    return equal_as_kubernetes(left, right)
