"""What lies in a working folder and will never be committed: caches, environments, build results.

A writer sees commits only. Whoever looks at a folder on disk has to leave out what Git is told to ignore, or
a thousand files of an editor hide the ten that matter.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .environment import base_environment, git_binary

_DEADLINE = 30.0
_LIST = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")


def ignored_paths(folder: Path) -> frozenset[str]:
    """Files and whole folders below a folder that Git ignores and does not hold, relative to it.

    Empty where there is no Git, no repository, or no answer in time: more is then shown, never less.
    """
    try:
        done = subprocess.run(
            [git_binary(), "-C", str(folder), *_LIST],
            env=base_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_DEADLINE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return frozenset()
    found = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    return frozenset(path.removesuffix("/") for path in found if path not in ("", "./"))
