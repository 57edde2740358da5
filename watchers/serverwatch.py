"""Whether Redis is another server than a moment ago: then it may lack what was appended last.

Replication is asynchronous, and a restart may lose the last second of an append-only file. Entry and cursor
are lost together (J2), so an append that follows finds the loss. Where nothing follows, the loss would go
unnoticed until the next bookmark, which comes once a minute; so after each change of server the cursors are
compared with what was appended here. A connection may still lead to the old server while another already sees
the new one: hence more than once.
"""

from __future__ import annotations

from reverser.store import AsyncStore

COMPARISONS = 3


class ServerWatch:
    """Asks which server answers; to be called every few seconds."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._known = ""
        self._left = 0

    async def doubtful(self) -> bool:
        """Whether to compare cursors now. Raises StoreUnavailable."""
        found = await self._store.server_id()
        if self._known and found != self._known:
            self._left = COMPARISONS
        self._known = found
        if not self._left:
            return False
        self._left -= 1
        return True
