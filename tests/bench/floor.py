"""The floor: the same work by plain tools, without any of the product's promises."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reverser.kube.sync import Kube
from tests.bench.report import timed


@dataclass(frozen=True, slots=True)
class Floor:
    """Wall seconds of each step; prints as them."""

    listing: float
    dumping: float
    writing: float
    committing: float
    pushing: float

    @property
    def total(self) -> float:
        return self.listing + self.dumping + self.writing + self.committing + self.pushing

    def __str__(self) -> str:
        return (
            f"list {self.listing:.2f} dump {self.dumping:.2f} write {self.writing:.2f} "
            f"commit {self.committing:.2f} push {self.pushing:.2f}"
        )


def measure_floor(kube: Kube, paths: Sequence[str], folder: Path) -> Floor:
    """LIST, dump with PyYAML's C dumper, write files, git add, commit, push to a bare repository.

    The work tree stays at ``folder/floor``, one folder per listed path.
    """
    remote, work = folder / "floor.git", folder / "floor"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "clone", "-q", str(remote), str(work)], check=True, capture_output=True)
    with timed() as listing:
        listed = {path: kube.list(path).items for path in paths}
    with timed() as dumping:
        texts = {
            work / "live" / path.rsplit("/", 1)[1] / f"{item['metadata']['name']}.yaml": _dump(item)
            for path, items in listed.items()
            for item in items
        }
    with timed() as writing:
        for place in {file.parent for file in texts}:
            place.mkdir(parents=True)
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
    git = _git(work)
    with timed() as committing:
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "floor"], check=True)
    with timed() as pushing:
        subprocess.run([*git, "push", "-q", "origin", "HEAD:main"], check=True, capture_output=True)
    return Floor(listing.wall, dumping.wall, writing.wall, committing.wall, pushing.wall)


def _git(work: Path) -> list[str]:
    return ["git", "-C", str(work), "-c", "user.name=floor", "-c", "user.email=floor@example.com"]


def _dump(item: dict[str, Any]) -> str:
    item.pop("status", None)
    item["metadata"].pop("managedFields", None)
    return yaml.dump(item, Dumper=yaml.CSafeDumper)


def small_repository(folder: Path) -> Path:
    """A work tree of one file with a bare remote."""
    remote, work = folder / "bare.git", folder / "bare"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "clone", "-q", str(remote), str(work)], check=True, capture_output=True)
    commit_and_push(work, "a.yaml", "v: 0\n")
    return work


def commit_and_push(work: Path, path: str, text: str) -> float:
    """Wall seconds of one edit by git add, commit and push in a work tree."""
    git = _git(work)
    with timed() as one:
        (work / path).write_text(text)
        subprocess.run([*git, "add", path], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "edit"], check=True)
        subprocess.run([*git, "push", "-q", "origin", "HEAD:main"], check=True, capture_output=True)
    return one.wall
