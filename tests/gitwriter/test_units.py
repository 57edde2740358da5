"""From an entry to the changes of the tree: what a replay may create, edit and delete."""

from __future__ import annotations

import orjson
import pytest

from gitwriter.base import start_branch
from gitwriter.git.network import RemoteRefs
from gitwriter.manifests import Delete, Sweep, Upsert
from gitwriter.units import Work, sweep_work, window_work
from reverser.kinds.model import PruneMode
from reverser.store.model import (
    ALL_OPERATIONS,
    EventEntry,
    ObjectRef,
    Operation,
    Presence,
    Scope,
    StagedObject,
    SweepEntry,
    TargetRef,
    TypeRef,
)

CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)


def work(cluster_wide: set[Operation], depot: set[Operation], *, prune: PruneMode = PruneMode.ALWAYS) -> Work:
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
    return sweep_work(sweep, [staged], prune=prune, digests=lambda _fields: {}, generation=0)


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


def event(name: str, operation: Operation, generation: int = 0) -> EventEntry:
    """A change of an object; ``generation`` above 0: sealed for the recipients of that number."""
    return EventEntry(
        target=TargetRef("u", "shop", "gt"),
        scope=Scope("u", "configmaps", None),
        object=ObjectRef(CONFIGMAPS, "shop", name),
        operation=operation,
        object_uid="o",
        resource_version="9",
        body=b"{}",
        sealed=generation > 0,
        recipients_generation=generation,
    )


@pytest.mark.parametrize(
    ("mode", "deletes", "sweeps"),
    [(PruneMode.ALWAYS, 1, 1), (PruneMode.ON_EVENT, 1, 0), (PruneMode.NEVER, 0, 0)],
)
def test_what_each_prune_mode_deletes(mode: PruneMode, deletes: int, sweeps: int) -> None:
    """spec.prune.mode: a delete that was seen, and what a replay did not show; the others keep documents."""
    found = window_work([event("cm", Operation.DELETE)], prune=mode, generation=0)
    assert [c.keep for c in found.changes if isinstance(c, Delete)] == [not deletes]
    sweep = work(set(ALL_OPERATIONS), set(), prune=mode)
    assert [c.keep for c in sweep.changes if isinstance(c, Sweep)] == [not sweeps]
    assert not any(isinstance(c, Sweep) for c in work({Operation.CREATE}, set(), prune=mode).changes)
    assert sum(isinstance(change, Upsert) for change in sweep.changes) == 2


def test_what_is_sealed_for_earlier_recipients_is_left_out() -> None:
    """J20: compared with the record of the target, also inside a window; its scope replays."""
    events = [event("old", Operation.UPDATE, 1), event("new", Operation.UPDATE, 2)]
    found = window_work(events, prune=PruneMode.ALWAYS, generation=2)
    assert [change.name for change in found.changes if isinstance(change, Upsert)] == ["new"]
    assert [(item.ref.name, item.scope) for item in found.dropped] == [("old", events[0].scope)]


def test_a_replay_sealed_for_earlier_recipients_is_left_out() -> None:
    """J20, pain 115: also of a replay only what the present recipients can read is written, and what is left
    out counts as there: it is not swept.
    """
    secrets = TypeRef("", "v1", "secrets", "Secret", True)
    sweep = SweepEntry(
        target=TargetRef("u", "shop", "gt"),
        scope=Scope("u", "secrets", "shop"),
        type=secrets,
        resource_version="9",
        replay_id="r",
        count=2,
        wanted=0,
        fingerprint="f",
        operations=frozenset(ALL_OPERATIONS),
    )
    staged = [
        StagedObject(
            "shop", name, Presence.FULL, b"s", sealed=True, sensitive=True, recipients_generation=number
        )
        for name, number in (("old", 1), ("new", 2))
    ]
    found = sweep_work(sweep, [staged], prune=PruneMode.ALWAYS, digests=lambda _fields: {}, generation=2)
    assert [change.name for change in found.changes if isinstance(change, Upsert)] == ["new"]
    assert [item.ref.name for item in found.dropped] == ["old"]
    (swept,) = [change for change in found.changes if isinstance(change, Sweep)]
    assert ("shop", "old") in swept.present


@pytest.mark.parametrize(
    ("refs", "start"),
    [
        (RemoteRefs("main", {"main": "1", "feature": "2"}), "feature"),
        (RemoteRefs("main", {"main": "1"}), "main"),
        (RemoteRefs(None, {"feature": "2"}), "feature"),
        (RemoteRefs(None, {"other": "3"}), None),
        (RemoteRefs("gone", {"other": "3"}), None),
        (RemoteRefs(None, {}), None),
    ],
)
def test_where_a_branch_begins(refs: RemoteRefs, start: str | None) -> None:
    """L5: its own tip, else the default branch, else nowhere; a HEAD that dangles is no branch."""
    assert start_branch(refs, "feature") == start
