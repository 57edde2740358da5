"""From an entry to the changes of the tree: what a replay may create, edit and delete."""

from __future__ import annotations

import orjson

from gitwriter.manifests import Sweep, Upsert
from gitwriter.units import Work, sweep_work
from reverser.kinds.model import PruneMode
from reverser.store.model import (
    ALL_OPERATIONS,
    Operation,
    Presence,
    Scope,
    StagedObject,
    SweepEntry,
    TargetRef,
    TypeRef,
)

CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)


def work(cluster_wide: set[Operation], depot: set[Operation]) -> Work:
    """A replay of two namespaces on one cluster-wide stream; a rule of depot's own adds operations."""
    sweep = SweepEntry(
        target=TargetRef("u", "shop", "gt"),
        scope=Scope("u", "configmaps", None),
        type=CONFIGMAPS,
        resource_version="9",
        replay_id="r",
        count=2,
        wanted=0,
        fingerprint="f",
        operations=frozenset(cluster_wide),
        namespace_operations={"depot": frozenset(depot)} if depot else {},
    )
    staged = [
        StagedObject(name, "cm", Presence.FULL, orjson.dumps({"metadata": {"name": "cm", "namespace": name}}))
        for name in ("depot", "shop")
    ]
    return sweep_work(sweep, [staged], prune=PruneMode.ALWAYS, digests=lambda _fields: {}, generation=0)


def allowed(found: Work) -> tuple[dict[str, tuple[bool, bool]], list[str | None]]:
    """(create, update) by namespace, and where absent documents go."""
    upserts = {c.namespace: (c.create, c.update) for c in found.changes if isinstance(c, Upsert)}
    return upserts, [c.scope_namespace for c in found.changes if isinstance(c, Sweep)]


def test_operations_of_a_replay_count_by_namespace() -> None:
    """C21, B18: for each object the cluster-wide operations and those of its own namespace together."""
    only_new = {Operation.CREATE}
    assert allowed(work(only_new, set())) == ({"depot": (True, False), "shop": (True, False)}, [])
    assert allowed(work(only_new, {Operation.UPDATE, Operation.DELETE})) == (
        {"depot": (True, True), "shop": (True, False)},
        ["depot"],
    )
    assert allowed(work({Operation.DELETE}, only_new)) == (
        {"depot": (True, False), "shop": (False, False)},
        [None],
    )
    assert allowed(work(set(ALL_OPERATIONS), set())) == (
        {"depot": (True, True), "shop": (True, True)},
        [None],
    )
