"""List, fetch, read, commit and push against repositories on disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitwriter.git.commits import check_path
from gitwriter.git.errors import CloneDamaged
from gitwriter.git.network import unavailable
from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, PushResult, list_remote
from gitwriter.identity import Ident
from reverser.errors import ConfigInvalid, LostRace, ReverserError, TransientError
from tests.git.helpers import ALICE, OPERATOR, WHEN, bare, git, git_bytes, human_commit, loose_commit


def make(
    repo: BareRepository, parent: str | None, files: dict[str, bytes | None], message: bytes = b"m"
) -> str:
    return repo.commit(
        parent=parent, files=files, author=ALICE, committer=OPERATOR, when=WHEN, message=message
    )


def bytes_on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def history(origin: Path, branch: str, count: int, *, first: int, size: int = 3) -> list[str]:
    """A new line of commits, a minute apart; each replaces one file of incompressible content."""
    noise = random.Random(first)
    stream = f"reset refs/heads/{branch}\n".encode()
    for number in range(count):
        content = noise.randbytes(size).hex()
        stream += (
            f"commit refs/heads/{branch}\ncommitter H <h@h> {first + 60 * number} +0000\ndata 1\nx\n"
            f"M 100644 inline a\ndata {len(content)}\n{content}\n"
        ).encode()
    git(origin, "fast-import", "--quiet", "--force", data=stream)
    return git(origin, "rev-list", branch).split()


def test_an_empty_remote_lists_nothing(repo: BareRepository, remote: Remote) -> None:
    """A01: an empty repository is reachable and has neither default branch nor branches."""
    refs = repo.list_remote(remote)
    assert (refs.head, dict(refs.branches)) == (None, {})


def test_first_commit_creates_the_branch_as_a_root(
    repo: BareRepository, remote: Remote, origin: Path
) -> None:
    """F01: the pushed branch is a root commit; HEAD of the remote and other branches stay as they were."""
    commit = make(repo, None, {"live/a.yaml": b"a: 1\n"})
    assert repo.push(remote, branch="main", new=commit, expected=None) is PushResult.PUSHED
    assert git(origin, "rev-list", "--parents", "main") == commit
    assert git(origin, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(origin, "fsck", "--strict", "--no-dangling") == ""


def test_unborn_other_default_branch(tmp_path: Path, repo: BareRepository) -> None:
    """F01: a remote whose HEAD names another unborn branch gets only the branch that was asked for."""
    other = bare(tmp_path / "other.git", head="trunk")
    remote = Remote.of(f"file://{other}")
    repo.push(remote, branch="main", new=make(repo, None, {"a": b"1"}), expected=None)
    assert git(other, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(other, "symbolic-ref", "HEAD") == "refs/heads/trunk"


@pytest.mark.parametrize(
    "message",
    [b"# a\n\n  indented  \n#tail", b"x", b"trailing \n\n\n", "günther 🍦\n".encode(), b"from :1\ndata 5\n"],
)
def test_message_bytes_are_exact(repo: BareRepository, message: bytes) -> None:
    """A13: nothing is trimmed, added or taken for a comment."""
    commit = make(repo, None, {"a": b"1"}, message)
    assert git_bytes(repo.path, "cat-file", "commit", commit).split(b"\n\n", 1)[1] == message


def test_names_and_dates_are_exact(repo: BareRepository) -> None:
    """A6: author and committer stand as given, both dates are the moment of the commit in UTC."""
    commit = make(repo, None, {"a": b"1"})
    head = git(repo.path, "cat-file", "commit", commit).splitlines()
    assert head[1] == f"author Alice <alice@noreply.cluster.local> {WHEN} +0000"
    assert head[2] == f"committer GitOps Reverser <noreply@configbutler.ai> {WHEN} +0000"


def test_changes_replace_delete_and_keep(repo: BareRepository) -> None:
    """A commit changes exactly the named paths; a folder may become a file and the reverse."""
    first = make(repo, None, {"a/b": b"1", "keep": b"k", 'odd "ä\\': b"o", "f": b"f"})
    second = make(repo, first, {"a/b": None, "a": b"file", "f": None, "f/g": b"below"})
    listed = {entry.path: entry.size for entry in repo.tree_entries(second)}
    assert listed == {"a": 4, "f/g": 5, "keep": 1, 'odd "ä\\': 1}


def test_executable_files_keep_their_mode(repo: BareRepository) -> None:
    """A script that is edited stays executable; everything else is 100644."""
    commit = repo.commit(
        parent=None,
        files={"run.sh": b"#!/bin/sh\n", "a": b""},
        author=ALICE,
        committer=OPERATOR,
        when=WHEN,
        message=b"m",
        executable=["run.sh"],
    )
    assert {entry.path: entry.mode for entry in repo.tree_entries(commit)} == {
        "run.sh": "100755",
        "a": "100644",
    }


def test_several_commits_share_one_session(repo: BareRepository) -> None:
    """Later commits of a session build on earlier ones before anything is written out."""
    with repo.session() as session:
        common = {"author": ALICE, "committer": OPERATOR, "when": WHEN, "message": b"m"}
        one = session.commit(parent=None, files={"a": b"1"}, **common)
        two = session.commit(parent=one.commit, files={"b": b"2"}, **common)
        same = session.commit(parent=two.commit, files={"b": b"2"}, **common)
    assert (same.tree, same.tree) == (two.tree, repo.tree_of(two.commit))
    assert git(repo.path, "rev-list", two.commit).split() == [two.commit, one.commit]


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a//b", ".git/config", "a/.GIT/x", "", "a/./b", "a\0b", "x" * 300]
)
def test_unsafe_paths_are_refused(repo: BareRepository, path: str) -> None:
    """A path that could leave the tree or reach into .git is refused before git sees it."""
    with pytest.raises(ReverserError):
        make(repo, None, {path: b"x"})


def test_reading_below_a_path(repo: BareRepository) -> None:
    """Listings and differences are limited to a folder, literally: no pattern is expanded."""
    one = make(repo, None, {"live/a": b"1", "live/b": b"2", "live2/a": b"3", "li*/c": b"4"})
    two = make(repo, one, {"live/a": None, "live/b": b"22", "live2/a": b"33", "live/n": b"n"})
    assert [entry.path for entry in repo.tree_entries(one, "live")] == ["live/a", "live/b"]
    assert [entry.path for entry in repo.tree_entries(one, "li*")] == ["li*/c"]
    assert repo.tree_entries(one, "absent") == []
    changed = {entry.path: entry.deleted for entry in repo.diff_entries(one, two, "live")}
    assert changed == {"live/a": True, "live/b": False, "live/n": False}


def test_blobs_in_bulk(repo: BareRepository) -> None:
    """Many blobs come from one reader, in any number, and binary content is exact."""
    files = {f"f{number}": bytes([number % 256]) * number + b"\n\0" for number in range(700)}
    commit = make(repo, None, dict(files))
    entries = repo.tree_entries(commit)
    blobs = repo.read_blobs([entry.blob for entry in entries])
    assert {entry.path: blobs[entry.blob] for entry in entries} == files


def test_sizes_are_told_without_reading(repo: BareRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any number of blobs; one that is not there is damage."""
    files = {f"f{number}": b"x" * number for number in range(300)}
    entries = repo.tree_entries(make(repo, None, dict(files)))
    monkeypatch.setattr(BareRepository, "read_blobs", None)
    sizes = repo.blob_sizes([entry.blob for entry in entries])
    assert {entry.path: sizes[entry.blob] for entry in entries} == {
        name: len(data) for name, data in files.items()
    }
    assert repo.blob_sizes([]) == {}
    with pytest.raises(CloneDamaged):
        repo.blob_sizes([entries[0].blob, "1" * 40])


def test_what_is_no_folder_on_a_path_is_found(repo: BareRepository, origin: Path, remote: Remote) -> None:
    """N11: a symbolic link, a submodule or a file in any component of the target path is named."""
    stream = f"commit refs/heads/main\ncommitter H <h@h> {WHEN} +0000\ndata 1\nx\n"
    stream += "M 120000 inline live/link\ndata 4\n/etc\nM 100644 inline live/a\ndata 1\nx\n"
    stream += f"M 160000 {'1' * 40} mod\nM 100644 inline live/sub/a\ndata 1\nx\n"
    git(origin, "fast-import", "--quiet", data=stream.encode())
    tip = repo.fetch(remote, repo.list_remote(remote).branches)["main"]
    found = {
        path: repo.obstacle_on(tip, path)
        for path in (
            "live/link/deeper",
            "live/a",
            "live/a/b",
            "mod",
            "mod/x/y",
            "live/sub",
            "live/new",
            "li*",
        )
    }
    assert {path: entry and (entry.path, entry.mode) for path, entry in found.items()} == {
        "live/link/deeper": ("live/link", "120000"),
        "live/a": ("live/a", "100644"),
        "live/a/b": ("live/a", "100644"),
        "mod": ("mod", "160000"),
        "mod/x/y": ("mod", "160000"),
        "live/sub": None,
        "live/new": None,
        "li*": None,
    }


def test_fetch_is_shallow_then_incremental(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """The first fetch brings the tip alone; later ones what is new, so ancestry can be told."""
    for number in range(5):
        old = human_commit(origin, "main", "a", str(number))
    refs = repo.list_remote(remote)
    assert (refs.head, repo.fetch(remote, refs.branches)) == ("main", {"main": old})
    assert git(repo.path, "rev-list", "--count", old) == "1"
    new = human_commit(origin, "main", "a", "new")
    assert repo.fetch(remote, repo.list_remote(remote).branches) == {"main": new}
    assert repo.is_ancestor(old, new) is True


def test_ancestry_beyond_the_cut_is_deepened(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """J15: 'cannot tell' is not 'no'; deepening makes it certain, also for a commit that is not there."""
    stream = "".join(
        f"commit refs/heads/main\ncommitter H <h@h> {number} +0000\ndata 1\nx\n"
        f"M 100644 inline a\ndata 3\n{number:03}\n"
        for number in range(80)
    )
    git(origin, "fast-import", "--quiet", data=stream.encode())
    tip, first = git(origin, "rev-parse", "main", "main~79").split()
    repo.fetch(remote, {"main": tip})
    assert repo.is_ancestor(first, tip) is None
    assert repo.contains(remote, branch="main", old=first, tip=tip) is True
    assert repo.contains(remote, branch="main", old="1" * 40, tip=tip) is False


def test_a_lost_race_needs_no_more_history(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """J15: whether our own commit arrived is told from what is new on the branch, however short the clone's
    history is: nothing is deepened."""
    old = history(origin, "main", 5, first=WHEN - 300)[0]
    repo.fetch(remote, {"main": old})
    ours = make(repo, old, {"b": b"1"})
    tip = human_commit(origin, "main", "a", "theirs")
    repo.fetch(remote, {"main": tip})
    assert repo.is_ancestor(ours, tip) is False
    assert git(repo.path, "rev-list", "--count", tip) == "2"


def test_a_rewritten_branch_does_not_bring_its_whole_history(
    repo: BareRepository, remote: Remote, origin: Path
) -> None:
    """F09, F10: a rebase onto an old commit costs what is new, however long the history below it is."""
    commits = history(origin, "main", 400, first=WHEN, size=4000)
    old = repo.fetch(remote, {"main": commits[0]})["main"]
    rebased = loose_commit(origin, "b", "x", parent=commits[300], when=WHEN + 60 * 500)
    git(origin, "update-ref", "refs/heads/main", rebased)
    before = bytes_on_disk(repo.path)
    assert repo.fetch(remote, repo.list_remote(remote).branches) == {"main": rebased}
    assert bytes_on_disk(repo.path) - before < 100_000
    assert repo.contains(remote, branch="main", old=old, tip=rebased) is False


def test_a_branch_of_older_commits_comes_with_its_tip(
    repo: BareRepository, remote: Remote, origin: Path
) -> None:
    """F10: where every new commit is older than what is here, the tip alone is fetched."""
    commits = history(origin, "main", 5, first=WHEN)
    repo.fetch(remote, {"main": commits[0]})
    older = history(origin, "main", 5, first=WHEN - 10**6)
    assert repo.fetch(remote, {"main": older[0]}) == {"main": older[0]}
    assert git(repo.path, "rev-list", "--count", older[0]) == "1"


def test_commits_with_wrong_dates_are_no_rewrite(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """J19: a commit whose clock was behind hides the way to the old tip; deepening finds it."""
    old = human_commit(origin, "main", "a", "1")
    repo.fetch(remote, {"main": old})
    late = loose_commit(origin, "a", "2", parent=old, when=WHEN - 10**6)
    tip = loose_commit(origin, "a", "3", parent=late, when=WHEN + 60)
    git(origin, "update-ref", "refs/heads/main", tip)
    repo.fetch(remote, {"main": tip})
    assert repo.is_ancestor(old, tip) is None
    assert repo.contains(remote, branch="main", old=old, tip=tip) is True


def test_rewritten_history_is_no_ancestor(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """F10: an unrelated root replaces the branch; the old tip is certainly no ancestor."""
    old = human_commit(origin, "main", "a", "old")
    repo.fetch(remote, {"main": old})
    git(origin, "update-ref", "-d", "refs/heads/main")
    new = human_commit(origin, "main", "b", "new")
    assert repo.fetch(remote, repo.list_remote(remote).branches) == {"main": new}
    assert repo.contains(remote, branch="main", old=old, tip=new) is False


def test_fetch_of_a_vanished_branch_is_a_race(repo: BareRepository, remote: Remote, origin: Path) -> None:
    """A branch that is deleted between listing and fetch means: start over."""
    tip = human_commit(origin, "gone", "a", "x")
    git(origin, "update-ref", "-d", "refs/heads/gone")
    with pytest.raises(LostRace):
        repo.fetch(remote, {"gone": tip})


@pytest.mark.parametrize("branch", ["--mirror", "a..b", "x.lock", "re fs", "", "@", "a//b", "a/.b", "x:y"])
def test_bad_branch_names_never_reach_git(repo: BareRepository, remote: Remote, branch: str) -> None:
    """A10: a branch name that git refuses, or that looks like an option, is refused with a reason."""
    commit = make(repo, None, {"a": b"1"})
    with pytest.raises(ConfigInvalid):
        repo.push(remote, branch=branch, new=commit, expected=None)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.dictionaries(
        st.lists(
            st.text(
                st.characters(exclude_categories=("Cs",), exclude_characters="/\0"),
                min_size=1,
                max_size=20,
            ),
            min_size=1,
            max_size=3,
        ).map("/".join),
        st.binary(max_size=200),
        max_size=8,
    ),
    st.binary(max_size=80).map(lambda raw: raw.replace(b"\0", b"")),
)
def test_any_files_and_message_round_trip(
    repo: BareRepository, files: dict[str, bytes], message: bytes
) -> None:
    """Paths with quotes, blanks, line breaks and any script, and any content, come back as they went in."""
    kept: dict[str, bytes] = {}
    for path, content in files.items():
        clash = any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in kept)
        try:
            check_path(path)
        except ReverserError:
            continue
        if not clash:
            kept[path] = content
    commit = make(repo, None, dict(kept), message)
    entries = repo.tree_entries(commit)
    blobs = repo.read_blobs([entry.blob for entry in entries])
    assert {entry.path: blobs[entry.blob] for entry in entries} == kept
    assert git_bytes(repo.path, "cat-file", "commit", commit).split(b"\n\n", 1)[1] == message


def test_hostile_names_make_sound_commits(repo: BareRepository) -> None:
    """G05: whatever names pass the identity rules, git fsck --strict accepts the commit."""
    commit = repo.commit(
        parent=None,
        files={"a": b"1"},
        author=Ident("\u202egnirts 🍦", "x@noreply.cluster.local"),
        committer=OPERATOR,
        message=b"m",
    )
    git(repo.path, "update-ref", "refs/heads/x", commit)
    git(repo.path, "fsck", "--strict", "--no-dangling")


def test_how_long_a_failure_took_is_not_part_of_its_words() -> None:
    """The words stand in a status, which is written only when it changed: clocks in them would write it."""
    remote = Remote.of("http://git.example.test/x")
    said = [
        str(unavailable("cannot list the remote", remote, words.encode()))
        for words in (
            "fatal: Failed to connect to h port 1 after 3 ms: Couldn't connect to server",
            "fatal: Failed to connect to h port 1 after 3071 ms: Couldn't connect to server",
        )
    ]
    assert said[0] == said[1]
    assert "Failed to connect to h port 1: Couldn't connect" in said[0]


def test_a_listing_without_end_is_given_up(
    remote: Remote, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's server that lists branches for ever costs an error, not the process."""
    human_commit(origin, "main", "a", "1")
    monkeypatch.setattr("gitwriter.git.network._MOST_LISTED", 10)
    with pytest.raises(TransientError, match="says more than 10 bytes"):
        list_remote(remote)
