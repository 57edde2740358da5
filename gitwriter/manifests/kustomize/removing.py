"""Entries and patches of a build that refer to an object about to leave it.

A `replicas:` entry and a patch must find an object of the build, else the build fails. So they go with the
last object that they change, in the same commit, as the file's `resources` entry does. A patch that selects
by `target` may select nothing and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import DocumentFact
from ..inventory import Inventory
from ..records import DocumentRef
from .context import resolve_entry
from .edits import KustomizationEdits
from .images import is_scaled
from .model import Kustomization
from .outside import is_outside


def orphaned_entries(inventory: Inventory, ref: DocumentRef) -> list[KustomizationEdits]:
    """The edits that remove entries without an object once this document is removed."""
    found = []
    chain = inventory.context.chain(ref.path)
    for kustomization in chain:
        if is_outside(kustomization.path):
            continue
        edits = KustomizationEdits(kustomization.path, kustomization.directory)
        if _count_is_orphaned(inventory, kustomization, ref):
            edits.removed_replicas.add(ref.fact.name)
        edits.removed_patches.update(_orphaned_patches(inventory, kustomization, ref))
        edits.unused_files.update(
            path for path in edits.removed_patches if not _is_named_beside(inventory, path, chain)
        )
        if not edits.empty:
            found.append(edits)
    return found


def patch_documents(inventory: Inventory, path: str) -> list[int]:
    """The indexes of a patch file's documents that hold an object."""
    return [fact.index for fact in _patches(inventory, path)]


def _patches(inventory: Inventory, path: str) -> list[DocumentFact]:
    record = inventory.files.get(path)
    facts = record.facts if record is not None else None
    return [fact for fact in facts.documents if fact.is_krm] if facts is not None else []


def _is_named_beside(inventory: Inventory, path: str, chain: tuple[Kustomization, ...]) -> bool:
    """True where a kustomization outside the chain uses the patch file too."""
    return any(
        resolve_entry(other.directory, entry) == path
        for other in inventory.context.by_directory.values()
        if other not in chain
        for entry in other.patches
    )


def _count_is_orphaned(inventory: Inventory, kustomization: Kustomization, ref: DocumentRef) -> bool:
    if not is_scaled(ref.fact.group, ref.fact.kind):
        return False
    if not any(entry.name == ref.fact.name for entry in kustomization.replicas):
        return False
    kinds = [(group, kind) for group, kind in inventory.types() if is_scaled(group, kind)]
    return next(_others(inventory, kustomization, ref, kinds), None) is None


def _orphaned_patches(inventory: Inventory, kustomization: Kustomization, ref: DocumentRef) -> Iterator[str]:
    fact = ref.fact
    own_type = [(fact.group, fact.kind)]
    for entry in kustomization.patches:
        path = resolve_entry(kustomization.directory, entry)
        documents = _patches(inventory, path)
        if entry in kustomization.selecting or len(documents) != 1:
            continue
        patch = documents[0]
        if (patch.group, patch.kind, patch.name) != (fact.group, fact.kind, fact.name):
            continue
        if next(_others(inventory, kustomization, ref, own_type), None) is None:
            yield path


def _others(
    inventory: Inventory, kustomization: Kustomization, ref: DocumentRef, types: list[tuple[str, str]]
) -> Iterator[DocumentRef]:
    """Other documents of that name which pass through the kustomization."""
    reaches = inventory.context.reaches
    for group, kind in types:
        for other in inventory.lookup(group, kind, ref.fact.name):
            if other != ref and any(
                kustomization.path in reach.chain for reach in reaches.get(other.path, ())
            ):
                yield other
