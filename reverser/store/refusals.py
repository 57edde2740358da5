"""Replies of a Redis that runs but accepts no writes now, treated as an outage and not as a mistake.

A full disk (MISCONF), exhausted memory (OOM), missing replicas (NOREPLICAS), a server that is no longer the
primary (READONLY): each passes without a change of code, and everything that was refused may be sent again.
The library treats the first and the third as a wrong command, which would end Celery's consumer and every
caller that takes a wrong command for a bug. So each becomes a lost connection, by its code; the store and
Celery wait for both alike. The library looks up the class of a code in a table; ours are added there.
"""

from __future__ import annotations

from redis._parsers.base import BaseParser
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    ConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
)


class DiskRefusedError(ConnectionError):
    """The server cannot write its files."""


class ReplicasMissingError(ConnectionError):
    """Fewer replicas are connected than the server needs to accept writes."""


class MemoryRefusedError(OutOfMemoryError, ConnectionError):
    """The server has no memory left for writes."""


class NoPrimaryError(ReadOnlyError, ConnectionError):
    """The server has become a replica."""


REFUSALS: dict[str, type[ConnectionError]] = {
    "MISCONF": DiskRefusedError,
    "NOREPLICAS": ReplicasMissingError,
    "OOM": MemoryRefusedError,
    "READONLY": NoPrimaryError,
}
"""The class for each code."""

_REMEDIES: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (
        (AuthenticationError, AuthenticationWrongNumberOfArgsError),
        "correct the user and the password in REVERSER_REDIS_URL; processes read it when they start",
    ),
    ((DiskRefusedError,), "free or enlarge its disk, its log says what it could not write"),
    ((OutOfMemoryError,), "raise its maxmemory, or remove what else fills it"),
    ((ReplicasMissingError,), "bring its replicas back, or lower min-replicas-to-write"),
    ((ReadOnlyError,), "it is a replica: name the primary in REVERSER_REDIS_URL, or the Sentinels"),
)


def remedy(error: Exception) -> str:
    """What helps against an error of Redis, by its class."""
    for classes, text in _REMEDIES:
        if isinstance(error, classes):
            return text
    return "check that it runs and is reachable under REVERSER_REDIS_URL"


def install() -> None:
    """Make every client of this process raise them."""
    BaseParser.EXCEPTION_CLASSES.update(REFUSALS)
