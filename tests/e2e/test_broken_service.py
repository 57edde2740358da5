"""An API service that stays broken for ten times the removal grace, as ten minutes are of the real one, with
real processes and real Git.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

from reverser.kube.paths import own_path
from reverser.supervision.gitview import GitView
from tests.watchers.conftest import Bench, Cluster, bench, cluster, definitions, eventually  # noqa: F401
from tests.watchers.replicas import Replica, Worker
from tests.watchers.test_broken_service import DEPLOYMENTS, deployment

GRACE = 1.0
SHORT = {
    "removal_grace": GRACE,
    "discovery": 0.3,
    "debounce": 0.1,
    "retry_first": 0.2,
    "retry_max": 0.5,
    "lease": 3.0,
    "renew": 0.6,
    "claim": 0.2,
}


class Broken:
    """A target with ConfigMaps and Deployments, written to a real repository by a real worker."""

    def __init__(
        self,
        bench: Bench,  # noqa: F811
        cluster: Cluster,  # noqa: F811
        folder: Path,
    ) -> None:
        self.bench, self.cluster, self.folder = bench, cluster, folder
        repository = folder / "repo.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
        self.git = GitView(repository, "main")
        spec = {"url": f"file://{repository}", "allowedBranches": ["main"], "push": {"commitWindow": "0s"}}
        cluster.kube.delete(own_path("gitproviders", namespace="shop", name="gp"))
        cluster.own("gitproviders", "gp", spec)

    def replica(self, name: str) -> Replica:
        return Replica(self.folder / name, self.cluster.kubeconfig, self.bench.redis_url, SHORT)

    def deployment(self, name: str) -> None:
        self.cluster.kube.create(DEPLOYMENTS, deployment(name))

    def of_group(self) -> dict[str, bytes | None]:
        return {path: self.git.read(path) for path in self.git.files() if "/deployments/" in path}

    async def in_git(self, path: str, holds: bytes = b"") -> None:
        async def check() -> bool:
            content = await asyncio.to_thread(self.git.read, path)
            return content is not None and holds in content

        await eventually(check, f"{path} in Git", 90)


async def test_a_group_that_stays_broken(
    bench: Bench,  # noqa: F811
    cluster: Cluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A1, C15: for ten times the grace a group fails in discovery and in use, its watches are cut, and the
    watcher itself is killed and started: nothing of the group changes in Git, everything else goes on, and
    what happened meanwhile follows when it heals.
    """
    broken = Broken(bench, cluster, tmp_path)
    for name in ("stays", "changes", "goes"):
        broken.deployment(name)
    cluster.target("gt", "live")
    cluster.rule(
        "wr", "gt", [{"resources": ["configmaps"]}, {"apiGroups": ["apps"], "resources": ["deployments"]}]
    )
    processes: list[Replica | Worker] = [broken.replica("first")]
    try:
        processes.append(Worker(tmp_path / "worker", cluster.kubeconfig, bench.redis_url))
        for name in ("stays", "changes", "goes"):
            await broken.in_git(f"live/shop/apps/deployments/{name}.yaml")
        before = broken.of_group()
        faults = cluster.server.faults
        faults.fail_group("apps", "v1")
        faults.drop_watches("deployments", clean=False)
        for tick in range(10):
            await asyncio.sleep(GRACE)
            cluster.create(f"cm{tick}", v="1")
            if tick == 5:
                processes[0].send(signal.SIGKILL)
                processes[0] = broken.replica("second")
        for tick in range(10):
            await broken.in_git(f"live/shop/configmaps/cm{tick}.yaml")
        cluster.target("new", "other")
        cluster.rule("wr2", "new", [{"resources": ["configmaps", "deployments"]}])
        await broken.in_git("other/shop/configmaps/cm9.yaml")
        assert broken.of_group() == before
        faults.clear()
        cluster.kube.patch(f"{DEPLOYMENTS}/changes", {"spec": {"replicas": 7}})
        cluster.kube.delete(f"{DEPLOYMENTS}/goes")
        await broken.in_git("live/shop/apps/deployments/changes.yaml", b"replicas: 7")
        await broken.in_git("other/shop/apps/deployments/changes.yaml", b"replicas: 7")

        async def gone() -> bool:
            return sorted(broken.of_group()) == [
                f"{root}/shop/apps/deployments/{name}.yaml"
                for root in ("live", "other")
                for name in ("changes", "stays")
            ]

        await eventually(gone, "only the deletion that was made is in Git", 90)
        subjects = [commit.subject for commit in broken.git.log()]
        assert sum("DELETE" in subject for subject in subjects) == 1, subjects
        assert broken.git.problems() == ""
    finally:
        for process in processes:
            process.end()
