"""A shutdown ends in time, whatever a remote does, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git.servers import GitHttp, git_http

from .conftest import World
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
