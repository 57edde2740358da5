"""Which author resolver a watcher gets."""

from __future__ import annotations

from reverser.config import Config
from reverser.store import AsyncStore
from watchers.authors import FactResolver
from watchers.hooks import AuthorResolver


def make_resolver(settings: Config, edge: AsyncStore) -> AuthorResolver | None:
    """The resolver on the audit facts in the store; None while attribution is off."""
    return FactResolver(edge) if settings.author_attribution else None
