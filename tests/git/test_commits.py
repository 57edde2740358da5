"""Both ways of making a commit, loose objects and fast-import, make the very same one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitwriter.git.commits import CommitSession
from gitwriter.git.errors import CloneDamaged, CloneUnusable
from gitwriter.git.repository import BareRepository
from tests.git.helpers import ALICE, OPERATOR, WHEN, bare, git

# names between which the order of files and folders differs from that of plain text
PATHS = ("a", "a/b", "a/b/c", "a.b", "a-b/c", "a0", "b/a", "b/c", "é/ü", 'q"/\\n')
contents = st.one_of(st.none(), st.binary(max_size=8))
change_sets = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(PATHS), contents, max_size=4), st.booleans()),
    min_size=1,
    max_size=5,
)


def _apart(files: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Without paths that would need a name to be a file and a folder in one commit."""
    written = [path for path, content in files.items() if content is not None]
    return {
        path: content
        for path, content in files.items()
        if content is None or not any(other.startswith(path + "/") for other in written)
    }


def _commits(
    repository: BareRepository, sets: list[tuple[dict[str, bytes | None], bool]], few: int
) -> list[str]:
    """The ids of one commit per set, each on top of the last."""
    made: list[str] = []
    with CommitSession(repository.path, repository.read_blob, few_files=few) as session:
        for files, executable in sets:
            one = session.commit(
                parent=made[-1] if made else None,
                files=_apart(files),
                author=ALICE,
                committer=OPERATOR,
                when=WHEN,
                message=b"m\n",
                executable=list(files) if executable else (),
            )
            made.append(one.commit)
    return made


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(change_sets)
@example([({"a/b": b""}, False), ({"a/b/c": None, "a": None}, False)])
def test_loose_commits_are_those_of_fast_import(
    repo: BareRepository, sets: list[tuple[dict[str, bytes | None], bool]]
) -> None:
    """Files that come, change, go, and take the place of folders: the same ids either way."""
    with tempfile.TemporaryDirectory() as folder:
        other = bare(Path(folder) / "other.git")
        with BareRepository.open_or_create(other, f"file://{other}") as imported:
            expected = _commits(imported, sets, -1)
    assert _commits(repo, sets, 64) == expected
    repo.release_reader()


def test_objects_are_sound(repo: BareRepository) -> None:
    """git itself finds nothing wrong with what was written."""
    sets: list[tuple[dict[str, bytes | None], bool]] = [
        ({"a/b": b"1", "a.b": b"2", "a-b/c": b"3", "a0": b"4"}, False),
        ({"a/b": None, "a": b"5"}, True),
        ({"a": None, "a.b": None, "a-b/c": None, "a0": None}, False),
    ]
    made = _commits(repo, sets, 64)
    git(repo.path, "update-ref", "refs/heads/main", made[-1])
    assert git(repo.path, "fsck", "--strict", "--full", "--no-dangling") == ""
    assert git(repo.path, "ls-tree", "-r", "--name-only", made[0]).splitlines() == [
        "a-b/c",
        "a.b",
        "a/b",
        "a0",
    ]
    assert git(repo.path, "ls-tree", "-r", made[-1]) == ""


def test_a_large_commit_follows_a_small_one(repo: BareRepository) -> None:
    """A session goes over to fast-import at its first large commit and stays there."""
    many = {f"d/{number}": b"x" for number in range(5)}
    with CommitSession(repo.path, repo.read_blob, few_files=2) as session:
        parent = None
        for files in ({"a": b"1"}, many, {"a": b"2"}, {"a": None}):
            made = session.commit(
                parent=parent, files=dict(files), author=ALICE, committer=OPERATOR, when=WHEN, message=b"m"
            )
            parent = made.commit
    assert git(repo.path, "ls-tree", "-r", "--name-only", parent or "").splitlines() == sorted(many)
    assert git(repo.path, "rev-list", "--count", parent or "") == "4"


def test_odd_trees_of_others_are_kept(repo: BareRepository) -> None:
    """Entries that are not touched stay as they are: links, submodules, unusual modes."""
    blob = git(repo.path, "hash-object", "-w", "--stdin", data=b"x")
    rows = [f"120000 blob {blob}\tlink", f"160000 commit {'1' * 40}\tmodule", f"100755 blob {blob}\tz"]
    tree = git(repo.path, "mktree", "--missing", data="".join(f"{row}\n" for row in rows).encode())
    base = git(repo.path, "commit-tree", "-m", "m", tree)
    after = repo.commit(parent=base, files={"m/n": b"1"}, author=ALICE, committer=OPERATOR, message=b"m")
    listed = git(repo.path, "ls-tree", after).splitlines()
    assert [row for row in listed if not row.endswith("\tm")] == git(repo.path, "ls-tree", base).splitlines()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4])


@pytest.mark.parametrize("harm", [_cut, Path.unlink])
def test_a_damaged_tree_is_no_base(repo: BareRepository, harm: Callable[[Path], None]) -> None:
    """What cannot be read is never built on; the clone is thrown away."""
    base = repo.commit(parent=None, files={"d/a": b"1"}, author=ALICE, committer=OPERATOR, message=b"m")
    tree = git(repo.path, "rev-parse", f"{base}:d")
    found = repo.path / "objects" / tree[:2] / tree[2:]
    found.chmod(0o600)
    harm(found)
    repo.release_reader()
    with pytest.raises(CloneDamaged):
        repo.commit(parent=base, files={"d/b": b"1"}, author=ALICE, committer=OPERATOR, message=b"m")


def test_a_disk_that_refuses_is_told(repo: BareRepository) -> None:
    """A clone that cannot be written is a failure that is tried again, with its place in the message."""
    blob = git(repo.path, "hash-object", "--stdin", data=b"1")
    (repo.path / "objects" / blob[:2]).write_bytes(b"")
    with pytest.raises(CloneUnusable, match="cannot be written"):
        repo.commit(parent=None, files={"a": b"1"}, author=ALICE, committer=OPERATOR, message=b"m")
