"""No core dumps: the memory of these processes holds credentials and plain text of Secrets.

A crash would write all of it to a disk, or hand it to the machine's crash collector. A limit of zero stops
the file alone, as the kernel ignores it when it pipes dumps into a program; a limit of one byte stops both,
because that is how the kernel keeps a collector from dumping itself. Children inherit it.
"""

from __future__ import annotations

import contextlib
import resource


def forbid_core_dumps() -> None:
    """For this process and all its children; harmless to repeat. Does nothing where the system forbids it."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    limit = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
