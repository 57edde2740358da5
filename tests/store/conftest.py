"""The world of the store's tests."""

import pytest

from reverser.store import Store
from tests.store.world import World


@pytest.fixture
def world(store: Store) -> World:
    """A held target and an open journal."""
    return World(store)
