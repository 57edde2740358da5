"""What a mirror would make of a folder: readable without a cluster, a queue or a database.

The folder is judged by the writer's own inventory and gate, so the report cannot promise what the mirror
would not do. Folders below that could be targets of their own are judged one by one, each inside its
repository. Given a cluster's objects, the writer's own planner shows what would be created, changed and
deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .candidates import Candidate, Layout, candidates, layout_of
from .changes import Change, Outcome, Policy, Sweep, Upsert, WritePlan
from .facts import DocumentClass, IndexCache
from .gate import check, diagnostics
from .guards import untouchable_text
from .hiding import ignore_lines
from .inventory import Inventory
from .issues import Diagnostic, Issue, refusal_reason
from .kustomize.outside import is_outside
from .limits import DEFAULT_LIMITS, Limits
from .records import DocumentRef
from .remarks import remarks
from .roles import Role
from .sweeping import absent_documents
from .tree import RepositoryTree, Tree, TreeEntry
from .writeplan import plan_writes

_MAX_CLEANINGS = 8
_NO_POLICY = Policy()


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
    """The whole analysis of one folder; `ignore` are lines for its ignore file that hide what need not be
    managed, `not_judged` counts the folders that were too many to be candidates, `left_out` the
    files and folders that were not read because Git ignores them."""

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
    ignore: tuple[str, ...] = ()
    not_judged: int = 0
    left_out: int = 0

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


def analyze(
    tree: Tree,
    *,
    root: str = ".",
    warnings: Iterable[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    mirror: MirrorReport | None = None,
    policy: Policy = _NO_POLICY,
) -> Report:
    """Analyze a folder; `warnings` are problems met while reading it, `policy` says which types are
    sensitive."""
    cache = IndexCache()
    inventory = Inventory.scan(tree, cache=cache, limits=limits)
    documents, issues = tuple(_documents(inventory)), check(inventory)
    refused = {issue.path for issue in issues}
    seen = [document.path for document in documents if document.name or document.path not in refused]
    folders, not_judged = candidates(tree, inventory, cache)
    kustomizations = [item.path for item in inventory.kustomization_files() if not is_outside(item.path)]
    return Report(
        root=root,
        layout=layout_of(inventory),
        issues=issues,
        documents=documents,
        roles=dict(sorted(Counter(record.role.value for record in inventory.files.values()).items())),
        retained=tuple(
            sorted([*inventory.retained, *(item.path for item in inventory.kustomization_files())])
        ),
        diagnostics=diagnostics(inventory),
        candidates=folders,
        warnings=(*warnings, *remarks(tree, inventory, policy)),
        mirror=mirror,
        ignore=ignore_lines(issues, [*seen, *kustomizations, *inventory.context.patches]),
        not_judged=not_judged,
    )


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
    gone: dict[int, dict[str, list[str]]] = {}
    for result in made.results:
        action = _ACTION_OF.get(result.outcome)
        if action is None:
            continue
        change = result.change
        if isinstance(change, Upsert):
            place = change.key.namespace or "_cluster"
            identity = f"{change.api_version}/{change.kind}/{place}/{change.name}"
        elif isinstance(change, Sweep):
            if id(change) not in gone:
                gone[id(change)] = _absent(made.inventory, change)
            waiting = gone[id(change)].get(result.path)
            identity = waiting.pop(0) if waiting else f"{change.group or 'core'}/{change.kind}"
        else:
            identity = (
                f"{change.group or 'core'}/{change.kind}/{change.namespace or '_cluster'}/{change.name}"
            )
        reason = result.message if action == "skip" else result.rule
        yield PlannedAction(action, result.path, identity, reason)


def _absent(inventory: Inventory, sweep: Sweep) -> dict[str, list[str]]:
    """What each file holds that a sweep takes, in order."""
    found: dict[str, list[str]] = {}
    for ref in absent_documents(inventory, sweep):
        place = (inventory.effective_namespace(ref) if sweep.namespaced else "") or "_cluster"
        fact = ref.fact
        found.setdefault(ref.path, []).append(f"{fact.api_version}/{fact.kind}/{place}/{fact.name}")
    return found
