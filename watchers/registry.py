"""Which types may be followed: ten checks, one verdict, and the grace that keeps a short outage from becoming
a deletion.

``judge(previous, scan, now)`` is pure. Facts of the scan are weighed against what was known: a type whose
group version fails keeps its last facts for as long as that lasts; a type that is missing from a scan
keeps them for 60 s, counted from the first scan that missed it, and only a fresh sighting stops that
clock. Only types that were live are protected; a refused one leaves at once. Live means followable or
retained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from reverser.store.model import TypeRef, group_resource
from watchers.discovery import GroupVersion, Resource, Scan
from watchers.policy import DENIED_REASON, is_denied

REMOVAL_GRACE = 60.0
"""Seconds between the first scan that missed a live type and its removal; fixed."""
NEEDED_VERBS = ("get", "list", "watch")


class Verdict(StrEnum):
    """What may be done with a type."""

    FOLLOWABLE = "followable"
    RETAINED = "retained"
    REFUSED = "refused"


class Reason(StrEnum):
    """Why a check failed."""

    NOT_SERVED = "not-served"
    SUBRESOURCE_ONLY = "subresource-only"
    DEGRADED = "discovery-degraded"
    GVK_NOT_UNIQUE = "gvk-not-unique"
    GVR_NOT_UNIQUE = "gvr-not-unique"
    SCOPE_UNKNOWN = "scope-unknown"
    MISSING_VERB = "missing-verb"
    DENIED = "denied-by-policy"


TypeKey = tuple[str, str, str, str]
"""Group, version, resource, kind."""


@dataclass(frozen=True, slots=True)
class TypeRecord:
    """One type with its verdict. ``summary`` is the sentence people read."""

    resource: Resource
    verdict: Verdict
    reason: Reason | None
    summary: str
    missing_since: float | None = None

    @property
    def live(self) -> bool:
        return self.verdict is not Verdict.REFUSED

    @property
    def key(self) -> TypeKey:
        return (self.resource.group, self.resource.version, self.resource.resource, self.resource.kind)

    @property
    def type(self) -> TypeRef:
        r = self.resource
        return TypeRef(r.group, r.version, r.resource, r.kind, bool(r.namespaced))

    @property
    def group_resource(self) -> str:
        return group_resource(self.resource.group, self.resource.resource)


@dataclass(frozen=True)
class Registry:
    """Everything known of the served types. ``revision`` grows when live membership or facts change."""

    records: Mapping[TypeKey, TypeRecord] = field(default_factory=dict)
    ready: bool = False
    revision: int = 0
    degraded: frozenset[GroupVersion] = frozenset()
    trusted: int = 0
    """Number of group versions of the last scan that answered."""

    @cached_property
    def live(self) -> tuple[TypeRecord, ...]:
        """Live types, sorted by group, version and resource."""
        return tuple(record for _, record in sorted(self.records.items()) if record.live)

    @cached_property
    def by_resource(self) -> Mapping[str, tuple[TypeRecord, ...]]:
        """All records, live or not, by plural name."""
        found: dict[str, list[TypeRecord]] = {}
        for _, record in sorted(self.records.items()):
            found.setdefault(record.resource.resource, []).append(record)
        return {name: tuple(records) for name, records in found.items()}

    @cached_property
    def names(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Every name of each served type, by (group, plural)."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        for record in self.records.values():
            resource = record.resource
            key = (resource.group, resource.resource)
            found[key] = found.get(key, frozenset()) | frozenset(resource.names)
        return found

    @cached_property
    def next_expiry(self) -> float | None:
        """When the grace of the first missing type ends, in the time that ``judge`` was given."""
        missing = [r.missing_since for r in self.records.values() if r.missing_since is not None]
        return min(missing) + REMOVAL_GRACE if missing else None

    def by_kind(self, group: str, version: str, kind: str) -> TypeRecord | None:
        """The live type of a kind, or None."""
        matching = (
            r
            for r in self.live
            if (r.resource.group, r.resource.version, r.resource.kind) == (group, version, kind)
        )
        return next(matching, None)

    def versions(self, group: str, resource: str) -> tuple[TypeRecord, ...]:
        """Live versions of one (group, resource)."""
        return tuple(
            record
            for record in self.by_resource.get(resource, ())
            if record.live and record.resource.group == group
        )


def judge(previous: Registry, scan: Scan, now: float) -> Registry:
    """The registry after a scan. ``now`` is a monotonic time in seconds.

    An empty scan after a non-empty one is a failure of the server, not news: nothing changes.
    """
    if scan.empty and previous.records:
        return previous
    if not scan.scanned and not previous.ready:
        return previous
    kept = _carry(previous, scan, now)
    facts = {
        _key(resource): (resource, None)
        for resource in scan.resources
        if resource.group_version not in scan.failed
    }
    candidates: dict[TypeKey, tuple[Resource, float | None]] = {**kept, **facts}
    kinds, names = _identities(resource for resource, _ in candidates.values())
    records = {
        key: _record(resource, missing, resource.group_version in scan.failed, kinds, names)
        for key, (resource, missing) in candidates.items()
    }
    changed = _facts_of(records) != _facts_of(previous.records) or not previous.ready
    return Registry(
        records=records,
        ready=True,
        revision=previous.revision + 1 if changed else previous.revision,
        degraded=scan.failed,
        trusted=len(scan.scanned),
    )


def _carry(previous: Registry, scan: Scan, now: float) -> dict[TypeKey, tuple[Resource, float | None]]:
    """What is remembered of types that this scan did not show, and since when they are missing."""
    seen = {_key(resource) for resource in scan.resources}
    kept: dict[TypeKey, tuple[Resource, float | None]] = {}
    for key, record in previous.records.items():
        pair = record.resource.group_version
        failed = pair in scan.failed
        if key in seen and not failed:
            continue
        judged = not failed and (pair in scan.scanned or scan.complete)
        missing = record.missing_since
        if judged and missing is None:
            missing = now
        if missing is not None and (not record.live or now - missing >= REMOVAL_GRACE):
            continue
        kept[key] = (record.resource, missing)
    return kept


def _record(
    resource: Resource,
    missing: float | None,
    degraded: bool,
    kinds: Mapping[tuple[str, str, str], set[str]],
    names: Mapping[tuple[str, str, str], set[str]],
) -> TypeRecord:
    soft, hard = _checks(resource, missing, degraded, kinds, names)
    if hard is not None:
        return TypeRecord(resource, Verdict.REFUSED, hard[0], f"not followable — {hard[1]}", missing)
    if soft is not None:
        return TypeRecord(resource, Verdict.RETAINED, soft[0], f"retained — {soft[1]}", missing)
    return TypeRecord(resource, Verdict.FOLLOWABLE, None, "followable", None)


Failure = tuple[Reason, str]


def _checks(
    resource: Resource,
    missing: float | None,
    degraded: bool,
    kinds: Mapping[tuple[str, str, str], set[str]],
    names: Mapping[tuple[str, str, str], set[str]],
) -> tuple[Failure | None, Failure | None]:
    """The first failure that time may heal, and the first that refuses, in the fixed order of the checks."""
    soft: Failure | None = None
    if missing is not None:
        soft = (Reason.NOT_SERVED, "not served")
    elif degraded:
        soft = (Reason.DEGRADED, "discovery degraded for its group/version")
    if resource.subresource_only:
        return soft, (Reason.SUBRESOURCE_ONLY, "served only as a subresource")
    same_kind = kinds.get((resource.group, resource.version, resource.kind), set())
    if len(same_kind) > 1:
        return soft, (
            Reason.GVK_NOT_UNIQUE,
            f"GVK served by more than one resource: {', '.join(sorted(same_kind))}",
        )
    same_name = names.get((resource.group, resource.version, resource.resource), set())
    if len(same_name) > 1:
        text = f"resource resolves to more than one kind: {', '.join(sorted(same_name))}"
        return soft, (Reason.GVR_NOT_UNIQUE, text)
    if resource.namespaced is None:
        return soft, (Reason.SCOPE_UNKNOWN, "scope unknown")
    lacking = [verb for verb in NEEDED_VERBS if verb not in resource.verbs]
    if lacking:
        return soft, (Reason.MISSING_VERB, f"missing required verb: {', '.join(lacking)}")
    if is_denied(resource.group, resource.resource):
        return soft, (Reason.DENIED, DENIED_REASON)
    return soft, None


def _identities(
    resources: Iterable[Resource],
) -> tuple[dict[tuple[str, str, str], set[str]], dict[tuple[str, str, str], set[str]]]:
    """Resources by kind and kinds by resource, among served top-level types: identity must be one to one."""
    kinds: dict[tuple[str, str, str], set[str]] = {}
    names: dict[tuple[str, str, str], set[str]] = {}
    for r in resources:
        if r.subresource_only:
            continue
        kinds.setdefault((r.group, r.version, r.kind), set()).add(r.resource)
        names.setdefault((r.group, r.version, r.resource), set()).add(r.kind)
    return kinds, names


def _key(resource: Resource) -> TypeKey:
    return (resource.group, resource.version, resource.resource, resource.kind)


def _facts_of(records: Mapping[TypeKey, TypeRecord]) -> dict[TypeKey, TypeRecord]:
    """Records without their clocks, so that the passing of time alone does not count as a change."""
    return {key: replace(record, missing_since=None) for key, record in records.items()}
