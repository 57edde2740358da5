"""Which objects of a target Git does not hold as they are, kept from commit to commit: pure.

A skip never fails a commit, so it has to be shown elsewhere. A window reports on the objects it brought, a
sweep on its whole scope; what either finds written is no longer skipped. Skips that a rule asks for, that
another condition shows, or that the next replay repairs are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gitwriter.manifests import Change, ChangeResult, Outcome, SkipReason, Sweep
from reverser.store.model import Skipped, SkippedObject, group_resource

MAX_KEPT = 200
_MESSAGE_CHARS = 300
_NAMED = 3
_COUNTED_ONLY = frozenset(
    {
        SkipReason.CREATE_NOT_SELECTED,
        SkipReason.UPDATE_NOT_SELECTED,
        SkipReason.HELD,
        SkipReason.KEPT,
        SkipReason.RESEAL_NEEDED,
        SkipReason.MISSING_BODY,
        SkipReason.PATCH_NO_PARENT,
    }
)


@dataclass(frozen=True, slots=True)
class News:
    """What a commit's results say about skips: the objects they touch, the scopes they cover, the objects
    skipped."""

    touched: frozenset[tuple[str, str, str]]
    scopes: tuple[tuple[str, str | None], ...]
    skipped: tuple[SkippedObject, ...]


def news_of(results: Sequence[ChangeResult]) -> News:
    """The news in ``results``."""
    sweeps = [result.change for result in results if isinstance(result.change, Sweep)]
    return News(
        frozenset(_identity(result) for result in results),
        tuple((_resource(sweep), sweep.scope_namespace) for sweep in sweeps),
        tuple(_shown(results)),
    )


def left_out(results: Sequence[ChangeResult]) -> str:
    """The first objects that ``results`` leave out, in a sentence; empty without any."""
    skipped = news_of(results).skipped
    if not skipped:
        return ""
    named = ", ".join(f"{item.title} ({item.code})" for item in skipped[:_NAMED])
    more = f" and {len(skipped) - _NAMED} more" if len(skipped) > _NAMED else ""
    return f"left out: {named}{more}; see ObjectsWritten of the GitTarget"


def follow(before: Skipped, news: News) -> Skipped:
    """What is skipped once the changes of ``news`` are settled."""
    kept = [
        found
        for found in before.objects
        if (found.resource, found.namespace, found.name) not in news.touched
        and not any(_in_scope(found, *scope) for scope in news.scopes)
    ]
    kept += news.skipped
    more = 0 if news.scopes else before.more
    return Skipped(tuple(kept[:MAX_KEPT]), more + max(len(kept) - MAX_KEPT, 0) if kept else 0)


def newly(before: Skipped, after: Skipped) -> list[SkippedObject]:
    """What is skipped now and was not, or not for the same cause."""
    known = {(item.resource, item.namespace, item.name, item.code) for item in before.objects}
    return [
        item for item in after.objects if (item.resource, item.namespace, item.name, item.code) not in known
    ]


def _shown(results: Sequence[ChangeResult]) -> Iterator[SkippedObject]:
    for result in results:
        if result.outcome is Outcome.SKIPPED and result.code not in _COUNTED_ONLY:
            resource, namespace, name = _identity(result)
            text = result.message[:_MESSAGE_CHARS]
            yield SkippedObject(resource, namespace, name, result.code, text, result.path)


def _identity(result: ChangeResult) -> tuple[str, str, str]:
    change = result.change
    if isinstance(change, Sweep):
        return _resource(change), change.scope_namespace or "", ""
    return _resource(change), change.namespace if change.namespaced else "", change.name


def _resource(change: Change) -> str:
    return group_resource(change.group, change.resource)


def _in_scope(found: SkippedObject, resource: str, namespace: str | None) -> bool:
    return found.resource == resource and namespace in (None, found.namespace)
