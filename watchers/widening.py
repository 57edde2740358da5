"""When a target's types are replayed because its prune mode now allows what it forbade: pure.

Documents that an earlier mode kept are removed by a sweep, and nothing in the cluster need ever happen to
their objects again. Asked for once for each count under the earlier mode: a sweep that was still made under
it counts anew, and is followed by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reverser.kinds.model import PruneMode
from reverser.store.model import Kept, Scope


class Widening:
    """Remembers for which counts a replay was asked; if that is lost, a type is replayed once more."""

    def __init__(self) -> None:
        self._asked: dict[Scope, int] = {}

    def due(self, kept: Mapping[Scope, Kept], scopes: Iterable[Scope], mode: PruneMode) -> list[Scope]:
        """Which of ``scopes`` to replay now; tell ``asked`` when that is wanted."""
        if mode is not PruneMode.ALWAYS:
            return []
        return [
            scope
            for scope in scopes
            if (found := kept.get(scope)) is not None
            and found.mode != PruneMode.ALWAYS
            and self._asked.get(scope) != found.counted_ms
        ]

    def asked(self, scopes: Iterable[Scope], kept: Mapping[Scope, Kept]) -> None:
        """A replay of these scopes is wanted now."""
        self._asked.update((scope, kept[scope].counted_ms) for scope in scopes)
