"""The clone's place on disk: leftovers of a crash, damage, and single ownership."""

from __future__ import annotations

import multiprocessing
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gitwriter.git.errors import CloneDamaged, CloneUnusable
from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, PushResult
from tests.git.helpers import ALICE, git, git_bytes, human_commit


def test_reuse_keeps_objects_and_rewrites_the_origin(tmp_path: Path, origin: Path, remote: Remote) -> None:
    """L2: a sound clone is reused; a changed URL is rewritten; nothing secret stands in its configuration."""
    tip = human_commit(origin, "main", "a", "1")
    with BareRepository.open_or_create(tmp_path / "c", "file:///old") as repo:
        repo.fetch(remote, {"main": tip})
    with BareRepository.open_or_create(tmp_path / "c", remote.url.text) as repo:
        assert repo.has_commit(tip)
        assert git(repo.path, "config", "remote.origin.url") == remote.url.text


def _truncate_pack(path: Path) -> None:
    pack = next((path / "objects/pack").glob("*.pack"))
    pack.chmod(0o600)
    with pack.open("r+b") as file:
        file.truncate(pack.stat().st_size // 2)


def _empty_object(path: Path) -> None:
    folder = path / "objects/17"
    folder.mkdir(exist_ok=True)
    (folder / ("a" * 38)).touch()


def _empty_ref(path: Path) -> None:
    (path / "refs/remotes/origin").mkdir(parents=True, exist_ok=True)
    (path / "refs/remotes/origin/main").write_bytes(b"")


def _regular_file(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.write_text("not a repository")


def _dangling_link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("/nonexistent/elsewhere")


def _locks(path: Path) -> None:
    (path / "refs/remotes/origin").mkdir(parents=True, exist_ok=True)
    for name in (
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "shallow.lock",
        "refs/remotes/origin/main.lock",
    ):
        (path / name).touch()
    (path / "gc.pid").write_text(f"{os.getpid()} {socket.gethostname()}")
    (path / "objects/pack/tmp_pack_abc").write_bytes(b"x")
    (path / "objects/incoming-x").mkdir()


def _empty_head(path: Path) -> None:
    (path / "HEAD").write_bytes(b"")


def _empty_config(path: Path) -> None:
    (path / "config").write_bytes(b"")


def _hollow_config(path: Path) -> None:
    config = path / "config"
    config.write_bytes(bytes(config.stat().st_size))


def _half_a_config(path: Path) -> None:
    config = path / "config"
    config.write_bytes(config.read_bytes()[:30])


def _no_access(path: Path) -> None:
    (path / "objects").chmod(0)


@pytest.mark.parametrize(
    "damage",
    [
        _truncate_pack,
        _empty_object,
        _empty_ref,
        _regular_file,
        _dangling_link,
        _locks,
        _empty_head,
        _empty_config,
        _hollow_config,
        _half_a_config,
        _no_access,
    ],
)
def test_leftovers_of_a_crash(
    tmp_path: Path, origin: Path, remote: Remote, damage: Callable[[Path], None]
) -> None:
    """E20: whatever a crash left, the next start fetches and reads as if nothing had happened."""
    path = tmp_path / "c"
    stream = "".join(
        f"commit refs/heads/main\ncommitter H <h@h> {number} +0000\ndata 1\nx\n"
        f"M 100644 inline f{number}\ndata 5\n{number:05}\n"
        for number in range(150)
    )
    git(origin, "fast-import", "--quiet", data=stream.encode())
    with BareRepository.open_or_create(path, remote.url.text) as repo:
        repo.fetch(remote, repo.list_remote(remote).branches)
    damage(path)
    with BareRepository.open_or_create(path, remote.url.text) as repo:
        tip = repo.fetch(remote, repo.list_remote(remote).branches)["main"]
        entries = repo.tree_entries(tip)
        assert len(repo.read_blobs([entry.blob for entry in entries])) == 150
        assert not list(path.rglob("*.lock"))
        assert repo.maintenance(loose_limit=-1)


def _cut_short(path: Path, oid: str) -> None:
    """What a power failure may leave of a file that was written and renamed: its first bytes."""
    file = path / "objects" / oid[:2] / oid[2:]
    content = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(content[: len(content) // 2])


def test_a_damaged_object_that_is_made_again_does_not_fail_every_push(
    tmp_path: Path, origin: Path, remote: Remote
) -> None:
    """E20: an object is found by its id and not written again, so the damage is met when it is sent."""
    tip = human_commit(origin, "main", "a", "1")
    path = tmp_path / "c"

    def attempt() -> PushResult:
        with BareRepository.open_or_create(path, remote.url.text) as repo:
            repo.fetch(remote, {"main": tip})
            new = repo.commit(
                parent=tip, files={"b": b"text\n" * 50}, author=ALICE, committer=ALICE, message=b"m"
            )
            return repo.push(remote, branch="main", new=new, expected=tip)

    with BareRepository.open_or_create(path, remote.url.text) as repo:
        repo.fetch(remote, {"main": tip})
        repo.commit(parent=tip, files={"b": b"text\n" * 50}, author=ALICE, committer=ALICE, message=b"m")
    _cut_short(path, git_bytes(origin, "hash-object", "--stdin", data=b"text\n" * 50).decode().strip())
    with pytest.raises(CloneDamaged):
        attempt()
    assert attempt() is PushResult.PUSHED


def test_damage_that_only_fetching_meets_replaces_the_clone(
    tmp_path: Path, origin: Path, remote: Remote
) -> None:
    """E20: the tip that the next fetch starts from cannot be read."""
    tip = human_commit(origin, "main", "a", "1")
    path = tmp_path / "c"
    with BareRepository.open_or_create(path, remote.url.text) as repo:
        repo.fetch(remote, {"main": tip})
    (path / "shallow").unlink(missing_ok=True)
    tree = git(origin, "rev-parse", f"{tip}^{{tree}}")
    _cut_short(path, tree)
    newer = human_commit(origin, "main", "b", "2")
    for again in (False, True):
        try:
            with BareRepository.open_or_create(path, remote.url.text) as repo:
                repo.fetch(remote, {"main": newer})
                assert {entry.path for entry in repo.tree_entries(newer)} == {"a", "b"}
        except CloneDamaged:
            assert not again


def test_damage_met_later_replaces_the_clone(tmp_path: Path, origin: Path, remote: Remote) -> None:
    """An object that is missing in mid-work is a transient error, and the next clone is whole."""
    tip = human_commit(origin, "main", "a", "1")
    path = tmp_path / "c"
    with pytest.raises(CloneDamaged), BareRepository.open_or_create(path, remote.url.text) as repo:
        repo.fetch(remote, {"main": tip})
        repo.read_blob("2" * 40)
    assert not path.exists()


def test_a_clone_has_one_owner(tmp_path: Path) -> None:
    """A second opener is told that the clone is in use; after close it may have it."""
    first = BareRepository.open_or_create(tmp_path / "c", "file:///x")
    with pytest.raises(CloneUnusable, match="in use"):
        BareRepository.open_or_create(tmp_path / "c", "file:///x")
    first.close()
    BareRepository.open_or_create(tmp_path / "c", "file:///x").close()


def _die_holding(path: Path) -> None:
    BareRepository.open_or_create(path, "file:///x")
    os._exit(9)


def test_a_dead_owner_holds_nothing(tmp_path: Path) -> None:
    """The lock ends with the process, however it died."""
    process = multiprocessing.get_context("spawn").Process(target=_die_holding, args=(tmp_path / "c",))
    process.start()
    process.join()
    BareRepository.open_or_create(tmp_path / "c", "file:///x").close()


def test_unusable_place_is_a_typed_error(tmp_path: Path) -> None:
    """A place that cannot be a directory says so and names the setting."""
    (tmp_path / "file").touch()
    with pytest.raises(CloneUnusable, match="REVERSER_STATE_DIR"):
        BareRepository.open_or_create(tmp_path / "file" / "c", "file:///x")


def test_no_userinfo_is_written_down(tmp_path: Path) -> None:
    """106: a token that stands in the URL as a user name does not reach the clone's configuration."""
    with BareRepository.open_or_create(tmp_path / "c", "https://ghp_CANARY@host.test/a/b") as repo:
        assert git(repo.path, "config", "remote.origin.url") == "https://host.test/a/b"


def test_the_clone_is_bare_and_private(tmp_path: Path) -> None:
    """N5: no work tree, no hooks, nothing readable by others."""
    with BareRepository.open_or_create(tmp_path / "c", "file:///x") as repo:
        assert git(repo.path, "rev-parse", "--is-bare-repository") == "true"
        assert not (repo.path / "hooks").exists()
        assert not stat.S_IMODE((repo.path / "config").stat().st_mode) & 0o077


def test_maintenance_packs_and_shrinks(tmp_path: Path, origin: Path, remote: Remote) -> None:
    """99: many loose objects become one pack, and what is fetched stays readable."""
    with BareRepository.open_or_create(tmp_path / "c", remote.url.text) as repo:
        for number in range(6):
            tip = human_commit(origin, "main", f"f{number}", str(number))
            repo.fetch(remote, {"main": tip})
        assert repo.maintenance(loose_limit=10**6) is False
        assert repo.maintenance(pack_limit=-1) is True
        assert len(list((repo.path / "objects/pack").glob("*.pack"))) == 1
        assert len(repo.tree_entries(tip)) == 6
