"""The clone's place on disk: owned by one process, sound, and bare.

A crash may leave anything there: lock files, a half-written pack, an empty object, a plain file. One owner is
ensured by an advisory lock beside the clone, which the kernel drops with the process; under that lock every
leftover belongs to a dead process. Cheap checks then tell a sound clone from a damaged one, and a damaged one
is removed: it holds nothing that is not on the remote or in the journal.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.errors import CloneUnusable
from reverser.trust.child import run

_LOCAL_DEADLINE = 60.0
_HEX = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\n?")


def acquire(path: Path) -> int:
    """Take the clone for this process; returns the lock's descriptor. Raises CloneUnusable."""
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CloneUnusable(
            f"the clone directory {path.parent} cannot be used: {error.strerror}; check REVERSER_STATE_DIR"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise CloneUnusable(f"the clone {path} is in use by another writer") from None
    return descriptor


def prepare(path: Path, url: str) -> None:
    """Make ``path`` a sound bare repository whose origin is ``url``. Raises CloneUnusable."""
    try:
        if (path.exists() or path.is_symlink()) and not (_sound(path) and _leads_to(path, url)):
            remove(path)
        if not path.exists():
            path.mkdir(mode=0o750)
            _git(path, "init", "--quiet", "--bare", "--template=", "--initial-branch=unborn", str(path))
            _git(path, "--git-dir", str(path), "config", "remote.origin.url", url)
        _sweep_leftovers(path)
    except OSError as error:
        raise CloneUnusable(
            f"the clone {path} cannot be prepared: {error.strerror}; check space and permissions"
        ) from None


def _leads_to(path: Path, url: str) -> bool:
    """Give a clone that was found this origin. False where git cannot read its configuration: a power failure
    may leave a file of the right length and no content."""
    if f"\turl = {url}\n" in (path / "config").read_text(encoding="utf-8", errors="replace"):
        return True
    (path / "config.lock").unlink(missing_ok=True)
    try:
        _git(path, "--git-dir", str(path), "config", "remote.origin.url", url)
    except CloneUnusable:
        return False
    return True


def read_ref(path: Path, ref: str) -> str | None:
    """The object id in a loose ref, read without a child process; None where it is packed, absent or
    malformed."""
    try:
        content = (path / ref).read_bytes()
    except (OSError, ValueError):
        return None
    return content.strip().decode() if _HEX.fullmatch(content) else None


def write_ref(path: Path, ref: str, oid: str) -> bool:
    """Set a loose ref without a child process; False where git has to do it (a name is in the way of
    another).

    The clone's lock is held, so nobody else writes refs, and a rename is as atomic as git's own.
    """
    target = path / ref
    fresh = target.with_name(target.name + ".lock")
    try:
        fresh.write_text(oid + "\n", encoding="ascii")
        fresh.replace(target)
    except OSError:
        with suppress(OSError):  # where a name is in the way, there is nothing to remove
            fresh.unlink()
        return False
    return True


def remove(path: Path) -> None:
    """Remove a clone, or whatever is in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        _make_writable(path)
        shutil.rmtree(path)


def _make_writable(path: Path) -> None:
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o700)


def _git(path: Path, *arguments: str) -> None:
    done = run([git_binary(), *arguments], env=base_environment(), deadline=_LOCAL_DEADLINE)
    if not done.ok:
        words = " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
        raise CloneUnusable(f"git cannot prepare the clone {path}: {words}; check space and permissions")


def _sound(path: Path) -> bool:
    """Whether what stands there is a bare repository without visible damage."""
    if path.is_symlink() or not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return False
    try:
        head = (path / "HEAD").read_bytes()
        config = (path / "config").stat().st_size
    except OSError:
        return False
    if not (head.startswith(b"ref: refs/") or _HEX.fullmatch(head)) or not config:
        return False
    return _refs_whole(path) and _objects_whole(path / "objects")


def _refs_whole(path: Path) -> bool:
    """Every loose ref holds an object id; a crash after creation leaves them empty."""
    refs = path / "refs"
    if not refs.is_dir():
        return False
    for file in refs.rglob("*"):
        if file.is_file() and not file.name.endswith(".lock"):
            content = file.read_bytes()
            if not (_HEX.fullmatch(content) or content.startswith(b"ref: ")):
                return False
    return True


def _objects_whole(objects: Path) -> bool:
    """No loose object is empty, and each pack is as long as its index says.

    The index repeats the pack's checksum, which is also the pack's last twenty bytes: a truncated pack
    differs. Reading forty bytes per pack replaces a full fsck.
    """
    if not os.access(objects, os.W_OK | os.X_OK):
        return False
    for folder in objects.iterdir():
        if len(folder.name) != 2:
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_size == 0 and not entry.name.startswith("tmp_"):
                    return False
    packs = objects / "pack"
    if not packs.is_dir():
        return True
    for index in packs.glob("*.idx"):
        pack = index.with_suffix(".pack")
        if not pack.is_file() or pack.stat().st_size < 32 or index.stat().st_size < 40:
            return False
        if _tail(pack, 20) != _tail(index, 40)[:20]:
            return False
    return True


def _tail(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(-count, os.SEEK_END)
        return file.read(count)


def _sweep_leftovers(path: Path) -> None:
    """Remove what a killed git left; safe because the clone's lock is held."""
    for file in path.glob("*.lock"):
        file.unlink()
    for file in (path / "refs").rglob("*.lock"):
        file.unlink()
    for pattern in ("fast_import_crash_*", "gc.pid"):
        for file in path.glob(pattern):
            file.unlink()
    objects = path / "objects"
    for pattern in ("tmp_*", "??/tmp_*", "pack/tmp_*", "pack/*.lock", "info/*.lock"):
        for file in objects.glob(pattern):
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
    for pack in (objects / "pack").glob("*.pack"):
        if not pack.with_suffix(".idx").exists():
            pack.unlink()
