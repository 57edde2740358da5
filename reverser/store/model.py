"""The values that pass through the journal: who wrote what, for which target, in which order.

Everything here is plain, immutable and free of Redis. The protocol that moves these values is
described in docs/journal.md; rule numbers (J1 to J23) are that page's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reverser.store.entries import (
    ALL_OPERATIONS,
    AppendId,
    AttachEntry,
    Author,
    BranchKey,
    Claim,
    Cursor,
    Entry,
    EventEntry,
    Fence,
    LeaseKind,
    Marks,
    ObjectRef,
    Operation,
    Presence,
    RetireEntry,
    Scope,
    StagedObject,
    Stored,
    SweepEntry,
    TargetRef,
    TypeRef,
    UnsealedEntry,
    digest_field,
    digest_name,
    group_resource,
)

__all__ = [
    "ALL_OPERATIONS",
    "AppendId",
    "AppendStatus",
    "AttachEntry",
    "Author",
    "Boundary",
    "BranchHealth",
    "BranchKey",
    "BranchRecord",
    "Claim",
    "CloseReason",
    "Cursor",
    "DigestRecord",
    "Entry",
    "EventEntry",
    "Fence",
    "Frozen",
    "Gate",
    "Hold",
    "Intent",
    "IntentWindow",
    "Kept",
    "KeptNews",
    "LeaseKind",
    "Limits",
    "Marks",
    "ObjectChange",
    "ObjectRef",
    "Operation",
    "Outcome",
    "OutcomeKind",
    "PathVerdict",
    "Presence",
    "Recipients",
    "ReplayWish",
    "RetireEntry",
    "Scope",
    "Settlement",
    "Skipped",
    "SkippedObject",
    "StagedObject",
    "Stored",
    "StreamRecord",
    "StreamState",
    "SweepEntry",
    "TargetRef",
    "TypeRef",
    "UnsealedEntry",
    "WindowKind",
    "digest_field",
    "digest_name",
    "group_resource",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Unsettled bytes at which an append is answered with FULL, per target and per branch (J8)."""

    target_bytes: int
    branch_bytes: int


class AppendStatus(StrEnum):
    """The reply of an append script."""

    OK = "ok"
    DUPLICATE = "duplicate"
    """The same append id is stored already: an earlier try arrived."""
    FENCED = "fenced"
    """Another holds the target's lease: end without draining."""
    CURSOR_MISMATCH = "cursor-mismatch"
    EPOCH_MISMATCH = "epoch-mismatch"
    FULL = "full"
    """The target or the branch is at its limit of unsettled bytes (J8): stop reading, try again later."""
    STAGING_MISMATCH = "staging-mismatch"
    """The staged count is not the announced one, or the staging is gone: replay again."""
    TERMINAL = "terminal"
    """The attach names a request that already has an outcome."""


class WindowKind(StrEnum):
    """What a boundary closes."""

    WINDOW = "window"
    SWEEP = "sweep"


class CloseReason(StrEnum):
    """Why a window closed; a metric label and a log field."""

    TIMER = "timer"
    AUTHOR_OR_TARGET_CHANGE = "author-or-target-change"
    BUFFER_LIMIT = "buffer-limit"
    COMMIT_WINDOW_ZERO = "commit-window-zero"
    FINALIZE = "finalize-signal"
    SWEEP = "resync-before-apply"
    HEAL = "heal-before-next"
    RETIRE = "retire"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Frozen:
    """What a closing window freezes (J13): names, templates, identities, path, policy, and the repository
    that it was meant for; never any keys."""

    committer_name: str
    committer_email: str
    event_template: str
    group_template: str
    reconcile_template: str
    path: str
    placement_by_type: Mapping[str, str] = field(default_factory=dict)
    placement_default: str = ""
    placement_inference: bool = True
    ignore_fields: tuple[tuple[str, str, str, tuple[str, ...]], ...] = ()
    prune: str = "Always"
    signing_secret: str = ""
    repository: str = ""
    """Equal for equivalent URLs; empty = stored by a version that did not note it."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A closed window: exactly these entries become one commit, or one recorded outcome; it never changes
    (J13)."""

    id: str
    kind: WindowKind
    target: TargetRef
    entry_ids: tuple[str, ...]
    reason: CloseReason
    author: Author | None = None
    attach_id: str = ""
    """Stream id of the bound AttachEntry, or empty."""
    request_uid: str = ""
    message: str = ""
    """The bound request's message, verbatim; empty = generated."""
    frozen: Frozen | None = None
    closed_ms: int = 0


@dataclass(frozen=True, slots=True)
class IntentWindow:
    """One window of a push: its boundary, and its commit (empty = it produced no change)."""

    boundary_id: str
    entry_ids: tuple[str, ...]
    commit: str
    held: int = 0
    """Deletions of a sweep that this commit leaves out (J23): who finds it pushed settles it as held."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a push is about to do, stored before it (J15)."""

    id: str
    expected_tip: str
    """Object id, or empty when the branch must not exist."""
    new_tip: str
    windows: tuple[IntentWindow, ...]
    refused_ms: int = 0
    """When the remote answered the push with a refusal of its own, in Redis time; 0 = it has not."""


class OutcomeKind(StrEnum):
    """How entries were settled (J16)."""

    PUSHED = "pushed"
    NO_CHANGE = "no-change"
    REFUSED = "refused"
    VOID = "void"
    SUPERSEDED = "superseded"
    HELD = "held"
    RETIRED = "retired"
    UNSEALED = "unsealed"
    NO_WINDOW = "no-window"
    """An attach whose deadline passed with nothing to close."""
    WINDOW_MISMATCH = "window-mismatch"
    """An attach whose deadline passed while the open window was another's."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One object of an outcome. ``outcome`` is created, updated, deleted, unchanged or skipped."""

    operation: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    path: str = ""
    outcome: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The durable record of a settlement, from which status, history and metrics are made."""

    id: str
    kind: OutcomeKind
    branch: BranchKey
    target: TargetRef
    settled_ms: int = 0
    commit: str = ""
    message: str = ""
    author: Author | None = None
    author_name: str = ""
    author_email: str = ""
    reason: str = ""
    detail: str = ""
    close_reason: str = ""
    request_uid: str = ""
    request_namespace: str = ""
    request_name: str = ""
    changes: tuple[ObjectChange, ...] = ()
    changes_total: int = 0
    """Number of changes; ``changes`` itself is bounded."""
    first_entry_ms: int = 0
    swept: int = 0
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ReplayWish:
    """Raise ``wanted`` of a scope, parked under a reason or for a time (J14)."""

    scope: Scope
    parked_reason: str = ""
    parked_for_ms: int = 0


@dataclass(frozen=True, slots=True)
class DigestRecord:
    """What is known of one sealed object in Git (J20)."""

    digest: str
    blob: str
    recipients_generation: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """Everything one settling script writes at once (J16)."""

    outcome: Outcome
    entry_ids: tuple[str, ...]
    boundary_id: str = ""
    attach_id: str = ""
    """The last of ``entry_ids``, where that is the attach bound to the window and no event."""
    event_bytes: int = 0
    """What the events of a window count in the journal (``Stored.size``); 0: the script reads each entry."""
    sensitive: tuple[str, ...] = ()
    """``digest_field`` of the window's objects of sensitive types."""
    intent_id: str = ""
    attach_outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """By CommitRequest UID; normally the outcome above seen by the request that rode it."""
    digests: Mapping[str, DigestRecord | None] = field(default_factory=dict)
    """By ``digest_field(object)``; None deletes."""
    staging_ids: tuple[str, ...] = ()
    applied_scope: Scope | None = None
    """A sweep of this scope was applied (under ``applied_fingerprint``)."""
    applied_fingerprint: str = ""
    wishes: tuple[ReplayWish, ...] = ()
    new_base: str | None = None
    """The tip now known; None leaves the stored base as it is."""
    pushed: bool = False
    """A commit of this window reached the remote."""
    arrived: bool = False
    """The push that names this window reached the remote, with or without a commit of it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a target may stream and be planned (J21), as its controller last decided."""

    open: bool
    generation: int
    branch: BranchKey | None = None
    path: str = ""
    reason: str = ""


class StreamState(StrEnum):
    """The state of one shard, as status counts it."""

    REPLAYING = "replaying"
    STREAMING = "streaming"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One shard's state, written by the watcher that holds the target."""

    scope: Scope
    type: TypeRef
    state: StreamState
    reason: str
    message: str = ""
    since_ms: int = 0
    restarts: int = 0
    last_event_ms: int = 0
    hourly_events: int = 0
    """Added, modified and deleted events of the last hour, those that changed nothing included."""


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """The writer's last verdict on a target's folder."""

    accepted: bool
    reason: str = ""
    issues: tuple[str, ...] = ()
    """Bounded; the first one is the message of the condition."""
    total_issues: int = 0
    checked_ms: int = 0
    remarks: tuple[str, ...] = ()
    """Remarks on an accepted folder."""
    contents: str = ""
    """A digest of the folder that was refused; see ``gitwriter.verdicts.contents_of``."""


@dataclass(frozen=True, slots=True)
class SkippedObject:
    """An object that Git does not hold as it is in the cluster, and why; `name` is empty for a document
    that a sweep could not remove."""

    resource: str
    """`group/resource`, or `resource` in the core group."""
    namespace: str
    name: str
    code: str
    message: str
    path: str = ""

    @property
    def title(self) -> str:
        """The object as people read it: type, then namespace and name as far as there are any."""
        return f"{self.resource} {'/'.join(filter(None, (self.namespace, self.name)))}".rstrip()


@dataclass(frozen=True, slots=True)
class Skipped:
    """The objects of a target that are deliberately not written: bounded, `more` counts the rest."""

    objects: tuple[SkippedObject, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """How many documents of one scope the prune mode keeps although their objects are gone, and under which
    mode they were last counted."""

    mode: str
    documents: int
    counted_ms: int = 0


@dataclass(frozen=True, slots=True)
class KeptNews:
    """What a unit says of the kept documents of a scope: all of them after a `replay`, else those that came
    and those whose objects are back or whose documents are gone. Each is `namespace/name`."""

    scope: Scope
    mode: str
    replay: bool
    kept: tuple[str, ...] = ()
    back: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetLook:
    """What the watcher that holds a target reads every few seconds."""

    gate: Gate | None
    marks: Mapping[Scope, Marks]
    skipped: Skipped
    kept: Mapping[Scope, Kept] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BranchHealth:
    """How the writer's last attempt on a branch went."""

    ok: bool
    reason: str = ""
    message: str = ""
    since_ms: int = 0
    attempts: int = 0
    last_push_ms: int = 0


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """What is stored beside a journal. ``base`` is the tip last known (J16, J19); None = never seen."""

    base: str | None = None
    last_push_ms: int = 0
    unsettled_bytes: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a journal has waiting: entries that are not settled, and how long ago the oldest came."""

    entries: int = 0
    oldest_ms: int = 0


@dataclass(frozen=True, slots=True)
class Recipients:
    """The recipient set of a target and its generation (J20)."""

    generation: int
    recipients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """A sweep whose deletions wait for a person (J23)."""

    outcome_id: str
    held: int
    since_ms: int
