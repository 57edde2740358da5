"""Who, what and where: the identities of the journal, and the entries that stand in it.

``reverser.store.model`` is the place to import from; this is its first half.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class BranchKey:
    """The unit of ownership: one branch of one GitProvider."""

    namespace: str
    provider: str
    branch: str

    @property
    def id(self) -> str:
        """A short stable name, safe in Redis keys and queue names."""
        text = "\0".join((self.namespace, self.provider, self.branch))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.provider}/{self.branch}"


@dataclass(frozen=True, slots=True)
class TargetRef:
    """A GitTarget by identity; two targets of one name in turn differ by ``uid``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What one shard watches: a type of a target in one namespace (``None`` = all, or cluster-scoped)."""

    target_uid: str
    group_resource: str
    """``resource`` for the core group, else ``group/resource``."""
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """A lease as a pair; a script that is handed another pair changes nothing."""

    token: str
    number: int


class LeaseKind(StrEnum):
    """What can be leased."""

    BRANCH = "branch"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class AppendId:
    """Names one append: the watcher session and its sequence number. A retry carries the same one."""

    session: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a shard resumes, and under which epoch and fingerprint that is valid (J2, J4)."""

    resource_version: str
    append_id: AppendId
    epoch: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Marks:
    """Needs-replay of a scope (J14): replay if and only if ``wanted > replayed``."""

    wanted: int = 0
    replayed: int = 0
    parked_reason: str = ""
    parked_until_ms: int = 0
    """0 with a reason = until ``unpark``."""
    attempts: int = 0
    """Parked requests for a replay since the last applied one; the back-off grows with it."""

    @property
    def needs_replay(self) -> bool:
        return self.wanted > self.replayed

    def is_parked(self, now_ms: int) -> bool:
        """Whether the replay must wait at ``now_ms`` (Redis clock)."""
        if self.parked_until_ms:
            return now_ms < self.parked_until_ms
        return bool(self.parked_reason)


@dataclass(frozen=True, slots=True)
class Author:
    """Who made a change, when that is certain."""

    username: str
    display_name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What can still contradict an author: the audit event of a no-op looks like that of a change."""

    until: str
    """Another user's request that the API server received by then (RFC 3339, nanoseconds, UTC) may have made
    the change instead.
    """
    ripe_ms: int = 0
    """Milliseconds after the append during which the audit event of such a request may still arrive."""


def group_resource(group: str, resource: str) -> str:
    """``apps/deployments``; of the core group the resource alone."""
    return f"{group}/{resource}" if group else resource


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A served type."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool

    @property
    def group_resource(self) -> str:
        return group_resource(self.group, self.resource)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object of a type."""

    type: TypeRef
    namespace: str
    name: str


class Operation(StrEnum):
    """What happened to an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


ALL_OPERATIONS = frozenset(Operation)


@dataclass(frozen=True, slots=True)
class EventEntry:
    """One live change. ``body`` is canonical JSON of the sanitized object, sealed YAML, or empty (DELETE)."""

    target: TargetRef
    scope: Scope
    object: ObjectRef
    operation: Operation
    object_uid: str
    resource_version: str
    body: bytes = b""
    sealed: bool = False
    sensitive: bool = False
    digest: str = ""
    """Keyed digest of a sensitive object's plain projection; never the plain text."""
    recipients_generation: int = 0
    optional: tuple[str, ...] = ()
    """JSON pointers whose live values are known server defaults; not added where Git lacks them."""
    author: Author | None = None
    claim: Claim | None = None
    """None: the author, if any, is certain."""


class Presence(StrEnum):
    """How an object takes part in a sweep (J6, J20)."""

    FULL = "full"
    DIGEST = "digest"
    """Sensitive and unchanged since the stored digest: no text is carried."""
    PRESENT = "present"
    """Seen, but not to be written (filtered, malformed or unsealed): only protected from deletion."""


@dataclass(frozen=True, slots=True)
class StagedObject:
    """One object of a replay."""

    namespace: str
    name: str
    presence: Presence
    body: bytes = b""
    sealed: bool = False
    sensitive: bool = False
    digest: str = ""
    recipients_generation: int = 0
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """A complete replay of a scope, staged under ``replay_id``: make Git equal to it (J5, J6)."""

    target: TargetRef
    scope: Scope
    type: TypeRef
    resource_version: str
    replay_id: str
    count: int
    wanted: int
    fingerprint: str
    operations: frozenset[Operation] = ALL_OPERATIONS
    namespace_operations: Mapping[str, frozenset[Operation]] = field(default_factory=dict)
    """Further operations that count for objects of these namespaces, in a scope of all namespaces."""
    first: bool = False
    """Set by the append script: no sweep of this scope under this fingerprint was ever settled as applied."""
    released_hold: str = ""
    """The held outcome that a person released; this sweep runs without the brake (J23)."""

    def operations_for(self, namespace: str) -> frozenset[Operation]:
        """The operations that count for an object of ``namespace``."""
        return self.operations | self.namespace_operations.get(namespace, frozenset())


@dataclass(frozen=True, slots=True)
class AttachEntry:
    """A CommitRequest that wants the open window of its target (J7)."""

    target: TargetRef
    namespace: str
    name: str
    uid: str
    author: Author | None
    message: str = ""
    close_delay_seconds: int = 0
    any_author: bool = False
    """Attribution is off: the request binds to the target's window whatever its author."""


@dataclass(frozen=True, slots=True)
class RetireEntry:
    """The target is gone; its entries outside finalized windows are settled as retired (J22)."""

    target: TargetRef


@dataclass(frozen=True, slots=True)
class UnsealedEntry:
    """A sensitive object that could not be sealed: shown, never written (J20)."""

    target: TargetRef
    scope: Scope
    object: ObjectRef
    reason: str
    message: str


Entry = EventEntry | SweepEntry | AttachEntry | RetireEntry | UnsealedEntry


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry with its stream id ``<milliseconds>-<sequence>`` and its size in bytes."""

    id: str
    entry: Entry
    size: int = 0
    text: int = 0
    """Bytes of an event's body, also where the body was not read along."""

    @property
    def time_ms(self) -> int:
        return int(self.id.split("-", 1)[0])


def digest_field(ref: ObjectRef) -> str:
    """The hash field under which an object's DigestRecord stands: group/resource, namespace, name."""
    return "|".join((ref.type.group_resource, ref.namespace, ref.name))


def digest_name(field: str) -> str:
    """The object of a ``digest_field`` as people read it: ``secrets shop/token``."""
    group_resource, namespace, name = field.split("|", 2)
    return f"{group_resource} {namespace}/{name}" if namespace else f"{group_resource} {name}"
