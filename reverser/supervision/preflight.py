"""Everything that is checked before the first process starts. One line per problem, nothing half-started."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from reverser.config import Config
from reverser.errors import KubeForbidden, KubeNotFound, KubeUnauthenticated, ReverserError, SettingsInvalid
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.quantities import Address
from reverser.store.address import address_problem, missing_tls_file
from reverser.store.connections import blocking_client
from reverser.supervision.valkey import wait_for_redis

CLUSTER_DEADLINE_SECONDS = 10.0
REDIS_DEADLINE_SECONDS = 3.0
LEAST_FREE_BYTES = 32 * 1024 * 1024
"""What a first start writes, and a reserve. On a full disk a write to a memory-mapped file kills its process
without a message."""
LEFTOVER_SECONDS = 26.0
"""How long the children of a killed supervisor may take to end. They are gone within seconds as a rule; none
takes longer than a worker that is asked to end."""
_KINDS = ("gitproviders", "gittargets", "watchrules", "clusterwatchrules", "commitrequests")


@contextmanager
def owned_state_dir(state_dir: Path, *, patience: float = LEFTOVER_SECONDS) -> Iterator[int]:
    """Make sure that the state directory can be written and that nobody else uses it; yields the lock.

    The lock is a file descriptor that children inherit. Children of a supervisor that was killed outright end
    on their own, within ``patience`` seconds.
    """
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = os.open(state_dir / "supervisor.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsInvalid([_unwritable(state_dir, error)]) from error
    try:
        _take(lock, state_dir, patience)
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise SettingsInvalid([_unwritable(state_dir, error)]) from error
        yield lock
    finally:
        os.close(lock)


def _unwritable(state_dir: Path, error: OSError) -> str:
    return (
        f"REVERSER_STATE_DIR: {state_dir} cannot be written: {error.strerror}; choose another folder "
        "with REVERSER_STATE_DIR or --state-dir"
    )


def _take(lock: int, state_dir: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            if _is_running(owner) or time.monotonic() >= deadline:
                who = f"by another supervisor (process {owner})" if owner else "by another supervisor"
                raise SettingsInvalid(
                    [
                        f"REVERSER_STATE_DIR: {state_dir} is in use {who}; stop that one or choose "
                        "another folder"
                    ]
                ) from error
        time.sleep(0.1)


def _is_running(pid: str) -> bool:
    """Whether a process with this number runs; one of another user counts, one that has ended and that its
    parent has not looked after yet does not."""
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def git_problem() -> str:
    """Why git cannot be used, or an empty text."""
    if shutil.which("git") is None:
        return "git: the program is not on PATH; install git 2.31 or newer"
    return ""


def space_problem(state_dir: Path) -> str:
    """Why the state directory's file system has no room for a start, or an empty text. Raises OSError."""
    found = os.statvfs(state_dir)
    free = found.f_bavail * found.f_frsize
    full = "no more files" if found.f_files and not found.f_favail else ""
    if free < LEAST_FREE_BYTES:
        full = f"{free // 1024**2} MiB are free, {LEAST_FREE_BYTES // 1024**2} MiB are needed"
    if full:
        return (
            f"REVERSER_STATE_DIR: the disk of {state_dir} is full ({full}); make room or choose another "
            "folder with REVERSER_STATE_DIR or --state-dir"
        )
    return ""


def port_problem(setting: str, address: Address) -> str:
    """Why an address cannot be listened on, or an empty text."""
    with ExitStack() as probes:
        return _occupy(setting, address, probes)


def _occupy(setting: str, address: Address, probes: ExitStack) -> str:
    probe = probes.enter_context(socket.socket(address.family, socket.SOCK_STREAM))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((address.bound_host, address.port))
        probe.listen(1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"{setting}: cannot listen on {address}: {reason}; choose another with {setting}=HOST:PORT"
    return ""


def listener_problems(config: Config) -> list[str]:
    """The addresses of this configuration that are taken, by others or by one another."""
    wanted = [("REVERSER_HTTP_ADDR", config.http_addr)]
    if config.author_attribution:
        wanted.append(("REVERSER_AUDIT_ADDR", config.audit_addr))
    if config.admission_cert_dir is not None:
        wanted.append(("REVERSER_ADMISSION_ADDR", config.admission_addr))
    if config.metrics_cert_dir is not None:
        wanted.append(("REVERSER_METRICS_ADDR", config.metrics_addr))
    with ExitStack() as probes:
        return [problem for name, address in wanted if (problem := _occupy(name, address, probes))]


def redis_problem(url: str) -> str:
    """Why the configured Redis cannot be used, or an empty text. The address is shown without credentials."""
    problem = address_problem(url) or missing_tls_file(url)
    if problem:
        return f"REVERSER_REDIS_URL: {problem}"
    reason = wait_for_redis(url, seconds=REDIS_DEADLINE_SECONDS)
    if reason:
        return f"REVERSER_REDIS_URL: no Redis answers there ({reason}); start it or correct the address"
    return ""


def redis_may_come(url: str) -> bool:
    """Whether the only problem with a Redis is that nothing answers: then every process waits for it."""
    if address_problem(url) or missing_tls_file(url):
        return False
    client = blocking_client(url, socket_timeout=2, socket_connect_timeout=2)
    try:
        client.ping()
    except redis.AuthenticationError:
        return False
    except (redis.ConnectionError, redis.TimeoutError):
        return True
    except redis.RedisError:
        return False
    finally:
        client.close()
    return True


def cluster_problem(connect: Callable[[], Kube]) -> str:
    """Why the cluster cannot be used, or an empty text."""
    try:
        connect().get("/version", timeout=CLUSTER_DEADLINE_SECONDS)
    except SettingsInvalid as error:
        return "; ".join(error.problems)
    except (KubeForbidden, KubeUnauthenticated) as error:
        return f"KUBECONFIG: the API server does not accept these credentials: {error}"
    except ReverserError as error:
        return f"KUBECONFIG: the cluster cannot be reached: {error}; is it running, and is it the right one?"
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
