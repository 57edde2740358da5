"""The floor: the same work by plain tools, without any of the product's promises."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reverser.kube.sync import Kube
from tests.bench.report import timed


@dataclass(frozen=True, slots=True)
class Floor:
    """Wall seconds of each step."""

    listing: float
    dumping: float
    writing: float
    committing: float
    pushing: float

    @property
    def total(self) -> float:
        return self.listing + self.dumping + self.writing + self.committing + self.pushing


def measure_floor(kube: Kube, path: str, folder: Path) -> Floor:
    """LIST, dump with PyYAML's C dumper, write files, git add, commit, push to a bare repository."""
    remote, work = folder / "floor.git", folder / "floor"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "clone", "-q", str(remote), str(work)], check=True, capture_output=True)
    with timed() as listing:
        items = kube.list(path).items
    with timed() as dumping:
        texts = {item["metadata"]["name"]: _dump(item) for item in items}
    with timed() as writing:
        target = work / "live"
        target.mkdir()
        for name, text in texts.items():
            (target / f"{name}.yaml").write_text(text, encoding="utf-8")
    git = ["git", "-C", str(work), "-c", "user.name=floor", "-c", "user.email=floor@example.com"]
    with timed() as committing:
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "floor"], check=True)
    with timed() as pushing:
        subprocess.run([*git, "push", "-q", "origin", "HEAD:main"], check=True, capture_output=True)
    return Floor(listing.wall, dumping.wall, writing.wall, committing.wall, pushing.wall)


def _dump(item: dict[str, Any]) -> str:
    item.pop("status", None)
    item["metadata"].pop("managedFields", None)
    return yaml.dump(item, Dumper=yaml.CSafeDumper)


def commit_and_push(folder: Path, count: int) -> list[float]:
    """Wall seconds of ``count`` times one edit, git commit and git push in a small repository."""
    remote, work = folder / "bare.git", folder / "bare"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "clone", "-q", str(remote), str(work)], check=True, capture_output=True)
    git = ["git", "-C", str(work), "-c", "user.name=floor", "-c", "user.email=floor@example.com"]
    taken = []
    for number in range(count):
        (work / "a.yaml").write_text(f"v: {number}\n")
        with timed() as one:
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", "edit"], check=True)
            subprocess.run([*git, "push", "-q", "origin", "HEAD:main"], check=True, capture_output=True)
        taken.append(one.wall)
    return taken
