"""Processes that have nothing to do say nothing, and one that is asked to stop hands over what is open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from reverser.supervision.install import install_crds
from tests.e2e.test_health import COMMANDS, Running, migrate, started, until
from tests.e2e.workspace import Workspace

TYPES = ("configmaps", "services", "secrets", "serviceaccounts", "resourcequotas", "limitranges")
IDLE_SECONDS = 20.0
LINES_AN_HOUR = 100


@pytest.fixture
def cluster() -> Iterator[SandboxServer]:
    """A cluster of the test's own, with the definitions."""
    with SandboxServer() as server:
        install_crds(Kube.connect(str(server.kubeconfig_path)))
        yield server


def lines(running: dict[str, Running]) -> list[str]:
    """All that the processes have logged."""
    return [f"{kind}: {line}" for kind, one in running.items() for line in one.log.read_text().splitlines()]


def test_idle_is_quiet_and_an_open_window_is_handed_over(
    cluster: SandboxServer, tmp_path: Path, valkey: str
) -> None:
    """Q03: idle streams write no more than a hundred lines an hour, and no line is a traceback. A worker that
    is asked to stop closes its open window, pushes it, gives its lease back and ends with 0 within 25 s.
    """
    kubeconfig = cluster.kubeconfig_path
    port = int(valkey.rsplit(":", 1)[1].partition("/")[0])
    migrate(tmp_path)
    with started(tmp_path, kubeconfig, port, tuple(COMMANDS)) as running:
        for one in running.values():
            until(
                lambda one=one: one.ask("/readyz")[0] == 200,
                seconds=120,
                what=lambda one=one: one.log.read_text()[-3000:],
            )
        space = Workspace(Kube.connect(str(kubeconfig)), "calm", tmp_path)
        core = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": [name]} for name in TYPES]
        space.base(window="1h", rules=core)
        space.wait_ready()
        before = len(lines(running))
        # The silence of this time is what is measured; nothing is waited for.
        time.sleep(IDLE_SECONDS)
        told = lines(running)[before:]
        assert len(told) <= 1 + LINES_AN_HOUR * IDLE_SECONDS / 3600, told
        space.configmap("menu", {"v": "soup"})
        store = Store.connect(valkey)
        (branch,) = store.known_branches()
        until(lambda: store.read_branch(branch).entries > 0, seconds=60, what=lambda: lines(running)[-20:])
        assert space.git.read(space.file("menu")) is None
        begun = time.monotonic()
        assert running["worker"].end(within=60) == 0
        assert time.monotonic() - begun < 25
        assert b"soup" in (space.git.read(space.file("menu")) or b"")
        assert store.read_branch(branch).entries == 0
        assert not [line for line in lines(running) if "Traceback" in line]
