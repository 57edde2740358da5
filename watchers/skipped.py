"""When a target's types are replayed for objects that the writer skipped: pure.

A skip (a placement that does not fit, a document that cannot be edited) is settled and shown, and nothing
in the cluster need ever happen to that object again. What may have helped is a person's edit of the
target's spec, which is acted on at once, or of the folder, which is looked for with growing pauses.
"""

from __future__ import annotations

from collections.abc import Iterable

from reverser.store.model import Scope, Skipped


class SkippedRetry:
    """Remembers what was skipped under which spec; if that is lost, the pauses start over."""

    def __init__(self, *, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._seen: frozenset[tuple[str, str, str]] = frozenset()
        self._generation = 0
        self._pause, self._at = first, 0.0

    def due(self, skipped: Skipped, scopes: Iterable[Scope], *, generation: int, now: float) -> list[Scope]:
        """Which of ``scopes`` to replay now. ``now`` in seconds of a clock that never steps back."""
        found = frozenset((item.resource, item.namespace, item.name) for item in skipped.objects)
        edited, fresh = generation != self._generation, not found <= self._seen
        self._seen, self._generation = found, generation
        if fresh:
            self._pause, self._at = self._first, now + self._first
        elif edited:
            self._pause, self._at = self._first, now + self._first
            return _of(found, scopes)
        elif now >= self._at:
            self._pause = min(self._pause * 2, self._most)
            self._at = now + self._pause
            return _of(found, scopes)
        return []


def _of(found: frozenset[tuple[str, str, str]], scopes: Iterable[Scope]) -> list[Scope]:
    return [
        scope
        for scope in scopes
        if any(
            scope.group_resource == resource and scope.namespace in (None, namespace)
            for resource, namespace, _ in found
        )
    ]
