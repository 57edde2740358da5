"""Keeping the objects and the resourceVersion counter in a directory: a snapshot and a log of what came after
it.

Each change is one line appended with one write, so a process killed at any moment leaves at most a torn last
line, which is dropped. History is not kept: after a restart every older version is compacted, as when a real
API server starts with an empty watch cache. Files are readable by their owner only, since Secrets are in
them.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from reverser.errors import SettingsInvalid
from reverser.sandbox.pki import write_private
from reverser.sandbox.storage import Event, EventType, ObjectKey, ResourceKey, Storage

logger = logging.getLogger(__name__)

Obj = dict[str, Any]
_REWRITE_AFTER = 64 * 1024 * 1024


class Journal:
    """The files of one state directory; one process at a time."""

    def __init__(self, folder: Path) -> None:
        self._snapshot = folder / "objects.jsonl"
        self._log = folder / "changes.jsonl"
        self._size = 0
        self._torn = False
        self._file = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsInvalid(
                [f"the state directory {folder} cannot be written ({error.strerror}); choose another"]
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise SettingsInvalid(
                [f"another sandbox uses the state directory {folder}; end it or choose another"]
            ) from error

    def load(self, storage: Storage) -> bool:
        """Fill the storage and start logging; returns whether there was anything to load."""
        rv = 0
        objects: dict[tuple[ResourceKey, ObjectKey], Obj] = {}
        for line in (*_lines(self._snapshot), *_lines(self._log)):
            rv = max(rv, line["rv"])
            if "r" not in line:
                continue
            key = ((line["r"][0], line["r"][1]), (line["k"][0], line["k"][1]))
            if line.get("o") is None:
                objects.pop(key, None)
            else:
                objects[key] = line["o"]
        storage.restore(rv, ((resource, key, obj) for (resource, key), obj in objects.items()))
        self._rewrite(storage)
        storage.on_event.append(lambda event: self._append(storage, event))
        return rv > 0

    def close(self) -> None:
        """Stop logging and let others use the directory."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def _append(self, storage: Storage, event: Event) -> None:
        if self._file < 0:
            return
        gone = event.type is EventType.DELETED
        line = orjson.dumps(
            {"rv": event.rv, "r": event.resource, "k": event.key, "o": None if gone else event.obj},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        try:
            if self._torn or self._size > _REWRITE_AFTER:
                self._rewrite(storage)
                return
            written = os.write(self._file, line)
        except OSError as error:
            self._tear(error)
            return
        if written < len(line):
            self._tear(None)
            return
        self._size += written

    def _tear(self, error: OSError | None) -> None:
        """A change could not be kept: cut off what was written of it; the next one keeps everything anew."""
        if not self._torn:
            reason = error.strerror if error is not None else "no space left"
            logger.warning(
                "changes of the cluster cannot be kept (%s); make room in %s", reason, self._log.parent
            )
        self._torn = True
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, self._size)

    def _rewrite(self, storage: Storage) -> None:
        """Write a snapshot and begin an empty log. A crash in between replays changes the snapshot already
        has.
        """
        lines = [orjson.dumps({"rv": storage.rv})]
        lines += [
            orjson.dumps({"rv": storage.rv, "r": resource, "k": key, "o": obj})
            for resource, key, obj in storage.all_objects()
        ]
        write_private(self._snapshot, b"\n".join(lines) + b"\n")
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._size, self._torn = 0, False


def _lines(path: Path) -> Iterator[Obj]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield orjson.loads(line)
