"""A remote of half a gigabyte of history, over http: a branch costs its tip, not its past."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, PushResult
from tests.git.helpers import ALICE, OPERATOR, WHEN, bare, git
from tests.git.servers import git_http

COMMITS, MEGABYTE = 500, 1 << 20


def grow(origin: Path) -> str:
    """Each commit replaces one file of a megabyte that nothing compresses; returns the tip."""
    command = ["git", "--git-dir", str(origin), "-c", "core.compression=0", "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        for number in range(COMMITS):
            head = f"commit refs/heads/main\ncommitter H <h@h> {WHEN + 60 * number} +0000\ndata 1\nx\n"
            child.stdin.write(f"{head}M 100644 inline big\ndata {MEGABYTE}\n".encode())
            child.stdin.write(os.urandom(MEGABYTE) + b"\n")
    assert child.returncode == 0
    return git(origin, "rev-parse", "main")


def size(folder: Path) -> int:
    return sum(found.stat().st_size for found in folder.rglob("*") if found.is_file())


@pytest.mark.acceptance
def test_half_a_gigabyte_of_history_is_not_fetched(tmp_path: Path) -> None:
    """F: the first fetch, a commit and its push move a few megabytes; so does the next change of a human."""
    origin = bare(tmp_path / "root" / "origin.git")
    git(origin, "config", "http.receivepack", "true")
    tip = grow(origin)
    assert size(origin) > COMMITS * MEGABYTE
    with git_http(tmp_path / "root") as server:
        remote = Remote.of(server.url())
        with BareRepository.open_or_create(tmp_path / "clone", remote.url.text) as repo:
            assert repo.fetch(remote, repo.list_remote(remote).branches) == {"main": tip}
            new = repo.commit(
                parent=tip,
                files={"live/a": b"1\n"},
                author=ALICE,
                committer=OPERATOR,
                when=WHEN,
                message=b"m",
            )
            assert repo.push(remote, branch="main", new=new, expected=tip) is PushResult.PUSHED
            assert repo.is_ancestor(tip, new) is True
    assert git(origin, "rev-parse", "main", "main^").split() == [new, tip]
    assert git(origin, "rev-list", "--count", "main") == str(COMMITS + 1)
    assert size(tmp_path / "clone") < 8 * MEGABYTE
