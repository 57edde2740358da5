"""Whether the plain text of a Secret stands anywhere that the installation writes to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.hunt import Plants, database_rows, files, git_objects, redis_values

CONTROL = "zq~CONTROL of the search"
"""Stands in a ConfigMap, in files and in the store, so the search finds it where it looks at all."""


def planted(seed: int, value: int) -> str:
    """The content of a Secret, the same in each run with this seed."""
    return f"zq~MARK {hashlib.sha256(f'{seed} {value}'.encode()).hexdigest()[:18]}"


class Search:
    """Everything but the cluster's own files, which hold Secrets as etcd does."""

    def __init__(self, folder: Path, store_url: str, *, cluster: Path, states: list[Path]) -> None:
        self._folder = folder
        self._store_url = store_url
        self._cluster = cluster
        self._states = states
        self.looked: Counter[str] = Counter()

    def leaks(self, plants: Plants) -> list[str]:
        """Where something is that should not be there; a search that missed the control is one, too."""
        control = Plants()
        control.add("control", CONTROL)
        found, seen = [], set()
        for place, data in self._everything():
            kind = place.partition(" ")[0]
            self.looked[kind] += 1
            found += [f"{what} stands in {place}" for what in plants.search(data)]
            if control.search(data):
                seen.add(kind)
        missed = {"file", "git", "store"} - seen
        return found + [f"the search of {kind} found nothing, not even what must be there" for kind in missed]

    def _everything(self) -> Iterator[tuple[str, bytes]]:
        # Small disks are file systems of their own, which a search of the folder does not enter.
        for place in (self._folder, *self._states):
            for path, data in files(place, since=0.0, skip=(self._cluster,)):
                yield f"file {path}", data
        for objects in git_objects(self._folder):
            yield f"git below {self._folder}", objects
        for row in database_rows(self._folder):
            yield "database", row
        for value in redis_values(self._store_url):
            yield "store", value
