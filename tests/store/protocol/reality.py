"""What exists outside Redis in the protocol model: clusters with history and a remote with one branch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

Tree = dict[tuple[str, str, str], int]
"""(folder, group/resource, name) to the revision of the object that the file shows."""


@dataclass(frozen=True)
class Change:
    """One write in the cluster: ``deleted`` or now at ``revision``."""

    revision: int
    kind: str
    name: str
    deleted: bool
    author: str


@dataclass
class Cluster:
    """The objects that one target mirrors, with every revision they ever had."""

    log: list[Change] = field(default_factory=list)
    compacted: int = 0

    def at(self, kind: str, revision: int) -> dict[str, int]:
        """The objects of a type as they were."""
        out: dict[str, int] = {}
        for change in self.log:
            if change.kind == kind and change.revision <= revision:
                out.pop(change.name, None)
                if not change.deleted:
                    out[change.name] = change.revision
        return out

    def after(self, kind: str, revision: int) -> list[Change]:
        """What a watch that resumes at ``revision`` delivers."""
        return [change for change in self.log if change.kind == kind and change.revision > revision]


@dataclass(frozen=True, eq=False)
class Commit:
    """A commit: its id follows from what it is, as in Git."""

    parent: Commit | None
    tree: Tree
    boundary: str
    request: str = ""

    @property
    def id(self) -> str:
        text = f"{self.parent.id if self.parent else ''}|{sorted(self.tree.items())}|{self.boundary}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def line(self) -> Iterator[Commit]:
        """This commit and its ancestors, newest first."""
        node: Commit | None = self
        while node is not None:
            yield node
            node = node.parent


@dataclass
class Push:
    """A push on the wire; it may land long after its sender died, or never."""

    expected: str
    new: Commit
    landed: bool | None = None


@dataclass
class Remote:
    """One branch. A push lands if the tip is the expected one and the remote takes pushes."""

    tip: Commit | None = None
    refuses: bool = False

    @property
    def tip_id(self) -> str:
        return self.tip.id if self.tip else ""

    def reaches(self, commit_id: str) -> bool:
        """Whether a commit is the tip or an ancestor of it; "" is an ancestor of everything."""
        if not commit_id:
            return True
        return self.tip is not None and any(commit.id == commit_id for commit in self.tip.line())

    def land(self, push: Push) -> bool:
        """Compare and swap; once per push."""
        if push.landed is None:
            push.landed = push.expected == self.tip_id and not self.refuses
            if push.landed:
                self.tip = push.new
        return push.landed

    def history(self) -> list[Commit]:
        """From the root to the tip."""
        return list(self.tip.line())[::-1] if self.tip else []
