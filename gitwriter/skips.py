"""Which objects of a target Git does not hold as they are, kept from commit to commit: pure.

A skip is never an error of a commit, so it must be seen elsewhere. A window tells of the objects it
brought, a sweep of its whole scope; what either finds written is no longer skipped. Skips that a rule
asks for, that another condition shows, or that the next replay repairs by itself are counted only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitwriter.manifests import ChangeResult, Outcome, SkipReason, Sweep
from reverser.store.model import Skipped, SkippedObject

MAX_KEPT = 200
_MESSAGE_CHARS = 300
_COUNTED_ONLY = frozenset(
    {
        SkipReason.CREATE_NOT_SELECTED,
        SkipReason.UPDATE_NOT_SELECTED,
        SkipReason.HELD,
        SkipReason.RESEAL_NEEDED,
        SkipReason.MISSING_BODY,
        SkipReason.PATCH_NO_PARENT,
    }
)


def follow(before: Skipped, results: Sequence[ChangeResult]) -> Skipped:
    """What is skipped once the changes with these results are settled."""
    sweeps = [result.change for result in results if isinstance(result.change, Sweep)]
    touched = {_identity(result) for result in results}
    kept = [
        found
        for found in before.objects
        if (found.resource, found.namespace, found.name) not in touched
        and not any(_in_scope(found, sweep) for sweep in sweeps)
    ]
    kept += _shown(results)
    more = 0 if sweeps else before.more
    return Skipped(tuple(kept[:MAX_KEPT]), more + max(len(kept) - MAX_KEPT, 0) if kept else 0)


def _shown(results: Sequence[ChangeResult]) -> Iterator[SkippedObject]:
    for result in results:
        if result.outcome is Outcome.SKIPPED and result.code not in _COUNTED_ONLY:
            resource, namespace, name = _identity(result)
            text = result.message[:_MESSAGE_CHARS]
            yield SkippedObject(resource, namespace, name, result.code, text, result.path)


def _identity(result: ChangeResult) -> tuple[str, str, str]:
    change = result.change
    resource = f"{change.group}/{change.resource}" if change.group else change.resource
    if isinstance(change, Sweep):
        return resource, change.scope_namespace or "", ""
    return resource, change.namespace if change.namespaced else "", change.name


def _in_scope(found: SkippedObject, sweep: Sweep) -> bool:
    resource = f"{sweep.group}/{sweep.resource}" if sweep.group else sweep.resource
    return found.resource == resource and sweep.scope_namespace in (None, found.namespace)
