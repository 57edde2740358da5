"""Push outcomes: pushed, equal, race, refused, unknown; told apart without reading prose."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitwriter.git.pushing import RefReport, Unknown, Verdict, judge, parse_report
from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, PushResult
from reverser.errors import LostRace, RemoteRejected, RemoteUnavailable
from tests.git.helpers import ALICE, OPERATOR, WHEN, git, hook, human_commit, loose_commit


def change(repo: BareRepository, parent: str | None, text: str) -> str:
    return repo.commit(
        parent=parent,
        files={"live/a": text.encode()},
        author=ALICE,
        committer=OPERATOR,
        when=WHEN,
        message=b"m",
    )


@pytest.fixture
def tip(repo: BareRepository, remote: Remote, origin: Path) -> str:
    human_commit(origin, "main", "README", "0")
    listed = repo.list_remote(remote)
    return repo.fetch(remote, listed.branches)["main"]


def test_push_and_repeat(repo: BareRepository, remote: Remote, origin: Path, tip: str) -> None:
    """P2: the first push moves the branch, the same push again finds it equal and sends nothing."""
    new = change(repo, tip, "1")
    assert repo.push(remote, branch="main", new=new, expected=tip) is PushResult.PUSHED
    assert repo.push(remote, branch="main", new=new, expected=new) is PushResult.UP_TO_DATE
    assert repo.push(remote, branch="main", new=new, expected=tip) in set(PushResult)
    assert git(origin, "rev-parse", "main") == new


@pytest.mark.parametrize("case", ["moved", "deleted", "appeared", "rewritten"])
def test_races(repo: BareRepository, remote: Remote, origin: Path, tip: str, case: str) -> None:
    """P2, Z8: a tip other than the expected one is a race in each form, and nobody's commit is lost."""
    new, expected = change(repo, tip, "1"), tip
    if case == "moved":
        human_commit(origin, "main", "README", "1")
    elif case == "deleted":
        git(origin, "update-ref", "-d", "refs/heads/main")
    elif case == "appeared":
        expected = None
    else:
        git(origin, "update-ref", "refs/heads/main", loose_commit(origin, "x", "y"))
    before = git(origin, "for-each-ref")
    with pytest.raises(LostRace):
        repo.push(remote, branch="main", new=new, expected=expected)
    assert git(origin, "for-each-ref") == before


def test_policy_refusal_carries_the_words_of_the_server(
    repo: BareRepository, remote: Remote, origin: Path, tip: str
) -> None:
    """A refusing hook is a refusal, not a race; its words arrive without the bypass link."""
    hook(
        origin,
        "pre-receive",
        'echo "GH013: path live/a, https://host/o/r/security/unblock-secret/abc" >&2; exit 1',
    )
    with pytest.raises(RemoteRejected) as caught:
        repo.push(remote, branch="main", new=change(repo, tip, "1"), expected=tip)
    assert "pre-receive hook declined" in str(caught.value)
    assert "GH013: path live/a" in str(caught.value)
    assert "unblock-secret" not in str(caught.value)
    assert caught.value.reason == "PushRejected"


def test_a_race_inside_the_push_is_a_race(
    repo: BareRepository, remote: Remote, origin: Path, tip: str
) -> None:
    """The branch moves while the hook runs: git says 'remote rejected', the remote's tip says race."""
    human = loose_commit(origin, "README", "human", parent=tip)
    git(origin, "update-ref", "refs/heads/stash", human)
    hook(
        origin,
        "pre-receive",
        "env -u GIT_QUARANTINE_PATH -u GIT_OBJECT_DIRECTORY -u GIT_ALTERNATE_OBJECT_DIRECTORIES "
        f"git --git-dir={origin} update-ref refs/heads/main {human}",
    )
    with pytest.raises(LostRace):
        repo.push(remote, branch="main", new=change(repo, tip, "1"), expected=tip)
    assert git(origin, "rev-parse", "main") == human


def test_lost_answer_counts_as_pushed(repo: BareRepository, remote: Remote, origin: Path, tip: str) -> None:
    """E18: the server dies after it moved the branch; the listing shows that the push arrived."""
    hook(origin, "post-update", "kill -9 $PPID")
    new = change(repo, tip, "1")
    assert repo.push(remote, branch="main", new=new, expected=tip) is PushResult.PUSHED


def test_missing_remote_is_transient(repo: BareRepository, origin: Path, tip: str, tmp_path: Path) -> None:
    """T6: a remote that is away changes nothing; the push is tried again later."""
    away = Remote.of(f"file://{tmp_path}/nowhere.git")
    with pytest.raises(RemoteUnavailable):
        repo.push(away, branch="main", new=change(repo, tip, "1"), expected=tip)


def test_only_fast_forwards_leave(repo: BareRepository, remote: Remote, origin: Path, tip: str) -> None:
    """P2: a commit that does not build on the expected tip is not pushed over it."""
    with pytest.raises(LostRace):
        repo.push(remote, branch="main", new=change(repo, None, "root"), expected=tip)
    assert git(origin, "rev-parse", "main") == tip


def test_only_the_configured_branch_moves(
    repo: BareRepository, remote: Remote, origin: Path, tip: str
) -> None:
    """T2: a push to another branch leaves the default branch and tags alone."""
    new = change(repo, tip, "1")
    git(repo.path, "tag", "local", new)
    repo.push(remote, branch="env/b", new=new, expected=None)
    refs = git(origin, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert refs == [f"refs/heads/env/b {new}", f"refs/heads/main {tip}"]


@pytest.mark.parametrize(
    ("flag", "summary", "after", "verdict"),
    [
        ("!", "[remote rejected] (pre-receive hook declined)", "old", Verdict.REJECTED),
        ("!", "[remote rejected] (failed to update ref)", "other", Verdict.RACE),
        ("!", "[rejected] (stale info)", "other", Verdict.RACE),
        ("!", "[rejected] (fetch first)", "old", Verdict.RACE),
        ("!", "[remote failure] (remote failed to report status)", "old", Verdict.TRANSIENT),
        ("!", "[remote failure] (remote failed to report status)", "new", Verdict.PUSHED),
        (None, "", "old", Verdict.TRANSIENT),
        (None, "", "new", Verdict.PUSHED),
        (None, "", None, Verdict.RACE),
        ("!", "[remote rejected] (x)", Unknown(), Verdict.TRANSIENT),
    ],
)
def test_judgement(flag: str | None, summary: str, after: str | Unknown | None, verdict: Verdict) -> None:
    """P4: the verdict follows from the porcelain flag and the tip afterwards."""
    report = RefReport(flag, summary) if flag else None
    assert judge(report, expected="old", new="new", tip=after) is verdict


def test_report_line_of_the_right_branch() -> None:
    """Only the line of the pushed branch counts, and prose is no line."""
    text = b"To x\n!\tabc:refs/heads/other\t[rejected]\n \tabc:refs/heads/main\ta..b\nDone\n"
    assert parse_report(text, "main") == RefReport(" ", "a..b")
    assert parse_report(b"error: failed to push some refs", "main") is None


def test_two_writers_lose_nothing(tmp_path: Path, remote: Remote, origin: Path) -> None:
    """F08: writers that race on one branch each build again on what they lost to; every change arrives
    once, on one line of history."""

    def writer(name: str) -> None:
        with BareRepository.open_or_create(tmp_path / name, remote.url.text) as repo:
            for number in range(5):
                _push_until_it_arrives(repo, remote, f"live/{name}-{number}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(writer, ["a", "b"]))
    expected = {f"live/{name}-{number}" for name in "ab" for number in range(5)}
    assert set(git(origin, "ls-tree", "-r", "--name-only", "main").split()) == expected
    assert git(origin, "rev-list", "--count", "main") == "10"
    assert git(origin, "rev-list", "--min-parents=2", "main") == ""


def _push_until_it_arrives(repo: BareRepository, remote: Remote, path: str) -> None:
    for _ in range(50):
        tip = repo.fetch(remote, repo.list_remote(remote).branches).get("main")
        new = repo.commit(
            parent=tip, files={path: b"x"}, author=ALICE, committer=OPERATOR, when=WHEN, message=b"m"
        )
        try:
            repo.push(remote, branch="main", new=new, expected=tip)
        except LostRace:
            continue
        return
    raise AssertionError("the push never arrived")


def test_a_killed_writer_takes_its_push_along(
    tmp_path: Path, repo: BareRepository, remote: Remote, origin: Path, tip: str
) -> None:
    """J15: after kill -9 in mid-push no git of the writer is left, and the next writer finds its clone
    sound and the branch in one of two states."""
    hook(origin, "pre-receive", f"touch {tmp_path}/inside; sleep 1")
    new = change(repo, tip, "1")
    repo.close()
    script = f"""
        from pathlib import Path
        from gitwriter.git.remote import Remote
        from gitwriter.git.repository import BareRepository
        with BareRepository.open_or_create(Path({str(repo.path)!r}), {remote.url.text!r}) as repo:
            repo.push(Remote.of({remote.url.text!r}), branch="main", new={new!r}, expected={tip!r})
    """
    root = Path(__file__).parents[2]
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], cwd=root)
    _wait_for(lambda: (tmp_path / "inside").exists())
    writer.kill()
    writer.wait()
    needle = f"{new}:refs/heads/main".encode()
    _wait_for(lambda: not any(needle in _arguments(process) for process in Path("/proc").glob("[0-9]*")))
    with BareRepository.open_or_create(repo.path, remote.url.text) as again:
        now = again.fetch(remote, again.list_remote(remote).branches)["main"]
        assert now in (tip, new)
        assert again.has_commit(new)


def _arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
