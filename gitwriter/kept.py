"""What a unit says of documents that the prune mode keeps in Git (status.retention): pure.

A replay tells of its whole scope, whatever its mode: what an earlier mode kept is gone or counted anew. A
window tells of the objects it brought.
"""

from __future__ import annotations

from gitwriter.manifests import WritePlan
from gitwriter.units import Work, sweep_of
from gitwriter.windows import Unit
from reverser.kinds.model import PruneMode
from reverser.store.model import KeptNews, Scope


def kept_news(unit: Unit, work: Work, plan: WritePlan) -> tuple[KeptNews, ...]:
    """The news in a planned unit, by scope; none where nothing can have been kept."""
    frozen, sweep = unit.boundary.frozen, sweep_of(unit)
    if frozen is None:
        return ()
    scopes = {id(item.change): item.scope for item in work.items}
    kept: dict[Scope, set[str]] = {}
    for found in plan.kept:
        kept.setdefault(scopes[id(found.change)], set()).add(f"{found.namespace}/{found.name}")
    if sweep is not None:
        return (KeptNews(sweep.scope, frozen.prune, True, tuple(sorted(kept.get(sweep.scope, ())))),)
    if frozen.prune == PruneMode.ALWAYS:
        return ()
    touched: dict[Scope, set[str]] = {}
    refs = [(item.ref, item.scope) for item in work.items if item.ref is not None]
    for ref, scope in [*refs, *((dropped.ref, dropped.scope) for dropped in work.dropped)]:
        touched.setdefault(scope, set()).add(f"{ref.namespace}/{ref.name}")
    return tuple(
        KeptNews(
            scope,
            frozen.prune,
            False,
            kept=tuple(sorted(kept.get(scope, ()))),
            back=tuple(sorted(names - kept.get(scope, set()))),
        )
        for scope, names in touched.items()
    )
