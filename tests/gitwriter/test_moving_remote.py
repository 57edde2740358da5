"""A remote that other people write to while windows wait for it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from gitwriter.git.repository import BareRepository
from reverser.store.model import OutcomeKind

from .conftest import World
from .test_writer import hook, restart, seed, shutdown_write

A = "live/shop/configmaps/a.yaml"


def body(value: str, comment: str = "") -> str:
    return (
        f"{comment}apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: shop\n"
        f'data:\n  v: "{value}"\n'
    )


def shown(world: World, commit: str) -> list[str]:
    """The changed lines of a commit's file a."""
    done = subprocess.run(
        ["git", f"--git-dir={world.repository}", "show", "--format=", "-U0", commit, "--", A],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return [line.replace('"', "") for line in lines if line[:3] in ("+  ", "-  ")]


def outcomes(world: World) -> list[OutcomeKind]:
    return [item.kind for _id, item in world.store.read_outcomes("0-0", 50, 0)]


def humans_may(world: World) -> None:
    """The hook of the scenarios lets a human pass."""
    hook(world, '[ -n "$HUMAN" ] && exit 0\necho closed >&2\nexit 1')


def test_unpushed_windows_are_rebuilt_in_order(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F05, T4: behind a human's commit, each window one step, with its author and message; hashes are new."""
    monkeypatch.setenv("HUMAN", "1")
    world.event("a", "0")
    world.write()
    humans_may(world)
    for author, value in (("alice", "1"), ("bob", "2"), ("alice", "3")):
        world.event("a", value, author=author)
        restart(world)
        shutdown_write(world)
    assert len(world.subjects()) == 1
    seed(world, "docs/y.md", "by hand\n")
    hook(world, "exit 0")
    restart(world)
    shutdown_write(world)
    log = world.git.log()
    assert [commit.author.split(" <")[0] for commit in log[:4]] == ["alice", "bob", "alice", "Human"]
    steps = [shown(world, commit.sha) for commit in log[:3]]
    assert steps == [["-  v: 2", "+  v: 3"], ["-  v: 1", "+  v: 2"], ["-  v: 0", "+  v: 1"]]
    assert {commit.subject for commit in log[:3]} == {"[UPDATE] v1/configmaps/a"}
    assert world.pending() == 0


def test_a_human_was_faster_with_the_same_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F06, T5: no commit of ours, the human's comment stays, nothing is left to do."""
    monkeypatch.setenv("HUMAN", "1")
    world.event("a", "1")
    world.write()
    humans_may(world)
    world.event("a", "2")
    shutdown_write(world)
    assert world.pending() == 1
    tip = seed(world, A, body("2", "# by hand\n"))
    hook(world, "exit 0")
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0
    assert outcomes(world)[-1] is OutcomeKind.NO_CHANGE
    assert world.git.read(A) == body("2", "# by hand\n").encode()
    assert world.subjects()[0] != "[UPDATE] v1/configmaps/a"
    assert tip is None or world.git.tip() == tip


def test_a_pending_commit_survives_the_deletion_of_its_branch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11 (b), F03, Z8: the branch goes while a push waits; it is built anew on the default branch."""
    monkeypatch.setenv("HUMAN", "1")
    world.event("a", "1")
    world.write()
    humans_may(world)
    world.event("a", "2")
    shutdown_write(world)
    git = ["git", f"--git-dir={world.repository}"]
    subprocess.run([*git, "update-ref", "refs/heads/base", world.git.tip()], check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/base"], check=True)
    base = world.git.tip()
    subprocess.run([*git, "update-ref", "-d", "refs/heads/main"], check=True)
    hook(world, "exit 0")
    restart(world)
    shutdown_write(world)
    assert world.git.read(A) == body("2").encode()
    assert base in [commit.sha for commit in world.git.log()]
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay


@pytest.mark.parametrize("by", ["event", "replay"])
def test_a_branch_begins_where_the_default_branch_holds_its_objects(world: World, by: str) -> None:
    """B05: the branch appears though nothing differs, without a commit; that is a push, and shown as one."""
    world.event("a", "1")
    world.write()
    tip = world.git.tip()
    other = world.on_branch("qa")
    if by == "event":
        other.event("a", "1")
    else:
        other.sweep({"a": "1"})
    shutdown_write(other)
    assert other.git.tip() == tip
    assert outcomes(other)[-1] is OutcomeKind.NO_CHANGE
    assert other.store.last_push(other.target.uid)
    assert other.store.read_base(other.branch) == tip
    assert not other.store.read_intents(other.branch)
    other.event("a", "2")
    shutdown_write(other)
    assert other.git.read(A) == body("2").encode()
    assert world.git.tip() == tip


def test_a_branch_that_was_merged_and_deleted_waits_for_a_change(world: World) -> None:
    """F03: what somebody deleted after a merge is not made anew before there is something to write."""
    seed(world, "docs/x.md", "by hand\n")
    other = world.on_branch("qa")
    other.event("a", "1")
    shutdown_write(other)
    git = ["git", f"--git-dir={world.repository}"]
    subprocess.run([*git, "update-ref", "refs/heads/main", other.git.tip()], check=True)
    subprocess.run([*git, "update-ref", "-d", "refs/heads/qa"], check=True)
    for _ in range(2):
        other.sweep({"a": "1"})
        restart(other)
        shutdown_write(other)
    assert other.pending() == 0
    assert other.git.tip() == ""
    other.event("a", "2")
    shutdown_write(other)
    newest, parent = other.git.log()[:2]
    assert newest.subject == "[UPDATE] v1/configmaps/a"
    assert parent.sha == world.git.tip()


def test_two_targets_never_share_a_commit(world: World) -> None:
    """F16: interleaved changes of two folders on one branch; each commit touches one of them."""
    other = world.second_target("svc")
    for number in range(6):
        world.event(f"a{number}", "1")
        other.event(f"b{number}", "1")
    shutdown_write(world)
    assert world.pending() == 0
    for commit in world.git.log():
        done = subprocess.run(
            ["git", f"--git-dir={world.repository}", "show", "--format=", "--name-only", commit.sha],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len({path.split("/")[0] for path in done.stdout.split()}) == 1
    assert len([path for path in world.git.files() if path.endswith(".yaml")]) == 12


@pytest.mark.parametrize("name", ["big.bin", "big.yaml"])
def test_a_large_file_of_somebody_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The writer's memory follows what it manages: a person's file is judged by its name and its size."""
    world.event("a", "1")
    world.write()
    seed(world, f"live/{name}", "a: 1\n" * 2_000_000)
    read: list[str] = []
    real = BareRepository.read_blobs

    def noted(repository: BareRepository, oids: Iterable[str]) -> dict[str, bytes]:
        wanted = list(oids)
        read.extend(wanted)
        return real(repository, wanted)

    monkeypatch.setattr(BareRepository, "read_blobs", noted)
    world.event("a", "2")
    shutdown_write(world)
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and not verdict.accepted
    assert name in verdict.issues[0]
    git = ["git", f"--git-dir={world.repository}", "rev-parse", f"main:live/{name}"]
    large = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    assert large not in read


@pytest.mark.parametrize(("before", "after"), [("main/old", "main"), ("env", "env/b")])
def test_a_branch_takes_the_name_of_another(world: World, before: str, after: str) -> None:
    """A name that ends where another goes on stands in its way: the remote refuses the branch until the other
    is gone, and the clone then forgets it, too. Later pushes and fetches go as ever.
    """
    git = ["git", f"--git-dir={world.repository}"]
    seed(world, "x", "x\n")
    subprocess.run([*git, "branch", "-m", "main", before], check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", f"refs/heads/{before}"], check=True)
    world = world.on_branch(after)
    world.event("a", "1")
    shutdown_write(world)
    assert world.pending() == 1
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.reason == "PushRejected"
    subprocess.run([*git, "branch", "-m", before, "trunk"], check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/trunk"], check=True)
    for number in range(3):
        restart(world)
        shutdown_write(world)
        assert world.pending() == 0
        tip = world.git.tip()
        words = [
            "-c",
            "user.name=H",
            "-c",
            "user.email=h@lab.test",
            "commit-tree",
            f"{tip}^{{tree}}",
            "-p",
            tip,
        ]
        human = subprocess.run([*git, *words, "-m", "human"], check=True, capture_output=True, text=True)
        subprocess.run([*git, "update-ref", f"refs/heads/{after}", human.stdout.strip()], check=True)
        world.event("a", str(number + 2))
    assert len(world.subjects()) == 1 + 2 * 3


def test_a_remote_that_turns_to_other_ids(world: World, tmp_path: Path) -> None:
    """The repository is replaced by one whose objects have SHA-256 names: the branch waits and says so, and
    goes on by itself once the old one is back.
    """
    world.event("a", "1")
    world.write()
    kept = world.repository.rename(tmp_path / "kept")
    init = ["git", "init", "-q", "--bare", "--object-format=sha256", "-b", "main", str(world.repository)]
    subprocess.run(init, check=True)
    stream = b"commit refs/heads/main\ncommitter H <h@h> 1700000000 +0000\ndata 1\nx\n"
    fill = ["git", f"--git-dir={world.repository}", "fast-import", "--quiet"]
    subprocess.run(fill, input=stream, check=True)
    world.event("a", "2")
    shutdown_write(world)
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.reason == "InvalidConfig" and "SHA-256" in health.message
    assert world.pending() == 1
    shutil.rmtree(world.repository)
    kept.rename(world.repository)
    restart(world)
    shutdown_write(world)
    assert world.git.read(A) == body("2").encode()
    assert world.pending() == 0
