"""What a shard remembers of its objects: a hash of the last projection, or that the object is gone.

A status write changes nothing that is mirrored; without this memory it would arrive as an unattributed change
and split somebody else's open window. It is filled when an event enters the shard's buffer, and emptied
whenever that buffer is thrown away, so a change that was never appended is never taken for known.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

LIMIT = 100_000
"""Objects remembered per shard; the one not seen for longest is forgotten, which costs at most one write."""
_REMOVED = b""


def fingerprint(body: bytes) -> bytes:
    """A short hash of a canonical projection."""
    return blake2b(body, digest_size=12).digest()


class NoopCache:
    """By object UID. A re-created object has a new UID, so it never matches."""

    __slots__ = ("_known", "_limit")

    def __init__(self, limit: int = LIMIT) -> None:
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._limit = limit

    def remember(self, uid: str, body: bytes) -> bool:
        """Stores the projection's hash; true when it is the one known already."""
        value = fingerprint(body)
        same = self._known.get(uid) == value
        self._put(uid, value)
        return same

    def seed(self, uid: str, known: bytes) -> None:
        """Stores a hash that ``fingerprint`` made."""
        self._put(uid, known)

    def wrote(self, uid: str) -> bool:
        """Whether the object was handed on to be written and has not been removed since."""
        return self._known.get(uid, _REMOVED) != _REMOVED

    def remove(self, uid: str) -> bool:
        """Notes that the object was removed from Git; true when that was known already."""
        known = self._known.get(uid) == _REMOVED
        self._put(uid, _REMOVED)
        return known

    def _put(self, uid: str, value: bytes) -> None:
        if not uid:
            return
        self._known[uid] = value
        self._known.move_to_end(uid)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)
