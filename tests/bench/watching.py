"""One watcher and nothing else, as a process: ``python -m tests.bench.watching KUBECONFIG REDIS FOLDER``."""

from __future__ import annotations

import asyncio
import signal
import sys

from reverser.config import load_config
from reverser.heap import settle_heap
from reverser.kube.client import AsyncKube
from reverser.store import AsyncStore
from watchers.runtime import WatcherRuntime


async def watch(kubeconfig: str, redis_url: str, folder: str) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    config = load_config({"REVERSER_REDIS_URL": redis_url, "REVERSER_STATE_DIR": folder})
    kube, store = await AsyncKube.connect(kubeconfig), AsyncStore.connect(redis_url)
    settle_heap()
    await WatcherRuntime(kube, store, config).run(stop)
    await store.close()
    await kube.close()


if __name__ == "__main__":
    asyncio.run(watch(*sys.argv[1:]))
