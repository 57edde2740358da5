"""A fail-over of Redis under running processes."""

from __future__ import annotations

from pathlib import Path

from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace
from tests.store.sentinels import sentinel_group, until


def test_processes_go_on_at_the_new_primary(tmp_path: Path) -> None:
    """The primary is killed while changes are written: all processes go on at the replica without a
    restart, every change arrives in order, none twice.
    """
    (tmp_path / "redis").mkdir()
    (tmp_path / "space").mkdir()
    with SandboxServer() as server, sentinel_group(tmp_path / "redis") as group:
        kube = Kube.connect(str(server.kubeconfig_path))
        operator = Operator(tmp_path / "state", server.kubeconfig_path, REVERSER_REDIS_URL=group.url)
        operator.start()
        try:
            space = Workspace(kube, "failing-over", tmp_path / "space")
            space.base(window="0s", rules=[CONFIGMAPS])
            space.configmap("counter", {"v": "1"})
            children = operator.pids("manage.py") + operator.pids("celery")
            space.count_up("counter", range(2, 6))
            space.counted_to("counter", 5, complete=False)
            assert group.server(0).wait(1, 10_000) == 1
            group.servers[0].kill()
            group.servers[0].wait(10)
            space.count_up("counter", range(6, 16), pause=0.2)
            until(lambda: group.primary_port() == group.ports[1], "a fail-over")
            space.count_up("counter", range(16, 21))
            space.counted_to("counter", 20, complete=False, seconds=120)
            assert sorted(operator.pids("manage.py") + operator.pids("celery")) == sorted(children)
        finally:
            assert operator.stop() == 0
