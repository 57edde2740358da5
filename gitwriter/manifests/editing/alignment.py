"""Which item of the new list is which item of the old one.

Items that Kubernetes tells apart by a key (a container by its name) are matched by that key; other items by
being equal. What is left between two matches is paired in order. Of all matched items the longest run that
keeps its order stays where it is and only the others move, so comments travel with their item and few lines
change.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .wrapped import common_ends

_KEYS: tuple[tuple[str, ...], ...] = (
    ("name",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("mountPath",),
    ("devicePath",),
    ("ip",),
    ("topologyKey", "whenUnsatisfiable"),
    ("type",),
    ("key",),
    ("uid",),
)
_ALIKE = 0.3
_WORD = re.compile(r"\w+")
_MAX_PAIRINGS = 2500
_DEFAULTS = {"protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Alignment:
    """``match[j]`` is the old index of new item j, or None; ``staying`` holds the old indexes that keep their
    place."""

    match: tuple[int | None, ...]
    staying: frozenset[int]


def align(old: Sequence[Any], new: Sequence[Any]) -> Alignment:
    """Match the items of two lists."""
    keyed = _keyed(old, new)
    match = _by_token(*keyed) if keyed else _by_token([_token(v) for v in old], [_token(v) for v in new])
    staying = _longest_increasing(match)
    _pair_leftovers(match, staying, old, new, alike_only=keyed is not None)
    return Alignment(tuple(match), frozenset(staying))


def _keyed(old: Sequence[Any], new: Sequence[Any]) -> tuple[list[Any], list[Any]] | None:
    if not old or not new or not all(isinstance(item, Mapping) for item in (*old, *new)):
        return None
    for fields in _KEYS:
        if fields[0] not in old[0]:
            continue
        tokens = [_key_tokens(items, fields) for items in (old, new)]
        if tokens[0] is not None and tokens[1] is not None:
            return tokens[0], tokens[1]
    return None


def _key_tokens(items: Sequence[Mapping[str, Any]], fields: tuple[str, ...]) -> list[Any] | None:
    tokens: list[Any] = []
    for item in items:
        token = tuple(item.get(field, _DEFAULTS.get(field)) for field in fields)
        if token[0] in (None, "") or not all(isinstance(part, str | int | None) for part in token):
            return None
        tokens.append(token)
    return tokens if len(set(tokens)) == len(tokens) else None


def _token(value: Any) -> Any:
    """A hashable stand-in that equal values share."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, int | float):
        return ("number", value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _by_token(old: list[Any], new: list[Any]) -> list[int | None]:
    places: dict[Any, deque[int]] = defaultdict(deque)
    for index, token in enumerate(old):
        places[token].append(index)
    return [places[token].popleft() if places.get(token) else None for token in new]


def _longest_increasing(match: Sequence[int | None]) -> set[int]:
    """Old indexes of the longest run of matches that is in order already."""
    tails: list[int] = []  # smallest old index that ends a run of each length
    tail_at: list[int] = []  # new index of that end
    previous: dict[int, int] = {}
    for position, value in enumerate(match):
        if value is None:
            continue
        length = bisect_left(tails, value)
        if length:
            previous[position] = tail_at[length - 1]
        if length == len(tails):
            tails.append(value)
            tail_at.append(position)
        else:
            tails[length] = value
            tail_at[length] = position
    staying: set[int] = set()
    position = tail_at[-1] if tail_at else -1
    while position >= 0:
        value = match[position]
        assert value is not None
        staying.add(value)
        position = previous.get(position, -1)
    return staying


def _pair_leftovers(
    match: list[int | None], staying: set[int], old: Sequence[Any], new: Sequence[Any], *, alike_only: bool
) -> None:
    """Pair unmatched items that lie in the same gap between two staying items."""
    used = {index for index in match if index is not None}
    low = 0
    gap: list[int] = []
    for position in range(len(match) + 1):
        value = match[position] if position < len(match) else len(old)
        if value is None:
            gap.append(position)
            continue
        if value != len(old) and value not in staying:
            continue
        free = [index for index in range(low, value) if index not in used]
        for old_index, new_index in _best_pairs(free, gap, old, new, alike_only=alike_only):
            match[new_index] = old_index
            staying.add(old_index)
        gap = []
        low = value + 1


def _best_pairs(
    free: list[int], gap: list[int], old: Sequence[Any], new: Sequence[Any], *, alike_only: bool
) -> list[tuple[int, int]]:
    """Pairs in order with the most likeness in all; with ``alike_only`` none that has little in common."""
    if not free or not gap:
        return []
    if len(old) == len(new) == 1:
        return [(0, 0)]
    if len(free) * len(gap) > _MAX_PAIRINGS:
        return [] if alike_only else list(zip(free, gap, strict=False))
    floor = _ALIKE if alike_only else 0.0
    likeness = [[_likeness(old[i], new[j]) for j in gap] for i in free]
    best = [[0.0] * (len(gap) + 1) for _ in range(len(free) + 1)]
    for i in range(len(free) - 1, -1, -1):
        for j in range(len(gap) - 1, -1, -1):
            paired = likeness[i][j] + 0.01 + best[i + 1][j + 1] if likeness[i][j] >= floor else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(free) and j < len(gap):
        fits = likeness[i][j] >= floor
        if fits and best[i][j] == likeness[i][j] + 0.01 + best[i + 1][j + 1]:
            pairs.append((free[i], gap[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _likeness(old: Any, new: Any) -> float:
    """How much two values have in common, from 0 to 1."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if not old or not new:
            return 1.0 if old == new else 0.0
        shared = sum(_likeness(value, new[key]) for key, value in old.items() if key in new)
        return shared / max(len(old), len(new))
    if isinstance(old, list) and isinstance(new, list):
        if not old or not new:
            return 1.0 if old == new else 0.0
        tokens = [_token(item) for item in new]
        return sum(1 for item in old if _token(item) in tokens) / max(len(old), len(new))
    if isinstance(old, str) and isinstance(new, str):
        return _text_likeness(old, new)
    return 1.0 if old == new else 0.0


def _text_likeness(old: str, new: str) -> float:
    """The share of the text that whole words at both ends have in common: ``--port=80`` is like
    ``--port=81``."""
    if old == new:
        return 1.0
    words = _WORD.findall(old), _WORD.findall(new)
    head, tail = common_ends(*words)
    shared = sum(map(len, words[0][:head])) + sum(map(len, words[0][len(words[0]) - tail :]))
    return shared / max(len(old), len(new))
