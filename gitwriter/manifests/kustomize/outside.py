"""Bases beside the target path: what a build reads there, and nothing more.

An overlay names its base by a path that leaves the target (`../../base`). Such files are read so that the
overlay can be understood and built; they are never written, and no path leaves the repository.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..roles import MANIFEST_SUFFIXES
from ..tree import RepositoryTree
from .context import resolve_entry
from .model import Kustomization, is_remote, parse_kustomization

_MAX_FILES = 2_000


@dataclass(slots=True)
class Outside:
    """Files and kustomizations outside a target path; paths are relative to it and begin with `..`."""

    files: dict[str, bytes] = field(default_factory=dict)
    kustomizations: dict[str, Kustomization] = field(default_factory=dict)


def is_outside(path: str) -> bool:
    """True for a path, relative to the target path, that leaves it."""
    return path == ".." or path.startswith("../")


def read_outside(kustomizations: Iterable[Kustomization], tree: RepositoryTree, *, max_bytes: int) -> Outside:
    """Everything that these kustomizations reach outside the target path, base by base."""
    found = Outside()
    pending = list(kustomizations)
    while pending and len(found.files) < _MAX_FILES:
        kustomization = pending.pop()
        for entry in (*kustomization.entries, *kustomization.patches):
            target = resolve_entry(kustomization.directory, entry)
            if is_remote(entry) or not is_outside(target) or target in found.files:
                continue
            base = _read_base(target, tree, max_bytes)
            if base is not None:
                if base[0] not in found.kustomizations:
                    parsed = parse_kustomization(*base)
                    found.kustomizations[base[0]] = parsed
                    found.files[base[0]] = base[1]
                    pending.append(parsed)
            elif target.endswith(MANIFEST_SUFFIXES):
                data = _read(target, tree, max_bytes)
                if data is not None:
                    found.files[target] = data
    return found


def _read_base(target: str, tree: RepositoryTree, max_bytes: int) -> tuple[str, bytes] | None:
    for name in ("kustomization.yaml", "kustomization.yml"):
        path = f"{target}/{name}"
        data = _read(path, tree, max_bytes)
        if data is not None:
            return path, data
    return None


def _read(path: str, tree: RepositoryTree, max_bytes: int) -> bytes | None:
    place = posixpath.normpath(posixpath.join(tree.target_path, path))
    if is_outside(place):
        return None
    data = tree.read_outside(place)
    return data if data is not None and len(data) <= max_bytes else None
