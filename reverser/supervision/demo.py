"""``manage.py demo``: the whole product on a cluster of its own, with a bare repository on disk.

The cluster is the sandbox API server, or a real control plane where ``KUBEBUILDER_ASSETS`` names one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from reverser.config import Config
from reverser.quantities import Address
from reverser.sandbox import seeds
from reverser.sandbox.controlplane import assets_folder, control_plane, free_port
from reverser.supervision.preflight import port_problem
from reverser.supervision.processes import Program
from reverser.supervision.product import ROOT, describe_login
from reverser.supervision.up import Up


@dataclass(frozen=True, slots=True)
class Demo:
    """Where everything of a demo is."""

    folder: Path
    kubeconfig: Path
    repository: Path
    assets: Path | None
    """The folder of a real control plane, or None for the sandbox."""


def plan_demo(config: Config) -> Demo:
    """Say where the demo will be, and point ``KUBECONFIG`` at its cluster. Nothing is written."""
    folder = config.state_dir / "demo"
    assets = assets_folder()
    kubeconfig = (folder / "control-plane" if assets is not None else folder) / "kubeconfig"
    os.environ["KUBECONFIG"] = str(kubeconfig)
    return Demo(folder, kubeconfig, folder / "repo.git", assets)


def prepare_demo(demo: Demo) -> tuple[Program, ...]:
    """Lay out the demo in its folder; returns the programs of its cluster. Raises OSError."""
    demo.folder.mkdir(parents=True, exist_ok=True)
    seeds.create_repository(demo.repository)
    if demo.assets is not None:
        return control_plane(demo.assets, demo.folder / "control-plane").programs
    demo.kubeconfig.unlink(missing_ok=True)
    return (_sandbox(demo.folder, demo.kubeconfig),)


def _remembered_port(path: Path) -> int:
    """The port of the last start, so that a shell's KUBECONFIG stays valid, unless the port is taken."""
    text = path.read_text(encoding="ascii") if path.exists() else ""
    if text.isdigit() and not port_problem("", Address("127.0.0.1", int(text))):
        return int(text)
    port = free_port()
    path.write_text(str(port), encoding="ascii")
    return port


def _sandbox(folder: Path, kubeconfig: Path) -> Program:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(ROOT), environment.get("PYTHONPATH", "")) if part
    )
    argv = (
        sys.executable,
        "-m",
        "reverser.sandbox",
        "--listen",
        f"127.0.0.1:{_remembered_port(folder / 'port')}",
        "--state-dir",
        str(folder / "cluster"),
        "--kubeconfig-out",
        str(kubeconfig),
        "--finish-namespaces",
    )
    return Program("sandbox", argv, environment, stop_seconds=3, log_file=folder / "cluster.log")


def farewell(run: Up, demo: Demo, kubectl: str, *, in_step: bool) -> list[str]:
    """What a newcomer can do now, line by line."""
    environment = f"KUBECONFIG={demo.kubeconfig}"
    return [
        "",
        "The cluster and the repository are in step. Try, in another terminal:"
        if in_step
        else "The first commit is still on its way. Then try, in another terminal:",
        "",
        f"  export {environment}",
        f"  {kubectl} create configmap greeting --from-literal=text=hello -n shop",
        f"  {kubectl} annotate configmap opening-hours -n shop note=holidays",
        f"  {kubectl} delete configmap greeting -n shop",
        "",
        "and see each change arrive a few seconds later:",
        "",
        f"  git --git-dir={demo.repository} log --stat --patch main",
        "",
        f"The admin is at http://{run.web_address}/admin/ ({describe_login(run.login)}).",
        "Ctrl-C ends everything; the next start goes on from here.",
        "",
    ]
