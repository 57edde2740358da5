"""REST is tested in the same world as the admin."""

from __future__ import annotations

import pytest

from reverser.store import Store
from tests.dashboard import world
from tests.dashboard.conftest import operator, viewer, web, web_sandbox

__all__ = ["operator", "viewer", "web", "web_sandbox"]


@pytest.fixture
def rows(web: Store) -> world.TargetState:
    """Two targets in two namespaces, each with a commit and a request."""
    for namespace in ("shop", "depot"):
        row = world.target(namespace=namespace)
        world.commit(1 if namespace == "shop" else 2, row)
        world.request(row)
        world.stream(web, row)
        web.open_journal(world.key(row))
    return world.TargetState.objects.get(namespace="shop")
