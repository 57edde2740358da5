"""A cluster, an operator on it and namespaces of a section's own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from reverser.store import Store
from tests.e2e.cluster import running_cluster, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until

WAIT_SECONDS = 300.0
_ROLES = {"watcher": "manage.py watch", "worker": " worker ", "beat": " beat ", "web": "manage.py serve"}


@contextmanager
def installation(folder: Path, **settings: str) -> Iterator[tuple[Operator, Workspace]]:
    """Runs for the time of the block; ``settings`` are the operator's environment variables.

    A cluster that was there before is left as it was found but for the definitions of the product's kinds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with running_cluster(folder) as kubeconfig:
        kube = wait_for_cluster(kubeconfig)
        operator = Operator(folder / "state", kubeconfig, **settings)
        operator.start()
        space = Workspace(kube, f"bench-{uuid.uuid4().hex[:6]}", folder)
        try:
            yield operator, space
        finally:
            if os.environ.get("KUBECONFIG"):
                space.remove()
            if operator.running:
                operator.stop()


@contextmanager
def further_spaces(first: Workspace, count: int) -> Iterator[list[Workspace]]:
    """So many namespaces beside the first, each with a repository of its own, for the time of the block."""
    made: list[Workspace] = []
    try:
        for number in range(count):
            folder = first.folder / f"site-{number}"
            folder.mkdir()
            made.append(Workspace(first.kube, f"{first.namespace}-{number}", folder))
        yield made
    finally:
        if os.environ.get("KUBECONFIG"):
            for space in made:
                space.remove()


def fill(space: Workspace, objects: int) -> None:
    """So many ConfigMaps of 1 KB."""

    def create(number: int) -> None:
        space.configmap(f"cm-{number:05}", {"text": "x" * 850, "number": str(number)})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(objects)))


def pids_of_roles(operator: Operator) -> dict[str, int]:
    """The first process of each role that runs."""
    return {role: found[0] for role, word in _ROLES.items() if (found := operator.pids(word))}


def connect(operator: Operator) -> Store:
    """The operator's own store."""
    return Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")


def settled(operator: Operator, space: Workspace, *, outcomes: int = 0) -> None:
    """The streams run and the journal is empty; so many outcomes at least are in the store."""
    store = connect(operator)

    def drained() -> bool:
        running = space.is_condition("gittargets", "gt", "Ready", "True")
        live = [stream for uid in store.read_gates() for stream in store.read_streams(uid).values()]
        streaming = bool(live) and all(stream.state == "streaming" for stream in live)
        empty = all(store.read_branch(branch).entries == 0 for branch in store.known_branches())
        return running and streaming and empty and len(store.read_outcomes()) >= outcomes

    until(drained, "streams run and the journal is empty", WAIT_SECONDS)
    store.close()
