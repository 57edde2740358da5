"""Files that exist in memory alone, for programs that insist on a path.

Git, ssh and TLS libraries read keys from files. A key written to a disk outlives the process that wrote
it; a key in an argument or an environment variable can be read by others. An anonymous memory file has
neither fault: no name in any file system, mode 0600, readable only through this process' descriptor table,
and gone with the process even after ``kill -9``, so there is nothing to clean up at the next start.
Children open it by ``/proc/<our pid>/fd/<n>``; the path works for grandchildren that close what they
inherit, as ssh does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from reverser.errors import ConfigInvalid


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Yield a path to ``content`` that is valid inside the block. Raises ConfigInvalid without memfd."""
    if not hasattr(os, "memfd_create"):
        raise ConfigInvalid("credentials need Linux: anonymous memory files are not available here")
    descriptor = os.memfd_create("reverser", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


class MemoryFiles(ExitStack):
    """Several memory files with one lifetime."""

    def add(self, content: bytes) -> str:
        """Path of a new memory file, valid until the stack is closed."""
        return self.enter_context(memory_file(content))
