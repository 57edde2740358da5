"""What a mirror would make of a folder: readable without a cluster, a queue or a database.

The folder is judged by the writer's own inventory and gate, so the report cannot promise what the mirror
would not do. Folders below that could be targets of their own are judged one by one, each inside its
repository. Given a cluster's objects, the writer's own planner shows what would be created, changed and
deleted.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .changes import Change, Outcome, Policy, Upsert, WritePlan
from .facts import DocumentClass, IndexCache
from .gate import check, diagnostics
from .guards import untouchable_text
from .inventory import DocumentRef, Inventory, outside_documents
from .issues import Diagnostic, Issue, IssueKind, refusal_reason
from .kustomize.outside import is_outside
from .limits import DEFAULT_LIMITS, Limits
from .roles import Role
from .tree import RepositoryTree, Tree, TreeEntry
from .writeplan import plan_writes

STRUCTURAL = (IssueKind.UNSUPPORTED_KUSTOMIZE, IssueKind.MIXED_MANAGED_ALLOWLISTED)
_MAX_CANDIDATES = 200
_MAX_CLEANINGS = 8


class Layout(StrEnum):
    """How a folder is laid out."""

    EMPTY = "empty"
    PLAIN = "plain"
    KUSTOMIZE_SINGLE = "kustomize-single"
    KUSTOMIZE_OVERLAY = "kustomize-overlay"
    REFUSED_STRUCTURAL = "refused-structural"


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """One document. `namespace` is the effective one; `namespace_source` is explicit, kustomize or none."""

    path: str
    index: int
    document_class: DocumentClass
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    namespace_source: str = ""
    name: str = ""
    editable: bool = False
    encrypted: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that could be a target of its own, judged inside its repository."""

    path: str
    layout: Layout
    accepted: bool
    issues: tuple[Issue, ...]
    rendered: int
    editable: int
    types: Mapping[str, tuple[str, ...]]
    reads: tuple[str, ...]
    inside: str = ""


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """One thing that a mirror of the cluster would do."""

    action: str
    path: str
    identity: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What a mirror of a cluster would do to the folder. `set_aside` are paths left out because they
    refuse it.
    """

    actions: tuple[PlannedAction, ...]
    set_aside: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many actions of each sort."""
        return dict(sorted(Counter(action.action for action in self.actions).items()))


@dataclass(frozen=True, slots=True)
class Report:
    """The whole analysis of one folder."""

    root: str
    layout: Layout
    issues: tuple[Issue, ...]
    documents: tuple[DocumentReport, ...]
    roles: Mapping[str, int]
    retained: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...] = ()
    mirror: MirrorReport | None = None

    @property
    def accepted(self) -> bool:
        return not self.issues

    @property
    def reason(self) -> str:
        """The condition reason that a target would show."""
        return refusal_reason(self.issues) if self.issues else "GitPathAccepted"

    def by_class(self) -> dict[str, int]:
        """Documents per class."""
        return dict(sorted(Counter(document.document_class.value for document in self.documents).items()))

    def by_kind(self) -> dict[str, int]:
        """Managed documents per kind, most first."""
        kinds = Counter(
            f"{document.api_version}/{document.kind}"
            for document in self.documents
            if document.document_class is DocumentClass.KRM
        )
        return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


class SubTree:
    """A folder of a tree as a tree of its own, which may read the rest as its repository."""

    def __init__(self, tree: Tree, path: str) -> None:
        self.target_path = path
        self._tree = tree
        prefix = f"{path}/" if path else ""
        self._blobs = {
            entry.path: entry.blob for entry in tree.entries() if entry.mode & 0o170000 == 0o100000
        }
        self._entries = [
            replace(entry, path=entry.path.removeprefix(prefix))
            for entry in tree.entries()
            if entry.path.startswith(prefix)
        ]

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry below the folder."""
        return self._entries

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        return self._tree.read(blob)

    def read_outside(self, path: str) -> bytes | None:
        """The bytes of a file of the whole tree, or None."""
        blob = self._blobs.get(path)
        return self._tree.read(blob) if blob is not None else None


def analyze(
    tree: Tree,
    *,
    root: str = ".",
    warnings: Iterable[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    mirror: MirrorReport | None = None,
) -> Report:
    """Analyze a folder; `warnings` are problems met while reading it."""
    cache = IndexCache()
    inventory = Inventory.scan(tree, cache=cache, limits=limits)
    return Report(
        root=root,
        layout=layout_of(inventory),
        issues=check(inventory),
        documents=tuple(_documents(inventory)),
        roles=dict(sorted(Counter(record.role.value for record in inventory.files.values()).items())),
        retained=tuple(
            sorted([*inventory.retained, *(item.path for item in inventory.kustomization_files())])
        ),
        diagnostics=diagnostics(inventory),
        candidates=tuple(_candidates(tree, inventory, cache)),
        warnings=tuple(warnings),
        mirror=mirror,
    )


def layout_of(inventory: Inventory) -> Layout:
    """The layout of a folder: by what its kustomizations reach, if it has any."""
    if any(issue.kind in STRUCTURAL for issue in check(inventory)):
        return Layout.REFUSED_STRUCTURAL
    own = [item for item in inventory.kustomization_files() if not is_outside(item.path)]
    if any(
        not _is_below(kustomization.directory, posixpath.dirname(reach.root))
        for kustomization in inventory.kustomization_files()
        for reach in inventory.context.kustomization_reaches.get(kustomization.path, ())
    ):
        return Layout.KUSTOMIZE_OVERLAY
    if own:
        return Layout.KUSTOMIZE_SINGLE
    managed = any(record.role is Role.MANIFEST for record in inventory.files.values())
    return Layout.PLAIN if managed else Layout.EMPTY


def _is_below(folder: str, top: str) -> bool:
    return not is_outside(folder) and (not top or folder == top or folder.startswith(f"{top}/"))


def _documents(inventory: Inventory) -> Iterable[DocumentReport]:
    for path in sorted(inventory.files):
        record = inventory.files[path]
        if record.role is not Role.MANIFEST or record.facts is None or path in inventory.context.patches:
            continue
        for fact in record.facts.documents:
            if not fact.is_krm:
                yield DocumentReport(path, fact.index, fact.document_class, detail=fact.detail)
                continue
            ref = DocumentRef(path, fact)
            inherited = bool(inventory.context.namespace(path))
            source = "kustomize" if inherited else ("explicit" if fact.namespace else "none")
            yield DocumentReport(
                path,
                fact.index,
                fact.document_class,
                fact.api_version,
                fact.kind,
                inventory.effective_namespace(ref),
                source,
                fact.name,
                editable=untouchable_text(path, fact) is None,
                encrypted=fact.sealed or fact.has_sops,
                detail=", ".join(fact.constructs),
            )


def _candidates(tree: Tree, inventory: Inventory, cache: IndexCache) -> Iterable[Candidate]:
    context = inventory.context
    folders = {posixpath.dirname(root) for root in context.roots}
    for ref in inventory.documents():
        folder = posixpath.dirname(ref.path)
        if ref.path not in context.reaches and folder not in context.by_directory:
            folders.add(folder)
    folders = {folder for folder in folders if not is_outside(folder)}
    for folder in sorted(folders)[:_MAX_CANDIDATES]:
        found = Inventory.scan(SubTree(tree, folder), cache=cache, limits=inventory.limits)
        issues = check(found)
        types: dict[str, set[str]] = {}
        editable = rendered = 0
        for ref in (*found.documents(), *_outside_documents(found)):
            rendered += 1
            editable += untouchable_text(ref.path, ref.fact) is None and not is_outside(ref.path)
            types.setdefault(found.effective_namespace(ref), set()).add(
                f"{ref.fact.api_version}/{ref.fact.kind}"
            )
        above = [
            other for other in folders if other != folder and folder.startswith(f"{other}/" if other else "")
        ]
        yield Candidate(
            path=folder or ".",
            layout=layout_of(found),
            accepted=not issues,
            issues=issues,
            rendered=rendered,
            editable=editable,
            types={namespace: tuple(sorted(names)) for namespace, names in sorted(types.items())},
            reads=tuple(
                sorted(
                    posixpath.normpath(posixpath.join(folder, item.directory))
                    for item in found.outside.kustomizations.values()
                )
            ),
            inside=(max(above, key=len) or ".") if above else "",
        )


def _outside_documents(inventory: Inventory) -> Iterable[DocumentRef]:
    """Documents of bases outside the folder that its builds render."""
    for ref in outside_documents(inventory.outside, inventory.limits):
        if ref.path in inventory.context.reaches:
            yield ref


def plan_mirror(
    tree: Tree, changes: Sequence[Change], policy: Policy, *, limits: Limits = DEFAULT_LIMITS
) -> MirrorReport:
    """What a mirror of these objects would do. Files for which the folder is refused are set aside first, and
    named.
    """
    aside: set[str] = set()
    for _cleaning in range(_MAX_CLEANINGS):
        current = _Without(tree, frozenset(aside))
        made = plan_writes(current, changes, policy, limits=limits)
        if not made.refused:
            return MirrorReport(tuple(_actions(made)), tuple(sorted(aside)))
        found = {issue.path for issue in made.issues} - aside
        if not found:
            break
        aside |= found
    return MirrorReport((), tuple(sorted(aside)))


class _Without:
    """A tree with some paths left out."""

    def __init__(self, tree: Tree, left_out: frozenset[str]) -> None:
        self._tree = tree
        self._left_out = left_out
        self.target_path = tree.target_path if isinstance(tree, RepositoryTree) else ""

    def entries(self) -> Sequence[TreeEntry]:
        """Every entry that is not left out."""
        return [entry for entry in self._tree.entries() if entry.path not in self._left_out]

    def read(self, blob: str) -> bytes:
        """The bytes of one blob."""
        return self._tree.read(blob)

    def read_outside(self, path: str) -> bytes | None:
        """As the tree itself does, if it does."""
        return self._tree.read_outside(path) if isinstance(self._tree, RepositoryTree) else None


_ACTION_OF = {
    Outcome.CREATED: "create",
    Outcome.UPDATED: "change",
    Outcome.DELETED: "delete",
    Outcome.SKIPPED: "skip",
}


def _actions(made: WritePlan) -> Iterable[PlannedAction]:
    for result in made.results:
        action = _ACTION_OF.get(result.outcome)
        if action is None:
            continue
        change = result.change
        if isinstance(change, Upsert):
            identity = (
                f"{change.api_version}/{change.kind}/{change.key.namespace or '_cluster'}/{change.name}"
            )
        else:
            identity = f"{change.group or 'core'}/{change.kind}"
        reason = result.message if action == "skip" else result.rule
        yield PlannedAction(action, result.path, identity, reason)
