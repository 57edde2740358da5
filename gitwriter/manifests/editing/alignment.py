"""Which item of the new list is which item of the old one.

Items that Kubernetes tells apart by a key (a container by its name) are matched by that key, other items by
being equal or alike. The items that keep their order stay where they are and only the others move, so
comments travel with their item and few lines change. Of several equal items that one is the match which
leaves the most alike neighbours side by side; a changed item is then edited where it stands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .likeness import likeness, token_of

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
_ALIKE = 0.3  # a renamed item in the place of another one
_SAME = 0.7  # an item that moved and changed; less in common is another item
_PAIRED = 0.01  # for each pair, so that items are rather edited than exchanged
_MAX_CELLS = 10_000  # of one table of pairs
_MAX_COMPARED = 2500  # items compared with each other, in one gap
_MAX_COMPARED_IN_ALL = 50_000
_DEFAULTS = {"protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Alignment:
    """``match[j]`` is the old index of new item j, or None; ``staying`` holds the old indexes that keep their
    place."""

    match: tuple[int | None, ...]
    staying: frozenset[int]


def align(old: Sequence[Any], new: Sequence[Any]) -> Alignment:
    """Match the items of two lists."""
    if len(old) == len(new) == 1:
        return Alignment((0,), frozenset((0,)))
    keyed = _keyed(old, new)
    if keyed is not None:
        return _Aligner(old, new, *keyed, keyed=True).aligned()
    return _Aligner(old, new, [token_of(v) for v in old], [token_of(v) for v in new], keyed=False).aligned()


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


Span = tuple[int, int, int, int]  # old from, old to, new from, new to
Pairs = list[tuple[int, int]]


class _Aligner:
    """The matching of two lists whose items stand for themselves by their tokens."""

    def __init__(
        self,
        old: Sequence[Any],
        new: Sequence[Any],
        old_tokens: Sequence[Any],
        new_tokens: Sequence[Any],
        *,
        keyed: bool,
    ) -> None:
        self._old, self._new = old, new
        self._old_tokens, self._new_tokens = old_tokens, new_tokens
        self._keyed = keyed
        self._floor = _ALIKE if keyed else 0.0
        # Items without an equal partner: only these may become one another.
        old_count, new_count = Counter(old_tokens), Counter(new_tokens)
        self._old_spare = old_count - new_count
        self._new_spare = new_count - old_count
        self._old_left, self._new_left = Counter(self._old_spare), Counter(self._new_spare)
        self._compared = 0

    def aligned(self) -> Alignment:
        """Those that stay, then those that moved."""
        match: list[int | None] = [None] * len(self._new)
        staying: set[int] = set()
        spans: list[Span] = [(0, len(self._old), 0, len(self._new))]
        while spans:
            pairs = self._settle(spans.pop(), spans)
            for old_index, new_index in pairs:
                if self._equal(old_index, new_index) or self._may_become(old_index, new_index):
                    match[new_index] = old_index
                    staying.add(old_index)
        self._match_moved(match, staying)
        return Alignment(tuple(match), frozenset(staying))

    def _settle(self, span: Span, spans: list[Span]) -> Pairs:
        """Pairs of items that stay within a span; what lies between them may be left as further spans."""
        low_old, high_old, low_new, high_new = span
        pairs: Pairs = []
        while low_old < high_old and low_new < high_new and self._equal(low_old, low_new):
            pairs.append((low_old, low_new))
            low_old, low_new = low_old + 1, low_new + 1
        while low_old < high_old and low_new < high_new and self._equal(high_old - 1, high_new - 1):
            high_old, high_new = high_old - 1, high_new - 1
            pairs.append((high_old, high_new))
        if low_old == high_old or low_new == high_new:
            return pairs
        span = (low_old, high_old, low_new, high_new)
        if (high_old - low_old) * (high_new - low_new) <= _MAX_CELLS:
            return pairs + self._best(span)
        anchors = self._anchors(span)
        if not anchors:
            return pairs + self._by_order(span)
        for old_index, new_index in [*anchors, (high_old, high_new)]:
            if low_old < old_index and low_new < new_index:
                spans.append((low_old, old_index, low_new, new_index))
            low_old, low_new = old_index + 1, new_index + 1
        return pairs + anchors

    def _equal(self, old_index: int, new_index: int) -> bool:
        return bool(self._old_tokens[old_index] == self._new_tokens[new_index])

    def _may_become(self, old_index: int, new_index: int) -> bool:
        """Take two items without equal partners; False where equal items elsewhere wait for them."""
        old_token, new_token = self._old_tokens[old_index], self._new_tokens[new_index]
        if not self._old_left[old_token] or not self._new_left[new_token]:
            return False
        self._old_left[old_token] -= 1
        self._new_left[new_token] -= 1
        return True

    def _anchors(self, span: Span) -> Pairs:
        """The longest run of equal items in order; of items that occur once, where there are any."""
        low_old, high_old, low_new, high_new = span
        places: dict[Any, deque[int]] = defaultdict(deque)
        for index in range(low_old, high_old):
            places[self._old_tokens[index]].append(index)
        count = Counter(self._new_tokens[low_new:high_new])
        once = {token for token, found in places.items() if len(found) == count[token] == 1}
        pairs: Pairs = []
        for index in range(low_new, high_new):
            token = self._new_tokens[index]
            if places.get(token) and (not once or token in once):
                pairs.append((places[token].popleft(), index))
        return _longest_increasing(pairs)

    def _by_order(self, span: Span) -> Pairs:
        """For spans too long to compare: the items without equal partners one by one."""
        if self._keyed:
            return []
        old = [i for i in range(*span[:2]) if self._old_tokens[i] in self._old_spare]
        new = [j for j in range(*span[2:]) if self._new_tokens[j] in self._new_spare]
        return list(zip(old, new, strict=False))

    def _best(self, span: Span) -> Pairs:
        """Pairs in order with the most in common in all."""
        low_old, high_old, low_new, high_new = span
        gains = self._gains(span)
        width = high_new - low_new
        best = [[0.0] * (width + 1) for _ in range(high_old - low_old + 1)]
        for i in range(high_old - low_old - 1, -1, -1):
            row, below, gain = best[i], best[i + 1], gains[i]
            for j in range(width - 1, -1, -1):
                paired = gain[j] + below[j + 1] if gain[j] else 0.0
                row[j] = max(paired, below[j], row[j + 1])
        pairs: Pairs = []
        i = j = 0
        while i < high_old - low_old and j < width:
            if gains[i][j] and best[i][j] == gains[i][j] + best[i + 1][j + 1]:
                pairs.append((low_old + i, low_new + j))
                i, j = i + 1, j + 1
            elif best[i][j] == best[i + 1][j]:
                i += 1
            else:
                j += 1
        return pairs

    def _gains(self, span: Span) -> list[list[float]]:
        """What each pair of a span keeps; 0 for two that must not be paired."""
        old, new = range(*span[:2]), range(*span[2:])
        spare_old = {i for i in old if self._old_tokens[i] in self._old_spare}
        spare_new = {j for j in new if self._new_tokens[j] in self._new_spare}
        comparing = len(spare_old) * len(spare_new)
        blind = comparing > _MAX_COMPARED or self._compared + comparing > _MAX_COMPARED_IN_ALL
        self._compared += 0 if blind else comparing

        def gain(i: int, j: int) -> float:
            if self._equal(i, j):
                return 1 + _PAIRED
            if i not in spare_old or j not in spare_new:
                return 0.0
            alike = 0.0 if blind else likeness(self._old[i], self._new[j])
            return alike + _PAIRED if alike >= self._floor else 0.0

        return [[gain(i, j) for j in new] for i in old]

    def _match_moved(self, match: list[int | None], staying: set[int]) -> None:
        """Match what is left: equal items, then items with nearly everything in common."""
        places: dict[Any, deque[int]] = defaultdict(deque)
        for index, token in enumerate(self._old_tokens):
            if index not in staying:
                places[token].append(index)
        free_new: list[int] = []
        for new_index, found in enumerate(match):
            if found is not None:
                continue
            token = self._new_tokens[new_index]
            if places.get(token):
                match[new_index] = places[token].popleft()
            else:
                free_new.append(new_index)
        free_old = sorted(index for rest in places.values() for index in rest)
        if self._keyed or len(free_old) * len(free_new) > _MAX_COMPARED:
            return
        pairs = [(likeness(self._old[i], self._new[j]), i, j) for i in free_old for j in free_new]
        for alike, old_index, new_index in sorted(pairs, key=lambda pair: -pair[0]):
            if alike >= _SAME and old_index in free_old and match[new_index] is None:
                match[new_index] = old_index
                free_old.remove(old_index)


def _longest_increasing(pairs: Pairs) -> Pairs:
    """Of pairs in the order of the new list the longest run that is in the order of the old one too."""
    tails: list[int] = []  # smallest old index that ends a run of each length
    tail_at: list[int] = []  # position of that end
    previous: list[int] = []
    for position, (value, _new_index) in enumerate(pairs):
        length = bisect_left(tails, value)
        previous.append(tail_at[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_at.append(position)
        else:
            tails[length] = value
            tail_at[length] = position
    run: Pairs = []
    position = tail_at[-1] if tail_at else -1
    while position >= 0:
        run.append(pairs[position])
        position = previous[position]
    return run[::-1]
