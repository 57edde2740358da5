"""Temporary folders that do not outlive a killed process for long.

A process that ends normally removes its folders; one that is killed cannot. So each folder is locked by its
creator, the kernel releases the lock however the process ends, and the first use by the next process removes
every folder of the kind that nobody holds. Unlike a process id, a lock cannot be reused or belong to another
container, and folders of other users are never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_cleaned: set[tuple[Path, str]] = set()


@contextlib.contextmanager
def scratch_folder(prefix: str, *, parent: Path | None = None) -> Iterator[Path]:
    """A private empty folder for the time of the block, below ``parent`` or where temporary files go.

    Raises OSError where none can be made.
    """
    place = parent if parent is not None else Path(tempfile.gettempdir())
    if (place, prefix) not in _cleaned:
        _cleaned.add((place, prefix))
        remove_abandoned(prefix, parent=place)
    folder, lock = _make(prefix, place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(prefix: str, place: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            lock = _open(folder)
        except FileNotFoundError:
            continue  # it was removed as abandoned before it was locked
        with contextlib.suppress(OSError):  # without locks nobody removes it as abandoned
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove_abandoned(prefix: str, *, parent: Path) -> None:
    """Removes this user's folders of the kind that no living process holds."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            lock = _open(folder)
        except OSError:
            continue
        try:
            if os.fstat(lock).st_uid != os.getuid():
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # a living process holds it
        finally:
            os.close(lock)
