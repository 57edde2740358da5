"""A cluster, an operator on it and a namespace of a section's own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import running_cluster, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace


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
