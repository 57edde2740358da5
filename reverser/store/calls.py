"""One operation as a value, so that the blocking and the asyncio store share every operation.

An operation is a pure function that returns a ``Call``: the script or command, its keys and arguments,
and how to read the reply. The facades only send it. Scripts are plain Lua files, each prefixed with the
shared functions of ``prelude.lua``; a script is atomic, which is what the protocol rests on. They touch
keys of several families at once, so Redis Cluster is not supported (one primary, or Sentinel, is).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Argument = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """Lua text and its SHA-1 as Redis names it."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script ``name``, with the prelude in front."""
    folder = resources.files("reverser.store") / "scripts"
    text = (folder / "prelude.lua").read_text("utf-8") + (folder / f"{name}.lua").read_text("utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What to send, and how to read the answer. Exactly one of ``script`` and ``command`` is set."""

    decode: Callable[[Any], T]
    script: str = ""
    keys: tuple[str, ...] = ()
    args: tuple[Argument, ...] = ()
    command: tuple[Argument, ...] = ()


def truth(reply: Any) -> bool:
    """Scripts reply 1 for "done" and 0 for "the fence is lost"."""
    return bool(int(reply))


def nothing(reply: Any) -> None:
    """The reply carries no information."""
    del reply
