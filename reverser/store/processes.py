"""Processes as the admin shows them, the Redis clock, and hints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from reverser.store import keys
from reverser.store.calls import Call, nothing
from reverser.store.codec import hash_items


def heartbeat(kind: str, id: str, info: Mapping[str, object], ttl_s: int) -> Call[None]:
    """Report that a process is alive, for ``ttl_s`` seconds, with plain values about it (no secrets)."""
    return Call(
        script="heartbeat",
        keys=(keys.process(kind, id), keys.process_index(kind)),
        args=(orjson.dumps(dict(info)), ttl_s, id),
        decode=nothing,
    )


def heartbeats(kind: str) -> Call[dict[str, dict[str, Any]]]:
    """The living processes of a kind by id."""

    def decode(reply: Any) -> dict[str, dict[str, Any]]:
        return {ident: orjson.loads(value) for ident, value in hash_items(reply).items()}

    return Call(script="living", keys=(keys.process_index(kind),), args=("value",), decode=decode)


def time_ms() -> Call[int]:
    """Milliseconds of the Redis clock (J12)."""

    def decode(reply: Any) -> int:
        seconds, micros = reply
        return int(seconds) * 1000 + int(micros) // 1000

    return Call(command=("TIME",), decode=decode)


def publish(topic: str, payload: str = "") -> Call[None]:
    """Send a hint to all listeners; nothing may depend on its arrival."""
    return Call(command=("PUBLISH", keys.hint(topic), payload), decode=nothing)
