"""Manifests in Git: reading a path, judging it, and planning edits that a careful human would have made.

Everything here is a pure function of bytes, objects and policy; the same inputs give the same bytes out.
"""

from .changes import (
    PLACEMENT_SKIPS,
    Change,
    ChangeResult,
    Delete,
    FieldPatch,
    IgnoreField,
    KeptDocument,
    Outcome,
    Policy,
    SkipReason,
    Sweep,
    Upsert,
    WritePlan,
)
from .facts import IndexCache
from .gate import check
from .inventory import Inventory, locate
from .issues import Actor, Diagnostic, Issue, IssueKind, refusal_message, refusal_reason
from .limits import DEFAULT_LIMITS, Limits
from .placement.templates import validate_placement
from .tree import DirectoryTree, MemoryRepository, MemoryTree, RepositoryTree, Tree, TreeEntry, blob_id
from .writeplan import plan_writes

__all__ = [
    "DEFAULT_LIMITS",
    "PLACEMENT_SKIPS",
    "Actor",
    "Change",
    "ChangeResult",
    "Delete",
    "Diagnostic",
    "DirectoryTree",
    "FieldPatch",
    "IgnoreField",
    "IndexCache",
    "Inventory",
    "Issue",
    "IssueKind",
    "KeptDocument",
    "Limits",
    "MemoryRepository",
    "MemoryTree",
    "Outcome",
    "Policy",
    "RepositoryTree",
    "SkipReason",
    "Sweep",
    "Tree",
    "TreeEntry",
    "Upsert",
    "WritePlan",
    "blob_id",
    "check",
    "locate",
    "plan_writes",
    "refusal_message",
    "refusal_reason",
    "validate_placement",
]
