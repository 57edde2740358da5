"""A cache that a process leaves to the next: bounded, least recently used first out, saved in one file.

Losing it costs time and never a change. So a file that is missing, damaged or written by other code reads as
an empty cache. It holds ids and digests, no values of objects.
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import orjson

from .codeprint import codeprint

K = TypeVar("K")
V = TypeVar("V")


class Remembered(ABC, Generic[K, V]):
    """Values by key, shared by the threads of a process; a subclass says how they stand in the file."""

    def __init__(self, *, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self.learned = 0
        """How often something new was put in."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        with self._lock:
            self.learned += self._kept.get(key) != value
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)

    def save(self, path: Path) -> None:
        """Write everything to a file, replacing it in one step. Raises OSError."""
        with self._lock:
            kept = list(self._kept.items())
        rows = [self.to_row(key, value) for key, value in kept]
        _replace_file(path, orjson.dumps({"code": codeprint(), "rows": rows}))

    @classmethod
    def load(cls, path: Path, *, capacity: int = 100_000) -> Self:
        """What the same code version saved; empty otherwise."""
        found = cls(capacity=capacity)
        try:
            stored = orjson.loads(path.read_bytes())
            if stored["code"] != codeprint():
                return found
            for row in stored["rows"]:
                found.put(*cls.from_row(row))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(capacity=capacity)
        return found

    @staticmethod
    @abstractmethod
    def to_row(key: K, value: V) -> list[Any]:
        """One entry, as what JSON can hold (dataclasses included)."""

    @staticmethod
    @abstractmethod
    def from_row(row: list[Any]) -> tuple[K, V]:
        """The entry of a row. Raises ValueError, KeyError or TypeError for one that is damaged."""


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step, whoever else does so at the same moment. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}.new")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
