"""Rules to claims: which live types a WatchRule or ClusterWatchRule selects, and why an entry selects
nothing.

Pure. Every entry of ``resources`` is resolved on its own, against the live types only, so a type that is
refused, ambiguous or not observed selects nothing: nothing is watched and nothing is deleted. Each entry that
selects nothing gets one explanation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from reverser.kinds.model import Rule, WatchRule
from reverser.store.model import ALL_OPERATIONS, Operation
from watchers.registry import Reason, Registry, TypeRecord, Verdict

EXPLANATION_LIMIT = 5
NOTHING_RUNS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """One selected type in one namespace (None = all namespaces, or cluster-scoped)."""

    record: TypeRecord
    namespace: str | None
    operations: frozenset[Operation]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one selector selected nothing. ``reason`` is a stable code, ``message`` a sentence."""

    selector: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one rule object selects, with at most five explanations of misses."""

    claims: tuple[Claim, ...]
    explanations: tuple[Explanation, ...]
    unexplained: int = 0
    """Misses beyond those five."""

    @property
    def types(self) -> int:
        """Number of distinct types (group and resource) that are watched."""
        return len({claim.record.group_resource for claim in self.claims})


def resolve(rule: WatchRule, registry: Registry, running: Mapping[str, str] = NOTHING_RUNS) -> Resolution:
    """Claims and explanations of one rule object. ``running``: see ``best_versions``."""
    claims: dict[tuple[object, ...], Claim] = {}
    misses: list[Explanation] = []
    for entry in rule.rules:
        operations = parse_operations(entry.operations)
        for selector in entry.resources:
            found, miss = _select(selector.strip().lower(), entry, registry, running, cluster=rule.cluster)
            if miss is not None:
                misses.append(miss)
            for record in found:
                namespace = None if rule.cluster else rule.meta.namespace
                before = claims.get((record.key, namespace))
                union = operations | before.operations if before is not None else operations
                claims[(record.key, namespace)] = Claim(record, namespace, union)
    shown = tuple(misses[:EXPLANATION_LIMIT])
    return Resolution(tuple(claims.values()), shown, len(misses) - len(shown))


def parse_operations(operations: Iterable[str]) -> frozenset[Operation]:
    """The operations of a rule; none given, or ``*``, means all."""
    given = set(operations)
    if not given or "*" in given:
        return ALL_OPERATIONS
    return frozenset(Operation(name) for name in given if name in Operation.__members__)


def _select(
    selector: str, entry: Rule, registry: Registry, running: Mapping[str, str], *, cluster: bool
) -> tuple[tuple[TypeRecord, ...], Explanation | None]:
    namespaced = not cluster or entry.scope != "Cluster"
    wildcard = selector == "*"
    named = tuple(registry.live) if wildcard else registry.by_resource.get(selector, ())
    live = [r for r in named if r.live]
    scoped = [r for r in live if bool(r.resource.namespaced) is namespaced]
    grouped = [r for r in scoped if _listed(r.resource.group, entry.api_groups)]
    chosen = [r for r in grouped if _listed(r.resource.version, entry.api_versions)]
    if not chosen:
        hint = "" if named else _meant(selector, registry)
        left = _Filtered(named, live, scoped, grouped, hint)
        return (), _explain(selector, entry, left, namespaced=namespaced)
    groups = sorted({r.resource.group for r in chosen})
    if not wildcard and not entry.api_groups and len(groups) > 1:
        names = ", ".join(group or "core" for group in groups)
        text = f"{selector} is served by several groups ({names}); name one in apiGroups"
        return (), Explanation(selector, "Ambiguous", text)
    if entry.api_versions:
        return tuple(chosen), None
    return best_versions(chosen, running), None


def best_versions(
    records: Iterable[TypeRecord], running: Mapping[str, str] = NOTHING_RUNS
) -> tuple[TypeRecord, ...]:
    """One version of each (group, resource): the preferred one where it is there, else the most stable
    and newest.

    ``running`` has the versions that are watched now, by group and resource. One that is not served for a
    moment is not left for another before its grace has ended; without it, what is served goes before what is
    only remembered.
    """
    best: dict[str, TypeRecord] = {}
    for record in records:
        name = record.group_resource
        current = best.get(name)
        if current is None or _rank(record, running.get(name)) > _rank(current, running.get(name)):
            best[name] = record
    return tuple(best[name] for name in sorted(best))


def _rank(record: TypeRecord, watched: str | None) -> tuple[bool, bool, bool, tuple[int, int, int, str]]:
    retained = record.verdict is Verdict.RETAINED
    version = record.resource.version
    return (
        retained and version == watched,
        not retained,
        record.resource.preferred,
        version_priority(version),
    )


_ALIKE = 0.85
"""How much of two names agrees where one is probably a slip of the other."""
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")
_STAGES = {None: 3, "beta": 2, "alpha": 1}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2 > v1 > v1beta2 > v1alpha1 > anything else, later names last."""
    match = _VERSION.match(version)
    if match is None:
        return (0, 0, 0, "".join(chr(0x10FFFF - ord(c)) for c in version) + chr(0x10FFFF))
    return (_STAGES[match[2]], int(match[1]), int(match[3] or 0), "")


def _listed(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or "*" in allowed or value in allowed


@dataclass(frozen=True, slots=True)
class _Filtered:
    """What is left of a selector's candidates after each filter in turn."""

    named: Sequence[TypeRecord]
    live: Sequence[TypeRecord]
    scoped: Sequence[TypeRecord]
    grouped: Sequence[TypeRecord]
    hint: str = ""
    """What was probably meant, where nothing has that name."""


@lru_cache(maxsize=512)
def _alike(selector: str, served: frozenset[str]) -> list[str]:
    return sorted(get_close_matches(selector, sorted(served), n=2, cutoff=_ALIKE))


def _meant(selector: str, registry: Registry) -> str:
    """The plural of a type that is named by its kind, singular, short name or with its group, else those that
    are spelt almost alike."""
    plurals = sorted(
        {
            resource.resource
            for resource in (record.resource for record in registry.live)
            if selector == f"{resource.resource}.{resource.group}"
            or any(selector == name.lower() for name in resource.names)
        }
    )
    if not plurals:
        plurals = _alike(selector, frozenset(record.resource.resource for record in registry.live))
    return f"; did you mean {' or '.join(plurals)}?" if plurals else ""


def _explain(selector: str, entry: Rule, left: _Filtered, *, namespaced: bool) -> Explanation:
    """The first filter that left no candidate, in words that say what to change."""
    if selector == "*":
        return Explanation(selector, "NothingServed", "no followable type matches this entry")
    if not left.named:
        return Explanation(
            selector, "NotServed", f"the API server serves no resource named {selector}{left.hint}"
        )
    if not left.live:
        record = next((r for r in left.named if _listed(r.resource.group, entry.api_groups)), left.named[0])
        reason = "Denied" if record.reason is Reason.DENIED else "NotFollowable"
        return Explanation(selector, reason, f"{selector}: {record.summary}")
    if not left.scoped:
        scope = "cluster-scoped" if namespaced else "namespaced"
        fix = "a ClusterWatchRule with scope Cluster" if namespaced else "scope Namespaced, or a WatchRule"
        return Explanation(selector, "ScopeMismatch", f"{selector} is {scope}; select it with {fix}")
    if not left.grouped:
        groups = ", ".join(sorted({r.resource.group or 'core (written "")' for r in left.scoped}))
        return Explanation(
            selector, "GroupMismatch", f"{selector} is served by {groups}, not by the groups named"
        )
    versions = ", ".join(sorted({r.resource.version for r in left.grouped}))
    return Explanation(
        selector, "VersionMismatch", f"{selector} is served as {versions}, not in a version named"
    )
