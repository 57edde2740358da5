"""Shorthand of the scenarios about credentials, keys and sealed objects."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from reverser.kube.paths import core_path, own_path
from reverser.trust.sealing import find_sops
from tests.e2e.workspace import Workspace, until

AGE = {"enabled": True, "recipients": {"extractFromSecret": True, "generateWhenMissing": True}}
ENCRYPTION = {"provider": "sops", "secretRef": {"name": "age"}, "age": AGE}
SECRETS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets"]}


def secret(space: Workspace, name: str, data: dict[str, bytes | str], **metadata: Any) -> dict[str, Any]:
    """Create a Secret."""
    encoded = {
        key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for key, value in data.items()
    }
    body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": encoded}
    return space.kube.create(space.path("secrets"), {**body, "metadata": {"name": name, **metadata}})


def change_secret(space: Workspace, name: str, data: dict[str, str]) -> None:
    """Change entries of a Secret."""
    space.kube.patch(space.path("secrets", name), {"stringData": data})


def secret_data(space: Workspace, name: str) -> dict[str, bytes]:
    """The decoded entries of a Secret."""
    found = space.kube.get(core_path("secrets", namespace=space.namespace, name=name))
    return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}


def change(space: Workspace, plural: str, name: str, spec: dict[str, Any]) -> None:
    """Merge into the spec of one of the project's objects."""
    space.kube.patch(own_path(plural, namespace=space.namespace, name=name), {"spec": spec})


def shows(space: Workspace, plural: str, name: str, state: str, *, seconds: float = 30.0) -> str:
    """Wait for ``condition=status/reason``; returns the condition's message."""
    kind, _, wanted = state.partition("=")
    status, _, reason = wanted.partition("/")
    until(
        lambda: space.is_condition(plural, name, kind, status, reason),
        f"{plural}/{name} shows {state}, not {space.condition(plural, name, kind)}",
        seconds,
    )
    return str(space.condition(plural, name, kind).get("message", ""))


def age_identity(space: Workspace, name: str = "age") -> str:
    """The private key that the operator generated."""
    (key,) = (value for entry, value in secret_data(space, name).items() if entry.endswith(".agekey"))
    return next(line for line in key.decode().splitlines() if line.startswith("AGE-SECRET-KEY-"))


def sealed_secrets(space: Workspace, *, window: str = "1s", **target: Any) -> None:
    """Base with encryption by a generated key, and a rule for ConfigMaps and Secrets without the age one."""
    space.base(window=window, rules=(SECRETS,), **{"encryption": ENCRYPTION, **target})


def decrypted(text: bytes, identity: str) -> dict[str, Any]:
    """What stock sops makes of a sealed file. Raises CalledProcessError where the key does not fit."""
    done = subprocess.run(
        [str(find_sops()), "--decrypt", "--input-type", "yaml", "--output-type", "yaml", "/dev/stdin"],
        input=text,
        capture_output=True,
        check=True,
        env={"PATH": os.environ["PATH"], "SOPS_AGE_KEY": identity},
    )
    loaded: dict[str, Any] = yaml.safe_load(done.stdout)
    return loaded


def can_read(text: bytes, identity: str) -> bool:
    """Whether a key decrypts a sealed file."""
    try:
        decrypted(text, identity)
    except subprocess.CalledProcessError:
        return False
    return True


def verify_commit(repository: Path, commit: str, public_key: str, folder: Path) -> str:
    """What ``git verify-commit`` says with the given key allowed for the default committer."""
    allowed = folder / "allowed_signers"
    allowed.write_text(f'noreply@configbutler.ai namespaces="git" {public_key}\n')
    done = subprocess.run(
        [
            "git",
            f"--git-dir={repository}",
            "-c",
            f"gpg.ssh.allowedSignersFile={allowed}",
            "verify-commit",
            "-v",
            commit,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode == 0 else ""
