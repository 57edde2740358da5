"""A PostgreSQL of the test process's own, from Debian's package ``postgresql``.

It listens on a Unix socket in a folder that only its user (and root) may enter, never on a port, and keeps
nothing on disk longer than it must. PostgreSQL refuses to run as root, so under root it runs as ``postgres``,
else as ``nobody``; without root it runs as whoever tests.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests import needs

ROLE = "reverser"
START_SECONDS = 60.0
_SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "shared_buffers=64MB",
    "max_connections=60",
)


def _account() -> dict[str, Any]:
    """For subprocess: the user that the server runs as, where that is not ours."""
    if os.getuid():
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("neither the user postgres nor nobody exists to run PostgreSQL as")


class PostgreSQL:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, database: str) -> str:
        """The address of a database, as ``REVERSER_DATABASE_URL`` takes it."""
        return f"postgres://{ROLE}@{str(self._folder).replace('/', '%2F')}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A connection of the superuser; each statement is its own transaction."""
        return psycopg.connect(host=str(self._folder), user=ROLE, dbname=database, autocommit=True)

    def create_database(self) -> str:
        """The name of a new and empty database."""
        name = f"test_{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name


@contextlib.contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A server for the time of the block; skips (or fails) the test that asks where there is no package."""
    programs = Path(needs.program("postgres")).resolve().parent
    account = _account()
    # A socket's path must be short, and pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        folder.chmod(0o700)
        if account:
            os.chown(folder, account["user"], account["group"])
        yield from _serving(programs, folder, account)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serving(programs: Path, folder: Path, account: dict[str, Any]) -> Iterator[PostgreSQL]:
    data, log = folder / "data", folder / "log"
    initdb = ["--username", ROLE, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]
    _run([programs / "initdb", "--pgdata", data, *initdb], folder, account)
    settings = [part for item in (*_SETTINGS, f"unix_socket_directories={folder}") for part in ("-c", item)]
    with log.open("wb") as told:
        child = subprocess.Popen(
            [programs / "postgres", "-D", data, *settings],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            env=_environment(folder),
            **account,
        )
    server = PostgreSQL(folder)
    try:
        _await(server, child, log)
        yield server
    finally:
        # SIGINT ends sessions that are still open; SIGTERM would wait for them.
        child.send_signal(signal.SIGINT)
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _run(command: Sequence[str | Path], folder: Path, account: dict[str, Any]) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=_environment(folder), timeout=120, **account
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}


def _await(server: PostgreSQL, child: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while True:
        try:
            server.connect().close()
            return
        except psycopg.OperationalError:
            if child.poll() is not None or time.monotonic() > ends:
                raise AssertionError(log.read_text(errors="replace")[-4000:]) from None
            time.sleep(0.05)
