"""Replies of a Redis that runs but accepts no writes now, treated as an outage and not as a mistake.

A full disk (MISCONF), exhausted memory (OOM), missing replicas (NOREPLICAS), a server that is no longer the
primary (READONLY): each passes without a change of code, and everything that was refused may be sent again.
The library treats the first and the third as a wrong command, which would end Celery's consumer and every
caller that takes a wrong command for a bug. So each becomes a lost connection, by its code; the store and
Celery wait for both alike. The library looks up the class of a code in a table; ours are added there.
"""

from __future__ import annotations

from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError, OutOfMemoryError, ReadOnlyError


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


def install() -> None:
    """Make every client of this process raise them."""
    BaseParser.EXCEPTION_CLASSES.update(REFUSALS)
