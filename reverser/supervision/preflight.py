"""Everything that is checked before the first process starts. One line per problem, nothing half-started."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reverser.config import Config
from reverser.errors import KubeForbidden, KubeNotFound, ReverserError, SettingsInvalid
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.quantities import Address
from reverser.supervision.valkey import wait_for_redis

CLUSTER_DEADLINE_SECONDS = 10.0
REDIS_DEADLINE_SECONDS = 3.0
_KINDS = ("gitproviders", "gittargets", "watchrules", "clusterwatchrules", "commitrequests")


@contextmanager
def owned_state_dir(state_dir: Path) -> Iterator[None]:
    """Make sure that the state directory can be written and that no other supervisor uses it."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = os.open(state_dir / "supervisor.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsInvalid(
            [
                f"REVERSER_STATE_DIR: {state_dir} cannot be written: {error.strerror}; choose another folder "
                "with REVERSER_STATE_DIR or --state-dir"
            ]
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SettingsInvalid(
            [
                f"REVERSER_STATE_DIR: {state_dir} is in use by another supervisor; stop that one or choose "
                "another folder"
            ]
        ) from error
    try:
        yield
    finally:
        os.close(lock)


def port_problem(setting: str, address: Address) -> str:
    """Why an address cannot be listened on, or an empty text."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            return f"{setting}: cannot listen on {address}: {error.strerror}; choose another address"
    return ""


def listener_problems(config: Config) -> list[str]:
    """The addresses of this configuration that are taken."""
    wanted = [("REVERSER_HTTP_ADDR", config.http_addr)]
    if config.author_attribution:
        wanted.append(("REVERSER_AUDIT_ADDR", config.audit_addr))
    if config.admission_cert_dir is not None:
        wanted.append(("REVERSER_ADMISSION_ADDR", config.admission_addr))
    return [problem for name, address in wanted if (problem := port_problem(name, address))]


def redis_problem(url: str) -> str:
    """Why the configured Redis cannot be used, or an empty text. The address is shown without credentials."""
    if url.partition("://")[0] not in {"redis", "rediss", "unix"}:
        return "REVERSER_REDIS_URL: write redis://host:6379/0, rediss://host:6379/0 or unix:///path"
    try:
        reason = wait_for_redis(url, seconds=REDIS_DEADLINE_SECONDS)
    except ValueError:
        return "REVERSER_REDIS_URL: it cannot be read; write redis://host:6379/0"
    if reason:
        return f"REVERSER_REDIS_URL: no Redis answers there ({reason}); start it or correct the address"
    return ""


def cluster_problem(connect: Callable[[], Kube]) -> str:
    """Why the cluster cannot be used, or an empty text."""
    try:
        connect().get("/version", timeout=CLUSTER_DEADLINE_SECONDS)
    except SettingsInvalid as error:
        return "; ".join(error.problems)
    except KubeForbidden as error:
        return f"KUBECONFIG: the API server does not accept these credentials: {error}"
    except ReverserError as error:
        return f"KUBECONFIG: the cluster cannot be reached: {error}"
    return ""


def missing_crds(kube: Kube) -> list[str]:
    """The custom resource definitions that the cluster lacks."""
    missing = []
    for plural in _KINDS:
        name = f"{plural}.configbutler.ai"
        try:
            kube.get(resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions", name=name))
        except KubeNotFound:
            missing.append(name)
    return missing
