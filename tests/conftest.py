"""Shared fixtures: one real Valkey per test process, emptied for each test that uses it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings

from reverser.store import AsyncStore, Store
from tests import needs
from tests.valkey import running_valkey

settings.register_profile(
    "suite",
    deadline=None,  # how fast a machine is at this moment is no property
    suppress_health_check=[HealthCheck.too_slow],
    # Who develops sees new examples with every run; whether a change may land is no matter of luck.
    derandomize=needs.everything(),
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The long half of the end-to-end scenarios is asked for."""
    parser.addoption(
        "--acceptance",
        action="store_true",
        help="also run every end-to-end scenario and the soak (`make acceptance`)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker of what `--acceptance` adds."""
    config.addinivalue_line("markers", "acceptance: runs with --acceptance, as `make acceptance` does")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their place: compressed ones hold the time at which a process made them."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make acceptance` runs. Every test has the same name in every process."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"a parameter without a name of its own: {unstable[0]}")
    if config.getoption("--acceptance"):
        return
    skip = pytest.mark.skip(reason="a long end-to-end scenario; `make acceptance` runs it")
    for item in items:
        if item.get_closest_marker("acceptance"):
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def strict_tls() -> Iterator[None]:
    """Python's own contexts are in every version as strict as from 3.13 on."""
    usual = ssl.create_default_context

    def strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = usual(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", strict)
        yield


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """The URL of a Valkey of this test process, on a free loopback port."""
    with running_valkey() as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def redis_url(valkey: str) -> str:
    """The URL of an empty Redis."""
    client = redis.Redis.from_url(valkey)
    client.flushall()
    client.close()
    return valkey


@pytest.fixture
def store(redis_url: str) -> Iterator[Store]:
    """A blocking store on an empty Redis."""
    opened = Store.connect(redis_url)
    yield opened
    opened.close()


@pytest.fixture
async def async_store(redis_url: str) -> AsyncIterator[AsyncStore]:
    """An asyncio store on an empty Redis (the same one as ``store`` where both are used)."""
    opened = AsyncStore.connect(redis_url)
    yield opened
    await opened.close()
