"""A reader of the journal that does what a writer would do, as simply as possible: entries to a tree."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from reverser.store import AsyncStore
from reverser.store.model import (
    AttachEntry,
    BranchKey,
    EventEntry,
    Operation,
    Presence,
    Stored,
    SweepEntry,
    UnsealedEntry,
)

Key = tuple[str, str, str]
"""Group and resource, namespace, name."""


READ_WITHIN = 10.0
"""Seconds in which one whole reading must find the journal at rest."""


class Moved(Exception):
    """The journal changed while it was read."""


@dataclass
class JournalReader:
    """Reads a whole branch from the store."""

    store: AsyncStore
    branch: BranchKey
    entries: list[Stored] = field(default_factory=list)

    async def read(self) -> list[Stored]:
        self.entries = []
        while True:
            after = self.entries[-1].id if self.entries else ""
            page = await self.store.read_entries(self.branch, after)
            if not page:
                return self.entries
            self.entries += page

    async def events(self, name: str = "") -> list[EventEntry]:
        """Live events, of objects of one name."""
        found = [stored.entry for stored in await self.read()]
        return [e for e in found if isinstance(e, EventEntry) and name in ("", e.object.name)]

    async def sweeps(self) -> list[SweepEntry]:
        return [stored.entry for stored in await self.read() if isinstance(stored.entry, SweepEntry)]

    async def attaches(self) -> list[AttachEntry]:
        return [stored.entry for stored in await self.read() if isinstance(stored.entry, AttachEntry)]

    async def unsealed(self) -> list[UnsealedEntry]:
        return [stored.entry for stored in await self.read() if isinstance(stored.entry, UnsealedEntry)]

    async def tree(self) -> dict[str, dict[Key, bytes]]:
        """Bodies by target UID and object, after all entries in order.

        A watcher may supersede a sweep between the reading of its entry and of its staging; then the whole
        journal is read again. An entry whose staging stays wrong is a fault: `Moved` after `READ_WITHIN`.
        """
        until = time.monotonic() + READ_WITHIN
        while True:
            try:
                return await self._tree_of_one_reading()
            except Moved:
                if time.monotonic() > until:
                    raise

    async def _tree_of_one_reading(self) -> dict[str, dict[Key, bytes]]:
        trees: dict[str, dict[Key, bytes]] = {}
        for stored in await self.read():
            entry = stored.entry
            tree = trees.setdefault(entry.target.uid, {})
            if isinstance(entry, EventEntry):
                key = (entry.scope.group_resource, entry.object.namespace, entry.object.name)
                if entry.operation is Operation.DELETE:
                    tree.pop(key, None)
                else:
                    tree[key] = entry.body
            elif isinstance(entry, SweepEntry):
                await self._sweep(tree, entry)
        return trees

    async def _sweep(self, tree: dict[Key, bytes], sweep: SweepEntry) -> None:
        staged = await self.store.read_staging(self.branch, sweep.replay_id)
        objects = staged or []
        if len(objects) != sweep.count:
            raise Moved("the sweep was superseded while the journal was read")
        seen = {(sweep.scope.group_resource, item.namespace, item.name): item for item in objects}
        for key in list(tree):
            in_scope = key[0] == sweep.scope.group_resource and sweep.scope.namespace in (None, key[1])
            if in_scope and key not in seen and Operation.DELETE in sweep.operations_for(key[1]):
                del tree[key]
        for key, item in seen.items():
            if item.presence is Presence.FULL:
                tree[key] = item.body
