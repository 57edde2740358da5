"""Objects that left Git because they are being deleted, and that still exist: a finalizer holds them.

Counted once per process however many targets watch them. An object that is counted for long was deleted by
somebody and is stuck on a finalizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reverser.store.model import TypeRef
from watchers.metrics import TERMINATING, type_labels

_holders: dict[TypeRef, Counter[str]] = {}
"""How many shards of this process see an object, by type and UID."""


class Terminating:
    """What one shard knows of it."""

    def __init__(self, kind: TypeRef) -> None:
        self._kind = kind
        self._uids: set[str] = set()

    def saw(self, uid: str, *, gone: bool, terminating: bool) -> None:
        """Records what an event says of an object: whether it is being deleted, or gone."""
        if terminating and not gone:
            if uid not in self._uids:
                self._add(uid)
                self._show()
        elif uid in self._uids:
            self._drop(uid)
            self._show()

    def replace(self, uids: Iterable[str]) -> None:
        """Replaces everything by what a complete replay showed; empty when the shard ends."""
        wanted = set(uids)
        if wanted == self._uids:
            return
        for uid in self._uids - wanted:
            self._drop(uid)
        for uid in wanted - self._uids:
            self._add(uid)
        self._show()

    def _add(self, uid: str) -> None:
        self._uids.add(uid)
        _holders.setdefault(self._kind, Counter())[uid] += 1

    def _drop(self, uid: str) -> None:
        self._uids.discard(uid)
        holders = _holders[self._kind]
        holders[uid] -= 1
        if holders[uid] <= 0:
            del holders[uid]

    def _show(self) -> None:
        TERMINATING.labels(*type_labels(self._kind)).set(len(_holders.get(self._kind, ())))
