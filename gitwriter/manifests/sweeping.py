"""Which documents are gone according to a finished replay; the bounds are narrow because a sweep deletes."""

from __future__ import annotations

from collections.abc import Iterator

from .changes import Sweep
from .inventory import Inventory
from .records import DocumentRef


def absent_documents(inventory: Inventory, sweep: Sweep) -> Iterator[DocumentRef]:
    """Documents of the sweep's type and scope that the replay did not see, in path order.

    A namespaced document whose namespace is unknown is never swept, nor is one whose own namespace the build
    replaces or that several builds put into different namespaces: it may stand for another object.
    """
    for ref in inventory.of_type(sweep.group, sweep.kind):
        namespace = inventory.effective_namespace(ref) if sweep.namespaced else ""
        if sweep.namespaced:
            if inventory.is_ambiguous(ref):
                continue
            if not namespace or sweep.scope_namespace not in (None, namespace):
                continue
            if ref.fact.namespace not in ("", namespace):
                continue
        if (namespace, ref.fact.name) not in sweep.present:
            yield ref
