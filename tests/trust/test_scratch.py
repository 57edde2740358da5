"""Temporary folders: private, gone with the block, and gone after a kill once somebody starts anew."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reverser.trust import scratch
from reverser.trust.scratch import remove_abandoned, scratch_folder

HOLD = """
import sys
from pathlib import Path
from reverser.trust.scratch import scratch_folder
with scratch_folder("probe-", parent=Path(sys.argv[1])) as folder:
    (folder / "objects").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that works in a folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_killed_process_leaves_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start removes what a killed process left, and nothing that a living one uses."""
    monkeypatch.setattr(scratch, "_cleaned", set())
    killed, left = holder(tmp_path)
    living, used = holder(tmp_path)
    killed.kill()
    killed.communicate()
    stranger = tmp_path / "probe-link"
    stranger.symlink_to(used)
    try:
        assert left.is_dir()
        with scratch_folder("probe-", parent=tmp_path) as folder:
            assert not left.exists()
            assert (used / "objects").is_dir()
            assert stranger.is_symlink()
            assert folder.stat().st_mode & 0o777 == 0o700
            assert folder.name.startswith("probe-")
    finally:
        living.communicate("")
    assert not folder.exists()
    assert not used.exists()


def test_cleaning_and_making_at_once(tmp_path: Path) -> None:
    """A folder that is new may be taken for an abandoned one before it is locked; its maker then takes
    another, and what a block got stays."""
    ended = threading.Event()

    def clean() -> None:
        while not ended.is_set():
            remove_abandoned("probe-", parent=tmp_path)

    cleaners = [threading.Thread(target=clean) for _ in range(2)]
    for thread in cleaners:
        thread.start()
    try:
        for _ in range(200):
            with scratch_folder("probe-", parent=tmp_path) as folder:
                (folder / "a").write_text("x")
                assert [path.name for path in folder.iterdir()] == ["a"]
    finally:
        ended.set()
        for thread in cleaners:
            thread.join()
    assert list(tmp_path.iterdir()) == []
