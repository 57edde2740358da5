"""Watch lines: bytes to events.

Only byte 0x0A ends an event. JSON may hold U+2028, U+0085 or a character cut across two reads, so the split
is on bytes and only whole lines are decoded. A last line without a line feed is not an event: the connection
was cut inside it, and the same change comes again from the last good version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.deepjson import loads
from reverser.errors import KubeUnavailable


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line: ``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; ``size`` its length in bytes."""

    type: str
    object: dict[str, Any]
    size: int = 0


class LineSplitter:
    """Collects chunks and hands out whole lines without their end; a long line costs no quadratic copying."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that ``chunk`` completes, in order; empty lines are left out."""
        head, *rest = chunk.split(b"\n")
        self._parts.append(head)
        for part in rest:
            line = b"".join(self._parts)
            self._parts = [part]
            if line.strip():
                yield line

    @property
    def pending(self) -> int:
        """Bytes of the line that has no end yet."""
        return sum(len(part) for part in self._parts)


def parse_event(line: bytes) -> WatchEvent:
    """One watch line as an event. Raises KubeUnavailable when the line is not a watch event."""
    try:
        value = loads(line)
    except orjson.JSONDecodeError as error:
        raise KubeUnavailable(
            f"a watch line of {len(line)} bytes is not JSON; the watch is reopened"
        ) from error
    kind = value.get("type") if isinstance(value, dict) else None
    obj = value.get("object") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise KubeUnavailable("a watch line is JSON but no watch event; the watch is reopened")
    return WatchEvent(kind, obj, len(line))
