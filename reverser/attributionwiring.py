"""Which author resolver a watcher gets."""

from __future__ import annotations

from reverser.config import Config
from reverser.store import AsyncStore
from watchers.hooks import AuthorResolver


def make_resolver(settings: Config, edge: AsyncStore) -> AuthorResolver | None:
    """None while attribution is off."""
    del settings, edge
    return None
