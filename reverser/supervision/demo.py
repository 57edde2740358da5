"""``manage.py demo``: the whole product on a cluster of its own, with a bare repository on disk.

The cluster is the sandbox API server, or a real control plane where ``KUBEBUILDER_ASSETS`` names one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from reverser.config import Config
from reverser.sandbox.controlplane import assets_folder, control_plane, free_port
from reverser.supervision.processes import Program
from reverser.supervision.up import ROOT, Up, describe_login


@dataclass(frozen=True, slots=True)
class Demo:
    """Where everything of a demo is."""

    programs: tuple[Program, ...]
    kubeconfig: Path
    repository: Path
    real: bool


def prepare_demo(config: Config) -> Demo:
    """Lay out the demo in the state directory and point ``KUBECONFIG`` at its cluster."""
    folder = config.state_dir / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    repository = folder / "repo.git"
    assets = assets_folder()
    if assets is not None:
        plane = control_plane(assets, folder / "control-plane")
        demo = Demo(plane.programs, plane.kubeconfig, repository, real=True)
    else:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        demo = Demo((_sandbox(folder, kubeconfig),), kubeconfig, repository, real=False)
    os.environ["KUBECONFIG"] = str(demo.kubeconfig)
    return demo


def _sandbox(folder: Path, kubeconfig: Path) -> Program:
    port_file = folder / "port"
    if not port_file.exists():
        port_file.write_text(str(free_port()), encoding="ascii")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(ROOT), environment.get("PYTHONPATH", "")) if part
    )
    argv = (
        sys.executable,
        "-m",
        "reverser.sandbox",
        "--listen",
        f"127.0.0.1:{port_file.read_text(encoding='ascii')}",
        "--state-dir",
        str(folder / "cluster"),
        "--kubeconfig-out",
        str(kubeconfig),
        "--finish-namespaces",
    )
    return Program("sandbox", argv, environment, stop_seconds=3)


def farewell(run: Up, demo: Demo, kubectl: str) -> list[str]:
    """What a newcomer can do now, line by line."""
    environment = f"KUBECONFIG={demo.kubeconfig}"
    return [
        "",
        "The cluster and the repository are in step. Try, in another terminal:",
        "",
        f"  export {environment}",
        f"  {kubectl} create configmap greeting --from-literal=text=hello -n shop",
        f"  {kubectl} annotate configmap opening-hours -n shop note=holidays",
        f"  {kubectl} delete configmap greeting -n shop",
        "",
        "and see each change arrive a few seconds later:",
        "",
        f"  git --git-dir={demo.repository} log --stat main",
        "",
        f"The admin is at http://{run.config.http_addr}/admin/ ({describe_login(run.login)}).",
        "Ctrl-C ends everything; the next start goes on from here.",
        "",
    ]
