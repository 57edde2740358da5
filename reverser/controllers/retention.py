"""``status.retention``: what the prune mode keeps in Git, of the types that are watched. Pure.

The writer counts by scope, and a count stays while its scope is not watched. So only scopes that a rule
claims now are added up; what a rule that is gone once kept is nobody's to tell of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reverser.controllers.status import rfc3339_ms
from reverser.controllers.streams import Claimed
from reverser.kinds.model import GitTarget, PruneMode, Retention
from reverser.store.model import Kept, Scope, Skipped, group_resource

_INT32_MAX = 2**31 - 1


def claimed_scopes(claims: Iterable[Claimed]) -> frozenset[tuple[str, str | None]]:
    """(`group/resource`, namespace) of what is watched; a claim of all namespaces covers the named ones."""
    found = {(group_resource(claim.group, claim.resource), claim.namespace) for claim in claims}
    return frozenset(scope for scope in found if scope[1] is None or (scope[0], None) not in found)


def counts_of(kept: Mapping[Scope, Kept], scopes: frozenset[tuple[str, str | None]]) -> tuple[Kept, ...]:
    """The counts of scopes that are watched."""
    return tuple(item for scope, item in kept.items() if (scope.group_resource, scope.namespace) in scopes)


def still_skipped(skipped: Skipped, scopes: frozenset[tuple[str, str | None]]) -> Skipped:
    """The skipped objects of types that are watched: no replay would ever take back the others."""
    found = tuple(
        item
        for item in skipped.objects
        if (item.resource, None) in scopes or (item.resource, item.namespace) in scopes
    )
    return Skipped(found, skipped.more if found else 0)


def retention(counts: Sequence[Kept], mode: PruneMode) -> Retention | None:
    """The counts together, under the mode that keeps the documents; None before the first count."""
    if not counts:
        return None
    newest = max(counts, key=lambda item: (item.documents > 0, item.counted_ms))
    return Retention(
        newest.mode if mode is PruneMode.ALWAYS else mode.value,
        sum(item.documents for item in counts),
        rfc3339_ms(max(item.counted_ms for item in counts)),
    )


def retention_field(target: GitTarget, counts: Sequence[Kept] | None) -> dict[str, Any] | None:
    """The status field; None where there is nothing to tell of. ``counts`` None: nothing newer is known."""
    found = target.retention if counts is None else retention(counts, target.prune)
    if found is None or (target.prune is PruneMode.ALWAYS and not found.documents):
        return None
    return {
        "mode": found.mode,
        "retainedDocuments": min(found.documents, _INT32_MAX),
        "observedTime": found.observed_time,
    }
