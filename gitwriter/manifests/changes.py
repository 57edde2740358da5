"""What the branch writer asks the planner for, and what the planner returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .identity import ObjectKey, join_api_version
from .inventory import Inventory
from .issues import Diagnostic, Issue


@dataclass(frozen=True, slots=True)
class Upsert:
    """One object as it should stand in Git.

    `body` is the sanitized object; `sealed` is the encrypted YAML text of a sensitive one, written whole and
    never patched. `create` and `update` say which operations are honoured. `optional` lists JSON pointers of
    values that are known server defaults: not added to a document that lacks them. `unchanged_blob` is
    known to hold the object as it is: a file that has it is kept, and the content may be left out.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    namespace: str
    name: str
    body: Mapping[str, Any] | None = None
    sealed: bytes | None = None
    sensitive: bool = False
    create: bool = True
    update: bool = True
    optional: tuple[str, ...] = ()
    unchanged_blob: str | None = None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.group, self.kind, self.namespace if self.namespaced else "", self.name)

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)


@dataclass(frozen=True, slots=True)
class Delete:
    """One object that is gone; with `keep` its document stays and is only told of."""

    group: str
    resource: str
    kind: str
    namespaced: bool
    namespace: str
    name: str
    keep: bool = False

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.group, self.kind, self.namespace if self.namespaced else "", self.name)


@dataclass(frozen=True, slots=True)
class FieldPatch:
    """Values for single fields of an object that Git already holds; everything else of it stays as it is.

    `assignments` maps JSON pointers (`/spec/replicas`) to values; the pointers must not contain each other.
    """

    group: str
    resource: str
    kind: str
    namespaced: bool
    namespace: str
    name: str
    assignments: Mapping[str, Any]

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.group, self.kind, self.namespace if self.namespaced else "", self.name)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The end of a replay: documents of a type, in one namespace or all, that are not present are deleted, or
    with `keep` only told of.

    `present` holds (namespace, name) of everything the replay saw; the namespace is empty for
    cluster-scoped types.
    """

    group: str
    resource: str
    kind: str
    namespaced: bool
    scope_namespace: str | None
    present: frozenset[tuple[str, str]]
    keep: bool = False


Change = Upsert | Delete | FieldPatch | Sweep


@dataclass(frozen=True, slots=True)
class IgnoreField:
    """Fields of some objects that are not mirrored: not compared, not written, left as Git has them."""

    group: str
    kind: str
    name: str | None
    pointers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The target's settings that decide about files."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    inference: bool = True
    ignore_fields: tuple[IgnoreField, ...] = ()
    sensitive_types: frozenset[str] = frozenset({"secrets"})
    recipients: tuple[str, ...] = ()
    encryption_enabled: bool = False
    hold_sweep_deletes: bool = False


class Outcome(StrEnum):
    """What became of one change."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """Why a change was deliberately not written; each is counted and shown."""

    ALREADY_ABSENT = "already-absent"
    CREATE_NOT_SELECTED = "create-not-selected"
    UPDATE_NOT_SELECTED = "update-not-selected"
    NOT_EDITABLE = "not-editable"
    ENCRYPTED = "encrypted-document"
    NAMESPACE_UNDECLARED = "namespace-undeclared"
    WRITE_FAN_IN = "write-fan-in"
    WRITE_ESCAPES_SCOPE = "write-escapes-scope"
    INVALID_PATH = "invalid_path"
    SENSITIVE_APPEND = "sensitive_append"
    PLAINTEXT_ONTO_ENCRYPTED = "plaintext_onto_encrypted"
    MIXED_SENSITIVITY = "mixed_sensitivity_new_file"
    MULTI_DOCUMENT_TARGET = "multi_document_target"
    NOT_APPENDABLE = "not_appendable"
    LIMIT = "limit-exceeded"
    MISSING_BODY = "missing-body"
    SENSITIVE_IN_CLEAR = "sensitive-in-clear"
    RESEAL_NEEDED = "reseal-needed"
    UNREADABLE_RESULT = "unreadable-result"
    PATCH_NO_PARENT = "subresource_patch_no_parent"
    PATCH_UNSAFE = "subresource_patch_unsafe"
    NOT_EXPRESSIBLE = "not-expressible"
    RENDER_DOES_NOT_MATCH_LIVE = "render-does-not-match-live"
    RENDER_MISMATCH = "kustomize-render-refused"
    HELD = "held-by-brake"
    KEPT = "kept-by-prune-mode"


PLACEMENT_SKIPS = frozenset(
    {
        SkipReason.INVALID_PATH,
        SkipReason.SENSITIVE_APPEND,
        SkipReason.PLAINTEXT_ONTO_ENCRYPTED,
        SkipReason.MIXED_SENSITIVITY,
        SkipReason.MULTI_DOCUMENT_TARGET,
        SkipReason.NOT_APPENDABLE,
    }
)


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The outcome of one change. `rule` names the placement rule of a created document; `code` the reason
    of a skip.
    """

    change: Change
    outcome: Outcome
    path: str = ""
    code: str = ""
    message: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A document that `change` was asked to keep although its object is gone."""

    change: Delete | Sweep
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What to commit.

    `files` maps paths relative to the target path to new bytes, or None for a removal; it is empty when
    nothing real changed, so bootstrap files never make a commit. `issues` non-empty means the path is
    refused and `files` is empty. `inventory` is the path as it was read; `after()` is the path once the
    files are committed.
    """

    inventory: Inventory
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    results: Sequence[ChangeResult] = ()
    issues: tuple[Issue, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    swept: int = 0
    held: int = 0
    kept: tuple[KeptDocument, ...] = ()
    resulting: Inventory | None = None

    @property
    def refused(self) -> bool:
        return bool(self.issues)

    def count(self, outcome: Outcome) -> int:
        """How many changes ended this way."""
        return sum(1 for result in self.results if result.outcome is outcome)

    @property
    def placement_skipped(self) -> int:
        """How many new objects found no place (counter `placementSkipped`)."""
        return sum(1 for result in self.results if result.code in PLACEMENT_SKIPS)

    def after(self) -> Inventory:
        """The inventory once the files are committed; hand it to the next plan."""
        return self.resulting if self.resulting is not None else self.inventory
