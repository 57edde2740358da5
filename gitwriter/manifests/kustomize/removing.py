"""What a build says of an object that is about to leave it.

A `replicas:` entry must name an object of the build, else the build fails. So the entry goes with the last
object that it sets, in the same commit, as the file's `resources` entry does.
"""

from __future__ import annotations

from ..inventory import DocumentRef, Inventory
from .edits import KustomizationEdits
from .images import is_scaled
from .outside import is_outside


def orphaned_entries(inventory: Inventory, ref: DocumentRef) -> list[KustomizationEdits]:
    """The edits that take off entries which no object would be left for once this document is removed."""
    if not is_scaled(ref.fact.group, ref.fact.kind):
        return []
    context = inventory.context
    found = []
    for kustomization in context.chain(ref.path):
        if is_outside(kustomization.path) or not any(
            entry.name == ref.fact.name for entry in kustomization.replicas
        ):
            continue
        others = (
            other
            for group, kind in inventory.types()
            if is_scaled(group, kind)
            for other in inventory.lookup(group, kind, ref.fact.name)
            if other != ref
            and any(kustomization.path in reach.chain for reach in context.reaches.get(other.path, ()))
        )
        if next(others, None) is None:
            edits = KustomizationEdits(kustomization.path, kustomization.directory)
            edits.removed_replicas.add(ref.fact.name)
            found.append(edits)
    return found
