"""A cluster, an operator on it and a namespace of a section's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import running_cluster, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace


@contextmanager
def installation(folder: Path, **settings: str) -> Iterator[tuple[Operator, Workspace]]:
    """Runs for the time of the block; ``settings`` are the operator's environment variables."""
    with running_cluster(folder) as kubeconfig:
        kube = wait_for_cluster(kubeconfig)
        operator = Operator(folder / "state", kubeconfig, **settings)
        operator.start()
        try:
            yield operator, Workspace(kube, f"bench-{uuid.uuid4().hex[:6]}", folder)
        finally:
            if operator.running:
                operator.stop()
