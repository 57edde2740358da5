"""What one attempt on a branch works with: the doors to Redis, Git and keys, and the limits that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gitwriter.git.commits import Signer
from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository
from gitwriter.lease import BranchLease
from gitwriter.targettree import InventoryShelf
from reverser.store import Store
from reverser.store.model import BranchKey


@dataclass(frozen=True, slots=True)
class AttemptEdges:
    """Built for each attempt."""

    store: Store
    lease: BranchLease
    branch: BranchKey
    repository: BareRepository
    remote: Remote
    shelf: InventoryShelf
    signer: Callable[[str], Signer]
    """Reads the signing key from a Secret of the provider's namespace, by name."""
    sensitive: frozenset[str]
    brake_percent: int
