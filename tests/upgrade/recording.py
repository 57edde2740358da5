"""Journals as a version leaves them: every key of a Redis, written to a file and put back.

A file of ``journals/`` is never written again: it is what processes of that time really left. After a change
of the layout record another one, beside it: ``python -m tests.upgrade.recording NAME``.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

FOLDER = Path(__file__).parent / "journals"
# They belong to the processes of that time, which are gone.
_LEFT_OUT = ("gitops-reverser:lease", "gitops-reverser:process")


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(value: str) -> bytes:
    return base64.b64decode(value)


def dump(client: redis.Redis) -> list[dict[str, Any]]:
    """Every key with its kind and content; times to live are left out."""
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"string": lambda key: _text(client.get(key)),
        b"hash": lambda key: [[_text(k), _text(v)] for k, v in sorted(client.hgetall(key).items())],
        b"set": lambda key: sorted(_text(member) for member in client.smembers(key)),
        b"list": lambda key: [_text(item) for item in client.lrange(key, 0, -1)],
        b"zset": lambda key: [[_text(m), score] for m, score in client.zrange(key, 0, -1, withscores=True)],
        b"stream": lambda key: [
            [entry.decode(), [[_text(k), _text(v)] for k, v in fields.items()]]
            for entry, fields in client.xrange(key)
        ],
    }
    found = []
    for key in sorted(client.scan_iter("*")):
        if not key.decode().startswith(_LEFT_OUT):
            kind = client.type(key)
            found.append({"key": key.decode(), "kind": kind.decode(), "content": readers[kind](key)})
    return found


def restore(client: redis.Redis, recorded: list[dict[str, Any]]) -> None:
    """Put the keys back."""
    for item in recorded:
        key, content = item["key"], item["content"]
        match item["kind"]:
            case "string":
                client.set(key, _bytes(content))
            case "hash":
                client.hset(key, mapping={_bytes(k): _bytes(v) for k, v in content})
            case "set":
                client.sadd(key, *map(_bytes, content))
            case "list":
                client.rpush(key, *map(_bytes, content))
            case "zset":
                client.zadd(key, {_bytes(member): score for member, score in content})
            case "stream":
                for entry, fields in content:
                    client.xadd(key, {_bytes(k): _bytes(v) for k, v in fields}, id=entry)


def main(name: str) -> None:
    """Record what today's version leaves: a replay, changes of two authors, a deletion and a window that is
    closed but not pushed.
    """
    from reverser.store import Store
    from tests.gitwriter.conftest import make_world
    from tests.valkey import start_valkey

    server = start_valkey()
    try:
        url = f"redis://127.0.0.1:{server.port}/0"
        with tempfile.TemporaryDirectory() as folder:
            world = make_world(Store.connect(url), url, Path(folder))
            world.sweep({"menu": "soup", "prices": "low"})
            world.event("menu", "stew", author="alice")
            world.event("prices", "high", author="bob")
            world.repository.rename(world.repository.with_suffix(".away"))
            world.write()
            world.event("menu", None, author="bob")
            recorded = dump(world.redis)
    finally:
        server.stop()
    text = json.dumps(recorded, indent=1)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reverser.settings")
    django.setup()
    main(sys.argv[1])
