"""The cluster that the end-to-end tests run against."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from reverser.errors import ReverserError
from reverser.kube.sync import Kube
from reverser.sandbox.controlplane import assets_folder, control_plane
from reverser.supervision.processes import Program, Supervisor
from tests import needs

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 120.0


@contextmanager
def running_cluster(folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of a cluster; one that was started here ends with the block."""
    given = os.environ.get("KUBECONFIG")
    if given:
        yield Path(given)
        return
    supervisor = Supervisor(output=sys.stderr)
    assets = assets_folder()
    if assets is not None:
        plane = control_plane(assets, folder / "control-plane")
        programs, kubeconfig = plane.programs, plane.kubeconfig
    else:
        kubeconfig = folder / "kubeconfig"
        programs = (sandbox_program(folder, kubeconfig),)
    for program in programs:
        supervisor.start(program)
    try:
        wait_for_cluster(kubeconfig)
        yield kubeconfig
    finally:
        supervisor.stop((), limit_seconds=15)


def sandbox_program(folder: Path, kubeconfig: Path, *extra: str) -> Program:
    """The sandbox API server as a process of its own."""
    argv = (
        sys.executable,
        "-m",
        "reverser.sandbox",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        str(folder / "cluster"),
        "--kubeconfig-out",
        str(kubeconfig),
        "--definition-delay",
        "0.4",
        *extra,
    )
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return Program("sandbox", argv, environment, log_file=folder / "sandbox.log")


def audited_programs(folder: Path, kubeconfig: Path, url: str) -> tuple[Program, ...]:
    """A cluster that sends its audit events to ``url`` in batches, and writes its ``kubeconfig``.

    A real control plane takes the policy that the project ships.
    """
    assets = assets_folder()
    if assets is None:
        return (sandbox_program(folder, kubeconfig, "--audit-webhook", url, "--audit-batch-max-wait", "0.2"),)
    sender = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "audit",
        "clusters": [{"name": "audit", "cluster": {"server": url}}],
        "contexts": [{"name": "audit", "context": {"cluster": "audit"}}],
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(sender))
    plane = control_plane(
        assets,
        folder / "control-plane",
        flags=(
            f"--audit-policy-file={ROOT / 'deploy' / 'apiserver' / 'audit-policy.yaml'}",
            f"--audit-webhook-config-file={folder / 'audit.yaml'}",
            "--audit-webhook-mode=batch",
            "--audit-webhook-batch-max-wait=200ms",
        ),
    )
    kubeconfig.symlink_to(plane.kubeconfig)
    return plane.programs


def wait_for_cluster(kubeconfig: Path) -> Kube:
    """A client, once the API server answers. Raises TimeoutError."""
    deadline = time.monotonic() + START_SECONDS
    problem = "no kubeconfig"
    while time.monotonic() < deadline:
        if kubeconfig.exists():
            try:
                client = Kube.connect(str(kubeconfig))
                client.get("/version", timeout=30)
                return client
            except ReverserError as error:
                problem = str(error)
        time.sleep(0.1)
    raise TimeoutError(f"the cluster did not start: {problem}")


def kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Real kubectl against the cluster."""
    return subprocess.run(
        [needs.kubectl(), "--kubeconfig", str(kubeconfig), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
