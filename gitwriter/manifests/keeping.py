"""Documents that stay in Git although their objects are gone, because a target's prune mode says so.

They are found by the rules by which they would have been removed, in the path as it is once everything else
is planned, so that what is told of is what a removal would take away. Nothing here changes a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from .changes import Change, ChangeResult, Delete, KeptDocument, Outcome, SkipReason, Sweep, WritePlan
from .inventory import Inventory, locate
from .kustomize.authoring import deletion_of
from .kustomize.outside import is_outside
from .records import DocumentRef
from .sweeping import absent_documents


def only_keeps(change: Change) -> bool:
    """True for a change that takes part in no file."""
    return isinstance(change, Delete | Sweep) and change.keep


def with_kept(made: WritePlan, changes: Sequence[Change]) -> WritePlan:
    """The plan, and what the changes that only keep say of the path that it leaves behind."""
    if made.refused:
        return made
    inventory = made.after()
    results, kept = list(made.results), list(made.kept)
    for change in changes:
        if isinstance(change, Sweep):
            kept += _absent(inventory, change)
            results.append(ChangeResult(change, Outcome.UNCHANGED))
        elif isinstance(change, Delete):
            ref, _undeclared = locate(inventory, change.key, namespaced=change.namespaced)
            if ref is None or not _is_removable(inventory, ref):
                gone = SkipReason.ALREADY_ABSENT.value if ref is None else ""
                results.append(ChangeResult(change, Outcome.UNCHANGED, code=gone))
                continue
            text = "the target's prune mode keeps the document"
            kept.append(KeptDocument(change, change.key.namespace, change.name))
            results.append(ChangeResult(change, Outcome.SKIPPED, ref.path, SkipReason.KEPT.value, text))
    return replace(made, results=tuple(results), kept=tuple(kept))


def _absent(inventory: Inventory, change: Sweep) -> Iterator[KeptDocument]:
    for ref in absent_documents(inventory, change):
        if _is_removable(inventory, ref):
            namespace = inventory.effective_namespace(ref) if change.namespaced else ""
            yield KeptDocument(change, namespace, ref.fact.name)


def _is_removable(inventory: Inventory, ref: DocumentRef) -> bool:
    """Whether a removal would take the document out of the path, or out of what it builds."""
    if is_outside(ref.path):
        deletion = deletion_of(inventory, ref)
        return deletion is not None and not deletion.done
    return not inventory.context.fan_in(ref.path)
