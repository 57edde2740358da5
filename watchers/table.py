"""The watched-type table of one target: claims to shards.

One (group, resource) has one writing version per target: the preferred one among those claimed, else the
best. The others are covered by it and only shown in the status. A cluster-wide claim covers the named
namespaces of the same type; their operations still count for objects in those namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reverser.kinds.sensitive import is_sensitive
from reverser.store.model import Operation, Scope, TypeRef
from watchers.registry import TypeRecord, Verdict
from watchers.rules import NOTHING_RUNS, Claim, best_versions


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """One watch: its scope, its type, and which operations count."""

    scope: Scope
    type: TypeRef
    operations: frozenset[Operation]
    namespace_operations: Mapping[str, frozenset[Operation]] = field(default_factory=dict)
    """Further operations for objects of these namespaces; only on a cluster-wide shard."""
    sensitive: bool = False
    retained: bool = False
    """The type is only remembered, not served now: its watch cannot be opened."""

    def operations_for(self, namespace: str) -> frozenset[Operation]:
        """The operations that count for an object of ``namespace``."""
        extra = self.namespace_operations.get(namespace)
        return self.operations | extra if extra else self.operations


@dataclass(frozen=True, slots=True)
class Table:
    """What a target watches, and the versions that are covered by another one."""

    shards: tuple[ShardSpec, ...] = ()
    covered: tuple[TypeRef, ...] = ()

    @property
    def types(self) -> int:
        """Number of distinct types."""
        return len({shard.scope.group_resource for shard in self.shards})


def build_table(
    target_uid: str,
    claims: Iterable[Claim],
    sensitive: frozenset[str],
    running: Mapping[str, str] = NOTHING_RUNS,
) -> Table:
    """Shards sorted by type and namespace. No claims make an empty table: every watch of the target
    closes. ``running``: see ``best_versions``.
    """
    by_type: dict[str, list[Claim]] = {}
    for claim in claims:
        by_type.setdefault(claim.record.group_resource, []).append(claim)
    shards: list[ShardSpec] = []
    covered: dict[TypeRef, None] = {}
    for name in sorted(by_type):
        chosen = best_versions((claim.record for claim in by_type[name]), running)[0]
        for claim in by_type[name]:
            if claim.record.key != chosen.key:
                covered[claim.record.type] = None
        shards += _shards(target_uid, chosen, by_type[name], sensitive)
    return Table(tuple(shards), tuple(covered))


def _shards(
    target_uid: str, record: TypeRecord, claims: Iterable[Claim], sensitive: frozenset[str]
) -> Iterable[ShardSpec]:
    by_namespace: dict[str | None, frozenset[Operation]] = {}
    for claim in claims:
        by_namespace[claim.namespace] = by_namespace.get(claim.namespace, frozenset()) | claim.operations
    everywhere = by_namespace.pop(None, None)
    named = {
        namespace: ops for namespace, ops in sorted(by_namespace.items(), key=str) if namespace is not None
    }

    def shard(
        namespace: str | None,
        operations: frozenset[Operation],
        extra: Mapping[str, frozenset[Operation]],
    ) -> ShardSpec:
        return ShardSpec(
            scope=Scope(target_uid, record.group_resource, namespace),
            type=record.type,
            operations=operations,
            namespace_operations=extra,
            sensitive=is_sensitive(record.resource.group, record.resource.names, sensitive),
            retained=record.verdict is Verdict.RETAINED,
        )

    if everywhere is not None:
        extra = {namespace: ops for namespace, ops in named.items() if not ops <= everywhere}
        return [shard(None, everywhere, extra)]
    return [shard(namespace, operations, {}) for namespace, operations in named.items()]
