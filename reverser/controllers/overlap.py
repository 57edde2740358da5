"""Which of several GitTargets owns a folder: one deterministic election for all of them.

Targets compete when they write the same branch of the same repository (equivalent URLs count as one,
across GitProviders and namespaces) and their paths overlap. Owners are chosen in one pass in order of
(creation time, namespace/name), so a target that lost does not block a third one, every controller and
every pass finds the same winners, and two targets are never owners of overlapping paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reverser.kinds.branches import branch_problem
from reverser.kinds.model import GitTarget
from reverser.kinds.paths import normalize_path, path_problem


@dataclass(frozen=True, slots=True)
class Rival:
    """The owner that a target lost to."""

    key: str
    created: str
    provider: str
    path: str
    nested: bool

    def describe(self, target: GitTarget) -> str:
        """The message of ``TargetConflict``."""
        relation = "overlaps" if self.nested else "is the same as"
        return (
            f"path '{target.path}' on branch '{target.branch}' of provider "
            f"'{target.meta.namespace}/{target.provider}' {relation} path '{self.path}' of GitTarget "
            f"'{self.key}' (created {self.created}, provider '{self.provider}'); this target was created "
            "later; give it a path of its own or delete one of the two"
        )


def elect(targets: Iterable[GitTarget], repositories: Mapping[tuple[str, str], str]) -> dict[str, Rival]:
    """The losers by UID, each with the owner it lost to.

    ``repositories`` gives the canonical URL by (namespace, provider name); a provider that does not
    exist competes under its own name, so that its targets do not become owners twice when it returns.
    """
    losers: dict[str, Rival] = {}
    folders: dict[tuple[str, str], _Folders] = defaultdict(_Folders)
    for target in sorted(targets, key=lambda t: (t.meta.creation_timestamp, t.meta.key)):
        if path_problem(target.path) or branch_problem(target.branch):
            continue
        where = (target.meta.namespace, target.provider)
        repository = repositories.get(where) or f"unknown provider {where[0]}/{where[1]}"
        path = normalize_path(target.path)
        owner = folders[(repository, target.branch)].claim(path, target)
        if owner is not None:
            losers[target.meta.uid] = Rival(
                key=owner.meta.key,
                created=owner.meta.creation_timestamp,
                provider=f"{owner.meta.namespace}/{owner.provider}",
                path=owner.path,
                nested=normalize_path(owner.path) != path,
            )
    return losers


class _Folders:
    """The owners on one branch. A claim costs the depth of its path, however many owners there are."""

    def __init__(self) -> None:
        self._owners: dict[str, GitTarget] = {}
        self._inside: dict[str, GitTarget] = {}
        """The first owner below each folder."""

    def claim(self, path: str, target: GitTarget) -> GitTarget | None:
        """Take a folder; else the owner of it, of one above, or the first of those below."""
        parts = path.split("/") if path else []
        above = ["/".join(parts[:length]) for length in range(len(parts))]
        for folder in (*above, path):
            if folder in self._owners:
                return self._owners[folder]
        if path in self._inside:
            return self._inside[path]
        self._owners[path] = target
        for folder in above:
            self._inside.setdefault(folder, target)
        return None
