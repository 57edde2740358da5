"""The branch writers of one process: their edges, clones, and what is remembered between runs."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gitwriter.git.repository import BareRepository, Deadlines
from gitwriter.lease import BranchLease, take_lease
from gitwriter.memory import BranchMemory
from gitwriter.sources import Sources
from gitwriter.targettree import InventoryShelf
from gitwriter.writer import BranchWriter, WriterEdges
from reverser.config import Config
from reverser.errors import LostRace, TransientError
from reverser.kinds.model import GitProvider
from reverser.kube.sync import Kube
from reverser.store import Store
from reverser.store.model import BranchKey
from reverser.trust.github import TokenSource

logger = logging.getLogger(__name__)

GRACE_SECONDS = 18.0
"""How long a shutdown waits for a silent remote or API server; a worker is gone within 25 s of its signal."""
_DRAINED_AT_ONCE = 8


def clone_path(state_dir: Path, branch: BranchKey, url: str) -> Path:
    """Where the clone of a branch lies: one folder per provider, branch and URL."""
    digest = hashlib.sha256(url.strip().encode()).hexdigest()[:32]
    return state_dir / "workers" / branch.namespace / branch.provider / branch.branch / "repos" / digest


class WriterRuntime:
    """Runs branch writers, at most one per branch in this process; thread-safe."""

    def __init__(self, *, store: Store, kube: Kube, config: Config) -> None:
        self._store = store
        self._config = config
        self._stopping = threading.Event()
        self._given_up_at = float("inf")
        self._deadlines = Deadlines(abandon=self._given_up)
        self._memories: dict[str, BranchMemory] = {}
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._holder = f"{socket.gethostname()}/{os.getpid()}"
        self._edges = WriterEdges(
            store=store,
            sources=Sources(kube, config, TokenSource(), given_up=self._given_up),
            config=config,
            shelf=InventoryShelf(config.state_dir / "workers"),
            open_clone=self._open_clone,
            stopping=self._stopping.is_set,
        )

    def begin_shutdown(self, *, grace: float = GRACE_SECONDS) -> None:
        """Running writers close their windows, push once without cooldown, and end.

        A remote or API server that has not answered within ``grace`` seconds is given up. Nothing is lost:
        the journal keeps the windows, and a push that may have arrived is recognised by its intent (J15).
        """
        self._given_up_at = min(self._given_up_at, time.monotonic() + grace)
        self._stopping.set()

    def _given_up(self) -> bool:
        return time.monotonic() >= self._given_up_at

    def drain(self, *, seconds: float) -> None:
        """After ``begin_shutdown``: close the windows of the branches written here and push once more.

        What is not done in time stays in the journal. Branches are drained in parallel, so that a silent
        remote takes no time from the others.
        """
        deadline = time.monotonic() + seconds
        self._given_up_at = min(self._given_up_at, deadline)
        with self._lock:
            branches = [memory.branch for memory in self._memories.values() if memory.entries]
        if branches:
            with ThreadPoolExecutor(min(len(branches), _DRAINED_AT_ONCE), "drain") as pool:
                drained = [pool.submit(self._drain, branch, deadline) for branch in branches]
            for done in drained:
                done.result()
        self._edges.shelf.save(all_of_it=True)

    def _drain(self, branch: BranchKey, deadline: float) -> None:
        if time.monotonic() < deadline:
            self.write(branch)
        else:
            logger.warning(
                "shutdown: no time left; the journal keeps the rest", extra={"branch": str(branch)}
            )

    def write(self, branch: BranchKey) -> None:
        """Write what is due on a branch. Does nothing where another writer holds it."""
        with self._lock:
            if branch.id in self._running:
                return
            self._running.add(branch.id)
        try:
            self._write(branch)
        except TransientError as error:
            logger.warning(
                "the branch could not be written; the journal keeps the work",
                extra={"branch": str(branch), "detail": str(error)},
            )
        finally:
            with self._lock:
                self._running.discard(branch.id)
        self._edges.shelf.save()

    def _write(self, branch: BranchKey) -> None:
        lease = take_lease(self._store, branch, self._holder)
        if lease is None:
            return
        with lease.kept():
            last_id, due = self._run(branch, lease)
        if not self._store.release_branch(branch, lease.fence, last_id, due):
            raise LostRace(f"the lease of branch {branch} was lost before it was given back")

    def _run(self, branch: BranchKey, lease: BranchLease) -> tuple[str, int | None]:
        with self._lock:
            memory = self._memories.setdefault(branch.id, BranchMemory(branch))
        return BranchWriter(self._edges, lease, memory).run()

    def _open_clone(self, branch: BranchKey, provider: GitProvider) -> BareRepository:
        path = clone_path(self._config.state_dir, branch, provider.url)
        return BareRepository.open_or_create(path, provider.url, deadlines=self._deadlines)
