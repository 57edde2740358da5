"""A state directory that cannot be written: the branch says why, nothing is lost, it goes on by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitwriter.git.errors import CloneDamaged, CloneUnusable
from reverser.errors import RemoteUnavailable
from tests import needs

from .conftest import World
from .test_writer import hook, seed, shutdown_write

NOBODY = 65534


def remount(disk: Path, options: str) -> None:
    mount = needs.find("mount")
    assert mount is not None
    subprocess.run([mount, "-o", f"remount,{options}", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Take every byte."""
    with pytest.raises(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def use_up(disk: Path) -> None:
    """Take every inode."""
    folder = disk / "many"
    folder.mkdir()
    with pytest.raises(OSError):
        for number in range(100_000):
            (folder / str(number)).touch()


@contextmanager
def state_disk(world: World, options: str) -> Iterator[Path]:
    """The world's state directory as a disk of its own."""
    disk = world.repository.parent / "state"
    with needs.disk(disk, options):
        yield disk


def refused(world: World, kind: type[Exception], words: str) -> None:
    """A run that ends with a typed error which names the cause, and keeps everything."""
    pending = world.pending()
    shutdown_write(world)
    assert world.pending() == pending > 0
    health = world.store.read_branch_health(world.branch)
    assert health is not None and not health.ok
    assert health.reason == kind.__name__
    assert words in health.message


def recovered(world: World, first: str) -> None:
    """The same process goes on once the cause is gone; there is nothing to restart."""
    world.memory.retry_at = 0.0
    shutdown_write(world)
    assert world.pending() == 0
    assert world.subjects()[0] == first
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.ok
    assert world.git.problems() == ""


MENU = "[UPDATE] v1/configmaps/menu"


def test_a_full_disk_at_the_start(world: World) -> None:
    """E20: there is no room for a clone."""
    with state_disk(world, "size=2m") as disk:
        fill(disk)
        world.event("menu", "1")
        refused(world, CloneUnusable, "No space left on device")
        (disk / "filler").unlink()
        recovered(world, MENU)


def test_a_disk_that_is_full_amid_a_fetch(world: World) -> None:
    """E20: the history does not fit; git's reason is shown, not its progress."""
    seed(world, "docs/large.txt", os.urandom(1 << 20).hex())
    with state_disk(world, "size=1m") as disk:
        world.event("menu", "1")
        refused(world, RemoteUnavailable, "No space left on device")
        refused_message = world.store.read_branch_health(world.branch)
        assert refused_message is not None and "objects: " not in refused_message.message
        remount(disk, "size=64m")
        recovered(world, MENU)


def test_a_disk_that_is_full_amid_the_commit_of_a_replay(world: World) -> None:
    """E20: git's import has no room; the clone is made anew, and the message stays the same."""
    with state_disk(world, "size=500k") as disk:
        world.sweep({f"n{number}": os.urandom(4000).hex() for number in range(150)})
        refused(world, CloneDamaged, "Out of diskspace")
        health = world.store.read_branch_health(world.branch)
        world.memory.retry_at = 0.0
        refused(world, CloneDamaged, "Out of diskspace")
        again = world.store.read_branch_health(world.branch)
        assert health is not None and again is not None and health.message == again.message
        remount(disk, "size=64m")
        recovered(world, "reconciled 150 configmaps (last resourceVersion: 42)")


@pytest.mark.parametrize("take", [fill, use_up])
def test_no_room_for_one_more_commit(world: World, take: object) -> None:
    """E20: bytes or inodes are used up in a running installation."""
    with state_disk(world, "size=8m,nr_inodes=600") as disk:
        world.event("first", "1")
        shutdown_write(world)
        take(disk)  # type: ignore[operator]
        world.event("menu", "1")
        refused(world, CloneUnusable, "No space left on device")
        subprocess.run(["rm", "-rf", str(disk / "filler"), str(disk / "many")], check=True)
        recovered(world, MENU)


def test_no_inode_for_a_clone(world: World) -> None:
    """E20: it is half made, and made anew later."""
    with state_disk(world, "size=8m,nr_inodes=12") as disk:
        world.event("menu", "1")
        refused(world, CloneUnusable, "No space left on device")
        remount(disk, "nr_inodes=100000")
        recovered(world, MENU)


def test_a_disk_that_is_full_amid_a_push(world: World) -> None:
    """E20: what the remote has accepted is settled, whatever the clone can still note of it."""
    with state_disk(world, "size=8m") as disk:
        hook(world, f"dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null; exit 0")
        world.event("menu", "1")
        shutdown_write(world)
        assert world.subjects() == [MENU]
        assert world.pending() == 0
        hook(world, "exit 0")
        (disk / "filler").unlink()
        world.event("card", "1")
        shutdown_write(world)
        recovered(world, "[UPDATE] v1/configmaps/card")


def test_a_disk_that_turns_read_only(world: World) -> None:
    """E20: as a failing disk does."""
    with state_disk(world, "size=8m") as disk:
        world.event("first", "1")
        shutdown_write(world)
        remount(disk, "ro")
        world.event("menu", "1")
        refused(world, CloneUnusable, "Read-only file system")
        remount(disk, "rw")
        recovered(world, MENU)


@pytest.mark.parametrize("before", [False, True], ids=["without a clone", "with a clone"])
def test_a_folder_of_another_user(world: World, before: bool) -> None:
    """E20: an operator that is no superuser, and a volume that belongs to one."""
    needs.superuser()
    if before:
        world.event("first", "1")
        shutdown_write(world)
    world.event("menu", "1")
    os.seteuid(NOBODY)
    try:
        refused(world, CloneUnusable, "Permission denied")
    finally:
        os.seteuid(0)
    recovered(world, MENU)
