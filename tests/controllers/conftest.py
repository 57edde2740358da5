"""A cluster with the CRDs and two namespaces, one real store, one bare repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reverser.kube.client import AsyncKube
from reverser.sandbox.thread import SandboxServer
from reverser.store import AsyncStore
from tests.controllers.cluster import Cluster, bare_repository


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture
async def kube(sandbox: SandboxServer) -> AsyncIterator[AsyncKube]:
    client = await AsyncKube.connect(str(sandbox.kubeconfig_path))
    yield client
    await client.close()


@pytest.fixture(scope="session")
def shared_sandbox() -> Iterator[SandboxServer]:
    """One sandbox for all tests of a process that leave definitions and namespaces alone."""
    with SandboxServer(record=False) as server:
        yield server


@pytest.fixture
async def cluster(shared_sandbox: SandboxServer, async_store: AsyncStore) -> AsyncIterator[Cluster]:
    """The shared sandbox with the CRDs, two empty namespaces and an empty store."""
    client = await AsyncKube.connect(str(shared_sandbox.kubeconfig_path))
    found = Cluster(client, async_store)
    await found.install("shop", "depot")
    yield found
    await client.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return bare_repository(tmp_path / "repo.git")
