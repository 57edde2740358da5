"""Real kubectl applies the definitions and the examples of the pages, and shows the columns."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverser.sandbox.thread import SandboxServer
from tests import needs
from tests.crds.test_crds import CRD_DIR, CRDS
from tests.crds.test_docs import page


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


def test_kubectl_applies_everything(sandbox: SandboxServer, tmp_path: Path) -> None:
    """Client-side validation and the server agree with the pages; `get` shows the agreed columns."""

    def kubectl(*arguments: str, data: str = "") -> str:
        done = subprocess.run(
            [needs.kubectl(), "--kubeconfig", str(sandbox.kubeconfig_path), *arguments],
            input=data,
            capture_output=True,
            text=True,
            env={"HOME": str(tmp_path)},
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    kubectl("apply", "-f", str(CRD_DIR))
    for namespace in ("shop", "platform"):
        kubectl("create", "namespace", namespace)
    for kind in CRDS:
        block = re.search(r"```yaml\n(.*?)```", page(kind), re.S)
        assert block is not None
        kubectl("create", "-f", "-", data=block[1])
    heads = {
        "gitproviders": "NAMESPACE NAME URL READY REASON AGE",
        "gittargets": "NAMESPACE NAME PROVIDER BRANCH PATH READY REASON STREAMS AGE",
        "watchrules": "NAMESPACE NAME TARGET READY REASON STREAMS AGE",
        "clusterwatchrules": "NAME TARGET READY REASON STREAMS AGE",
        "commitrequests": "NAMESPACE NAME GITTARGET READY REASON SHA AGE",
    }
    for resource, head in heads.items():
        lines = kubectl("get", resource, "-A").splitlines()
        assert lines[0].split() == head.split()
        assert len(lines) == 2
