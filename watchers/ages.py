"""How long ago the stored cursors of this process last moved: the oldest of each type and scope.

Bookmarks move a quiet cursor about once a minute, so a high age means that a watch is not being read, that
the journal accepts nothing, or that the server sends no bookmarks.
"""

from __future__ import annotations

from collections.abc import Iterable

from watchers import metrics


class CursorAges:
    """The gauge, and the label sets that it currently exports."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, ...]] = set()

    def show(self, ages: Iterable[tuple[tuple[str, ...], float]]) -> None:
        """Sets the oldest age by labels, and zero where nothing is watched any more."""
        oldest: dict[tuple[str, ...], float] = dict.fromkeys(self._shown, 0.0)
        used: set[tuple[str, ...]] = set()
        for labels, age in ages:
            oldest[labels] = max(oldest.get(labels, 0.0), age)
            used.add(labels)
        for labels, age in oldest.items():
            metrics.CURSOR_AGE.labels(*labels).set(age)
        self._shown = used
