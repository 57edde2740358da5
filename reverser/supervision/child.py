"""Run a program that ends with its parent: ``python -m reverser.supervision.child PARENT -- PROGRAM ...``.

A supervisor that is killed outright cannot stop its children; the kernel does it instead. The signal is
requested in the new process itself, before the program is executed, so no thread of the parent is involved.
``PARENT`` is the parent's process id, by which a parent that ended before the request is noticed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_SUPERVISOR = "GITOPS_REVERSER_SUPERVISOR"
"""The parent's process id, for the program itself."""


def die_with_parent(parent: int, number: int = signal.SIGTERM) -> None:
    """Ask the kernel (Linux) to send ``number`` to this process when its parent ends or has ended."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def is_orphan() -> bool:
    """Whether this process was started by a supervisor that has ended."""
    supervisor = os.environ.get(_SUPERVISOR, "")
    return supervisor.isdigit() and int(supervisor) != os.getppid()


def main(arguments: list[str]) -> NoReturn:
    """Replace this process by the program; exits with 2 where none is named."""
    if len(arguments) < 3 or not arguments[0].isdigit() or arguments[1] != "--":
        sys.stderr.write("usage: python -m reverser.supervision.child PARENT -- PROGRAM [ARG ...]\n")
        sys.exit(2)
    os.environ[_SUPERVISOR] = arguments[0]
    die_with_parent(int(arguments[0]))
    os.execvp(arguments[2], arguments[2:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
