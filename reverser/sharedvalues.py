"""The metrics of one process in a file that another one reads, on a disk that may be full.

prometheus_client maps these files into memory. A page that a full or broken disk cannot hold is then no
error: the kernel kills the process that counts (SIGBUS), without a word. Here values are written as bytes,
which fails as an exception, and are kept by the process as well: they reach the file once there is room. The
format is the library's, whose collector reads it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import struct
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from reverser.sparing import Sparing

logger = logging.getLogger(__name__)

_USED = struct.Struct("i4x")
_VALUE = struct.Struct("dd")
_warnings = Sparing(lines=1, seconds=600)


class ValuesFile:
    """The values of one process for one kind of metric, by key. It stands where the library has its
    ``MmapedDict``, and like it is used under the library's lock only.
    """

    def __init__(self, filename: str) -> None:
        self._path = Path(filename)
        self._fd: int | None = None
        self._used = _USED.size
        self._positions: dict[str, int] = {}
        self._values: dict[str, tuple[float, float]] = {}
        self._unwritten: dict[str, None] = {}
        with contextlib.suppress(OSError, RuntimeError, ValueError, struct.error):
            # A process with the number of one that has ended counts on.
            for key, value, timestamp, position in MmapedDict.read_all_values_from_file(filename):  # type: ignore[no-untyped-call]
                self._values[key], self._positions[key] = (value, timestamp), position
                self._used = position + _VALUE.size

    def read_value(self, key: str) -> tuple[float, float]:
        """Value and Unix time of a key, which from now on is in the file."""
        if key not in self._values:
            self.write_value(key, 0.0, 0.0)
        return self._values[key]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Keep a value, and write it and what waits where that is possible."""
        self._values[key] = (value, timestamp)
        try:
            self._write(key)
            while self._unwritten:
                self._write(next(iter(self._unwritten)))
        except OSError as error:
            self._unwritten[key] = None
            if _warnings.left(error.errno):
                logger.warning(
                    "metrics do not reach the sum of all processes, %s cannot be written: %s; give the state "
                    "directory room, then they follow",
                    self._path,
                    error.strerror,
                )

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, key: str) -> None:
        fd = self._open()
        position, value = self._positions.get(key), _VALUE.pack(*self._values[key])
        if position is None:
            encoded = key.encode()
            entry = struct.pack("i", len(encoded)) + encoded
            entry += b" " * (8 - len(entry) % 8) + value
            used = self._used + len(entry)
            # A reader goes as far as the number at the start says.
            _write_all(fd, entry, self._used)
            _write_all(fd, _USED.pack(used), 0)
            self._positions[key], self._used = used - _VALUE.size, used
        else:
            _write_all(fd, value, position)
        self._unwritten.pop(key, None)

    def _open(self) -> int:
        if self._fd is None:
            if not self._positions:
                self._make()
            self._fd = os.open(self._path, os.O_RDWR)
        return self._fd

    def _make(self) -> None:
        """Under its name a file has its first bytes: readers do not stumble over an empty one."""
        temporary = self._path.with_suffix(".new")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(fd, _USED.pack(_USED.size), 0)
        finally:
            os.close(fd)
        temporary.replace(self._path)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    if os.pwrite(fd, data, offset) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
