"""A sandbox per test: it starts in a few hundredths of a second."""

from collections.abc import Iterator

import pytest

from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client
from tests.sandbox.webhook import Webhook


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    """A running sandbox with everything switched on."""
    with SandboxServer() as server:
        yield server


@pytest.fixture
def admin(sandbox: SandboxServer) -> Client:
    """A client of the administrator."""
    return Client(sandbox)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    """A running validating webhook."""
    hook = Webhook()
    yield hook
    hook.close()
