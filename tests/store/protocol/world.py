"""What the processes of the model share: targets, the branch, the cluster and the remote."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field

from gitwriter.memory import BranchMemory
from reverser.store import Store
from reverser.store.model import (
    AttachEntry,
    BranchKey,
    Frozen,
    Limits,
    OutcomeKind,
    TargetRef,
    TypeRef,
)
from tests.store.protocol.reality import Cluster, Push, Remote

BRANCH = BranchKey("shop", "provider", "main")
PLENTY = Limits(1 << 30, 1 << 30)
LEASE_MS = 600_000
Steps = Generator[None, None, None]


@dataclass
class Target:
    """A GitTarget as its owner wrote it, and what befalls its folder."""

    ref: TargetRef
    path: str
    kinds: tuple[str, ...]
    cluster: Cluster
    fingerprint: int = 0
    gate_open: bool = True
    alive: bool = True
    refused: bool = False
    stalled: bool = False
    brake: bool = False

    def frozen(self) -> Frozen:
        return Frozen("GitOps Reverser", "noreply@configbutler.ai", "", "", "", self.path)


@dataclass
class World:
    """Everything that the actors share."""

    store: Store
    rng: random.Random
    window_ms: int
    targets: dict[str, Target] = field(default_factory=dict)
    remote: Remote = field(default_factory=Remote)
    pushes: list[Push] = field(default_factory=list)
    requests: dict[str, AttachEntry] = field(default_factory=dict)
    appended: set[tuple[str, str, int]] = field(default_factory=set)
    """(target UID, object, revision) of every live event that was appended."""
    settled: dict[str, set[OutcomeKind]] = field(default_factory=dict)
    """By entry id, the outcomes that settlements gave it."""
    memories: list[BranchMemory] = field(default_factory=lambda: [BranchMemory(BRANCH) for _ in range(2)])
    """What each worker process remembers of the branch."""
    tokens: int = 0
    revision: int = 1
    """The clusters' newest resourceVersion."""
    lossy: bool = False
    """Redis lost data or the remote was rewritten: history may repeat, the tree must still become right."""

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"


def type_of(kind: str) -> TypeRef:
    return TypeRef("", "v1", kind, kind.title(), True)


class Stopped(Exception):
    """The lease is another's: end without draining."""
