"""The one door to Redis: journal, leases, cursors, due set, outcomes (docs/journal.md is its protocol)."""

from reverser.store.facade import AsyncStore, Store
from reverser.store.hints import AsyncHints, Hint, Hints

__all__ = ["AsyncHints", "AsyncStore", "Hint", "Hints", "Store"]
