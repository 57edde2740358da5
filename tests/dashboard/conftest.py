"""The process's edges lead to a sandbox cluster and an empty store; people and rows are made by each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client

from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from tests.dashboard import world


@pytest.fixture(scope="session")
def web_sandbox() -> Iterator[SandboxServer]:
    """One cluster for all tests of a process; they add objects of their own names only."""
    with SandboxServer(record=False) as server:
        world.install(Kube.connect(str(server.kubeconfig_path)))
        world.add_tokens(server)
        yield server


@pytest.fixture
def web(  # noqa: PLR0917 - what a fixture uses it names
    web_sandbox: SandboxServer,
    redis_url: str,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    db: None,
) -> Iterator[Store]:
    """The edges of web, and the store behind them."""
    cache.clear()
    with world.wired(web_sandbox.kubeconfig_path, redis_url, tmp_path, monkeypatch):
        yield store


@pytest.fixture
def operator(web: Store) -> Client:
    """A browser in which an operator is logged in."""
    browser = Client()
    browser.force_login(world.person("olga", "operator"), backend="django.contrib.auth.backends.ModelBackend")
    return browser


@pytest.fixture
def viewer(web: Store) -> Client:
    """A browser in which a viewer is logged in."""
    browser = Client()
    browser.force_login(world.person("vera", "viewer"), backend="django.contrib.auth.backends.ModelBackend")
    return browser
