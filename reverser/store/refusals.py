"""Answers by which a server says that it runs but takes nothing now, as an outage and not as a mistake.

A disk that is full (MISCONF), memory that is (OOM), replicas that are away (NOREPLICAS), a server that is no
primary any more (READONLY): each passes without anybody changing a line here, and everything that was refused
may be sent again. The library knows the first and the third only as a wrong command, which would end Celery's
consumer and whoever trusts that a wrong command is a bug. So each becomes a lost connection, by its code; the
store and Celery wait for both alike. The library finds the class of a code in a table; ours is added there.
"""

from __future__ import annotations

from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError, OutOfMemoryError, ReadOnlyError


class DiskRefusedError(ConnectionError):
    """The server cannot write its files."""


class ReplicasMissingError(ConnectionError):
    """Fewer replicas are there than the server must have to take writes."""


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
"""What stands for each code."""


def install() -> None:
    """Have every client of this process raise them."""
    BaseParser.EXCEPTION_CLASSES.update(REFUSALS)
