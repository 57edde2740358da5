"""Bare repositories on disk, and plain git to look into them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gitwriter.identity import Ident

ALICE = Ident("Alice", "alice@noreply.cluster.local")
OPERATOR = Ident("GitOps Reverser", "noreply@configbutler.ai")
WHEN = 1_700_000_000


def git(repository: Path, *arguments: str, data: bytes | None = None, check: bool = True) -> str:
    """Run plain git on a repository; returns its output without the last newline."""
    return git_bytes(repository, *arguments, data=data, check=check).decode().rstrip("\n")


def git_bytes(repository: Path, *arguments: str, data: bytes | None = None, check: bool = True) -> bytes:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Human",
        "GIT_AUTHOR_EMAIL": "human@example.test",
        "GIT_COMMITTER_NAME": "Human",
        "GIT_COMMITTER_EMAIL": "human@example.test",
    }
    done = subprocess.run(
        ["git", "--git-dir", str(repository), *arguments],
        input=data,
        capture_output=True,
        check=False,
        env=environment,
    )
    assert not check or done.returncode == 0, done.stderr.decode()
    return done.stdout


def bare(path: Path, head: str = "main") -> Path:
    """A new empty bare repository."""
    subprocess.run(["git", "init", "-q", "--bare", f"--initial-branch={head}", str(path)], check=True)
    return path


def human_commit(repository: Path, branch: str, path: str, text: str, *, base: str | None = None) -> str:
    """Commit one file straight into a bare repository, on ``base`` or on the branch's tip."""
    parent = base or git(repository, "rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False)
    commit = loose_commit(repository, path, text, parent=parent)
    git(repository, "update-ref", f"refs/heads/{branch}", commit)
    return commit


def loose_commit(repository: Path, path: str, text: str, *, parent: str = "", when: int = WHEN) -> str:
    """Make a commit that no branch names yet."""
    stream = "commit refs/reverser/human\nmark :1\n"
    stream += f"committer Human <human@example.test> {when} +0000\ndata 5\nhuman\n"
    stream += f"from {parent}\n" if parent else ""
    stream += f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n"
    stream = "reset refs/reverser/human\n" + stream
    git(repository, "fast-import", "--quiet", "--force", data=stream.encode())
    commit = git(repository, "rev-parse", "refs/reverser/human")
    git(repository, "update-ref", "-d", "refs/reverser/human")
    return commit


def hook(repository: Path, name: str, body: str) -> None:
    """Install a hook."""
    file = repository / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
