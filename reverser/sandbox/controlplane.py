"""A real control plane in place of the sandbox: etcd and kube-apiserver from ``KUBEBUILDER_ASSETS``.

The same demo and the same end-to-end tests then run on the real thing. Certificates, the admin token and
etcd's data are kept in the state directory, so a restart finds its cluster again.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from reverser.errors import SettingsInvalid
from reverser.supervision.processes import Program


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The programs to run and the administrator's kubeconfig."""

    programs: tuple[Program, ...]
    kubeconfig: Path


def assets_folder() -> Path | None:
    """The folder named by ``KUBEBUILDER_ASSETS``, or None. Raises SettingsInvalid where it is incomplete."""
    text = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not text:
        return None
    folder = Path(text)
    missing = [name for name in ("etcd", "kube-apiserver") if not os.access(folder / name, os.X_OK)]
    if missing:
        raise SettingsInvalid(
            [f"KUBEBUILDER_ASSETS: {folder} lacks {', '.join(missing)}; name a folder with both, or unset it"]
        )
    return folder


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _remembered(path: Path, make: str) -> str:
    """The text of a private file, written on first use."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(make, encoding="ascii")
    return path.read_text(encoding="ascii")


def _service_account_key(path: Path) -> None:
    if path.exists():
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def control_plane(
    assets: Path, folder: Path, *, port: int | None = None, flags: tuple[str, ...] = ()
) -> ControlPlane:
    """Describe a control plane that keeps its data in ``folder``; ``flags`` are more of kube-apiserver's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ports = _remembered(folder / "ports", f"{port or free_port()} {free_port()} {free_port()}").split()
    api, client, peer = ports
    token = _remembered(folder / "token", secrets.token_hex(24))
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text(f'{token},admin,admin,"system:masters"\n', encoding="ascii")
    key = folder / "service-account.pem"
    _service_account_key(key)
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    etcd_url = f"http://127.0.0.1:{client}"
    etcd = Program(
        "etcd",
        (
            str(assets / "etcd"),
            "--data-dir",
            str(folder / "etcd"),
            "--listen-client-urls",
            etcd_url,
            "--advertise-client-urls",
            etcd_url,
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-cluster",
            f"default=http://127.0.0.1:{peer}",
            "--log-level",
            "error",
        ),
        environment,
        log_file=folder / "etcd.log",
    )
    server = Program(
        "apiserver",
        (
            str(assets / "kube-apiserver"),
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={api}",
            f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            *flags,
        ),
        environment,
        log_file=folder / "apiserver.log",
        stop_seconds=10,
    )
    return ControlPlane((etcd, server), _kubeconfig(folder / "kubeconfig", api, token))


def _kubeconfig(path: Path, port: str, token: str) -> Path:
    """Loopback to a server that made its own certificate: it is not verified, the token is private."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "demo",
        "clusters": [
            {
                "name": "demo",
                "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True},
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "admin", "namespace": "shop"}}],
    }
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document), encoding="ascii")
    return path
