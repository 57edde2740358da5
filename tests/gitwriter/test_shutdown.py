"""A shutdown ends in time, whatever a remote does, and loses nothing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from reverser.store.model import LeaseKind
from tests.git.servers import GitHttp, git_http
from tests.loopback import serving

from .conftest import PREFIX, World
from .processes import worker
from .test_writer import restart, shutdown_write


@pytest.fixture
def silent(world: World, tmp_path: Path) -> Iterator[GitHttp]:
    """The branch's remote behind a server that accepts requests and never answers."""
    with git_http(tmp_path) as server:
        world.provider["spec"]["url"] = server.url("remote.git")
        server.hang.set()
        yield server


@pytest.fixture
def waiting(world: World) -> World:
    """One event in an open window."""
    world.set_window("60s")
    world.event("a", "1")
    world.write()
    return world


def test_a_silent_remote_is_given_up_at_the_end_of_the_grace(waiting: World, silent: GitHttp) -> None:
    """F15, Z13: the drain ends long before git's own deadline; the next process writes what waited."""
    world = waiting
    world.runtime.begin_shutdown(grace=1)
    began = time.monotonic()
    world.runtime.drain(seconds=10)
    assert time.monotonic() - began < 25
    assert world.pending() == 1
    health = world.store.read_branch_health(world.branch)
    assert health is not None and "did not answer before the shutdown" in health.message
    silent.hang.clear()
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0
    assert world.subjects() == ["[UPDATE] v1/configmaps/a"]


def test_a_silent_api_server_is_given_up_at_the_end_of_the_grace(
    waiting: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z13: also a call that is on its way when the shutdown begins; the lease is given back at once, and the
    next process writes what waited.
    """
    world, asked, answer = waiting, threading.Event(), threading.Event()
    honest = world.cluster.get

    def silent(path: str, *, timeout: float = 30) -> dict[str, Any]:
        asked.set()
        answer.wait(60)
        return honest(path)

    with monkeypatch.context() as patch:
        patch.setattr(world.cluster, "get", silent)
        running = threading.Thread(target=world.write)
        running.start()
        assert asked.wait(30)
        world.runtime.begin_shutdown(grace=0.2)
        world.runtime.drain(seconds=10)
        running.join(30)
        assert not running.is_alive()
        answer.set()
    assert world.pending() == 1
    assert not world.store.lease_holders(LeaseKind.BRANCH)
    health = world.store.read_branch_health(world.branch)
    assert health is not None and "before the shutdown" in health.message
    restart(world)
    shutdown_write(world)
    assert world.subjects() == ["[UPDATE] v1/configmaps/a"]


@pytest.mark.parametrize(("grace", "limit"), [(1.0, 200.0), (200.0, 2.0)], ids=["in order", "as a kill"])
def test_a_worker_of_a_silent_api_server_ends_in_time(
    waiting: World, redis_url: str, tmp_path: Path, grace: float, limit: float
) -> None:
    """Z13: a real worker and a cluster that takes requests and never answers: SIGTERM ends it long before the
    request's own deadline of half a minute, in order; and whatever else it waited for, at its limit.
    """
    world, asked, over = waiting, threading.Event(), threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith(PREFIX):
                asked.set()
            over.wait(120)

    with (
        serving(Silent) as port,
        worker(tmp_path / "worker", redis_url, port, grace=grace, limit=limit) as process,
    ):
        try:
            world.store.wake_branch(world.branch)
            assert asked.wait(60)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            assert time.monotonic() - began < 25
        finally:
            over.set()
    assert code == (0 if grace < limit else 1)
    assert world.pending() == 1
    assert bool(world.store.lease_holders(LeaseKind.BRANCH)) is (grace > limit)
