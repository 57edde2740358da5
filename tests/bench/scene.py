"""A cluster that changes by itself, a store and one watcher, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reverser.kube.paths import own_path
from reverser.kube.sync import Kube
from reverser.store import Store, keys
from reverser.store.model import BranchKey, Gate
from tests.bench.load import GROUP, NAMESPACE, plural
from tests.e2e.workspace import until
from tests.valkey import running_valkey

API = "configbutler.ai/v1alpha3"
BRANCH = BranchKey(NAMESPACE, "gp", "main")
WAIT_SECONDS = 600.0
END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster, a store and a watcher, each a process of its own."""

    kube: Kube
    store: Store
    load: subprocess.Popen[str]
    watcher: subprocess.Popen[bytes]
    repository: Path

    def change(self, rate: int, seconds: float) -> dict[str, float]:
        """Let the cluster change for a while; what was made."""
        assert self.load.stdin and self.load.stdout
        self.load.stdin.write(f"{rate} {seconds}\n")
        self.load.stdin.flush()
        return dict(json.loads(self.load.stdout.readline()))

    @property
    def entries(self) -> int:
        """What is in the journal."""
        return int(self.store.client.xlen(keys.journal(BRANCH)))

    @property
    def memory(self) -> int:
        """Bytes that the store uses for its data."""
        return int(self.store.client.info("memory")["used_memory"])


@contextmanager
def scene(folder: Path, *, types: int, targets: int) -> Iterator[Scene]:
    """Each target follows all types; runs for the time of the block."""
    folder.mkdir()
    repository = folder / "repo.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "tests.bench.load", str(kubeconfig), str(types)]
    load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert load.stdin and load.stdout
    try:
        load.stdout.readline()
        with running_valkey() as server:
            url = f"redis://127.0.0.1:{server.port}/0"
            store = Store.connect(url)
            kube = Kube.connect(str(kubeconfig))
            uids = _targets(kube, repository, types, targets)
            store.open_journal(BRANCH)
            for index, uid in enumerate(uids):
                store.write_gate(uid, Gate(open=True, generation=1, branch=BRANCH, path=f"p{index}"))
            command = [sys.executable, "-m", "tests.bench.watching", str(kubeconfig), url, str(folder)]
            watcher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                until(
                    lambda: _streaming(store, uids) == types * targets,
                    f"{types * targets} watches stream",
                    WAIT_SECONDS,
                )
                yield Scene(kube, store, load, watcher, repository)
            finally:
                watcher.terminate()
                _end(watcher)
                store.close()
    finally:
        load.stdin.close()
        _end(load)


def _end(process: subprocess.Popen[Any]) -> None:
    """One that was told to end, by SIGKILL where it takes too long."""
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _targets(kube: Kube, repository: Path, types: int, targets: int) -> list[str]:
    def own(kind: str, name: str, spec: dict[str, object]) -> str:
        body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = kube.create(own_path(f"{kind.lower()}s", namespace=NAMESPACE), body)
        return str(made["metadata"]["uid"])

    own("GitProvider", "gp", {"url": f"file://{repository}", "allowedBranches": ["main"]})
    resources = [plural(number) for number in range(types)]
    uids = []
    for index in range(targets):
        spec: dict[str, object] = {"providerRef": {"name": "gp"}, "branch": "main", "path": f"p{index}"}
        uids.append(own("GitTarget", f"t{index}", spec))
        rule = {"targetRef": {"name": f"t{index}"}}
        own("WatchRule", f"t{index}", {**rule, "rules": [{"apiGroups": [GROUP], "resources": resources}]})
    return uids


def _streaming(store: Store, uids: list[str]) -> int:
    return sum(r.state == "streaming" for uid in uids for r in store.read_streams(uid).values())
