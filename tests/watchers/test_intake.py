"""What becomes of one event: a table of the pipeline's steps, in their order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from reverser.kube.lines import WatchEvent, parse_event
from reverser.kube.requests import decode_object
from reverser.store.model import ALL_OPERATIONS, EventEntry, Operation
from watchers.fold import Fold, Presence
from watchers.intake import Disposition, Intake
from watchers.noop import NoopCache
from watchers.sealing import Seals
from watchers.table import ShardSpec
from watchers.terminating import Terminating

from .steps import CONFIGMAPS, SCOPE, TARGET

OWNED = {"ownerReferences": [{"kind": "X", "name": "x", "uid": "u", "controller": True}]}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
CREATE, UPDATE, DELETE = (frozenset({operation}) for operation in Operation)
Step = tuple[str, dict[str, Any], int, str]
"""Type of event, more metadata, value, and what becomes of it: an operation, or why nothing is written."""


def event(kind: str, meta: dict[str, Any], value: int, version: int) -> WatchEvent:
    given = {"name": "a", "namespace": "shop", "uid": "uid", "resourceVersion": str(version), **meta}
    return WatchEvent(kind, {"metadata": given, "data": {"v": str(value)}}, 100)


def intake(operations: frozenset[Operation], shop: frozenset[Operation]) -> Intake:
    return Intake(
        spec=ShardSpec(SCOPE, CONFIGMAPS, operations, {"shop": shop}),
        target=TARGET,
        filter_noise=True,
        defaults=lambda: None,
        cache=NoopCache(),
        terminating=Terminating(CONFIGMAPS),
        resolver=None,
        seals=cast(Seals, None),
    )


@pytest.mark.parametrize(
    ("operations", "shop", "steps"),
    [
        (
            ALL_OPERATIONS,
            frozenset(),
            [
                ("ADDED", {}, 1, "CREATE"),
                ("MODIFIED", {}, 1, "sanitized_noop"),
                ("MODIFIED", {"generation": 2}, 1, "sanitized_noop"),
                ("MODIFIED", {}, 2, "UPDATE"),
                ("MODIFIED", {}, 1, "UPDATE"),
                ("ADDED", {}, 1, "CREATE"),
                ("DELETED", {}, 1, "DELETE"),
            ],
        ),
        (
            ALL_OPERATIONS,
            frozenset(),
            [
                ("MODIFIED", {}, 1, "UPDATE"),
                ("MODIFIED", GOING, 1, "DELETE"),
                ("MODIFIED", GOING, 2, "duplicate"),
                ("DELETED", GOING, 2, "duplicate"),
                ("ADDED", {"uid": "other"}, 1, "CREATE"),
                ("ADDED", {"uid": "third", **GOING}, 1, "DELETE"),
            ],
        ),
        (
            ALL_OPERATIONS,
            frozenset(),
            [
                ("ADDED", {}, 1, "CREATE"),
                ("MODIFIED", OWNED, 2, "noise"),
                ("DELETED", OWNED, 2, "DELETE"),
                ("ADDED", {"uid": "other", **OWNED}, 1, "noise"),
                ("DELETED", {"uid": "other", **OWNED}, 1, "noise"),
                ("ADDED", {"name": "kube-root-ca.crt", "uid": "third"}, 1, "noise"),
            ],
        ),
        (
            CREATE,
            frozenset(),
            [
                ("ADDED", {}, 1, "CREATE"),
                ("MODIFIED", {}, 2, "operation"),
                ("MODIFIED", GOING, 2, "operation"),
                ("DELETED", {}, 2, "operation"),
                ("ADDED", {"uid": "other"}, 2, "CREATE"),
            ],
        ),
        (
            CREATE,
            DELETE,
            [
                ("ADDED", {}, 1, "CREATE"),
                ("MODIFIED", {}, 2, "operation"),
                ("DELETED", {}, 2, "DELETE"),
                ("DELETED", {"namespace": "depot", "uid": "other"}, 2, "operation"),
            ],
        ),
        (
            UPDATE,
            frozenset(),
            [
                ("ADDED", {}, 1, "operation"),
                ("MODIFIED", {}, 1, "UPDATE"),
                ("MODIFIED", {}, 1, "sanitized_noop"),
            ],
        ),
        (
            ALL_OPERATIONS,
            frozenset(),
            [("ADDED", {"name": ""}, 1, "malformed"), ("UNHEARD", {}, 1, "malformed")],
        ),
    ],
    ids=[
        "no-ops",
        "finalizers",
        "noise",
        "only creations",
        "deletions in one namespace",
        "only updates",
        "odd",
    ],
)
async def test_the_pipeline(
    operations: frozenset[Operation], shop: frozenset[Operation], steps: list[Step]
) -> None:
    """L2, L3, L6, A14 to A16, C20: what is written and as what, why something is not, and that whatever came
    moves the cursor to its own version.
    """
    made = intake(operations, shop)
    for version, (kind, meta, value, becomes) in enumerate(steps, 20):
        item, disposition = made.read(event(kind, meta, value, version), deadline=0.0)
        assert item.resource_version == str(version)
        if disposition is Disposition.APPLIED:
            assert isinstance(item.entry, EventEntry)
            assert (item.entry.operation, item.entry.resource_version) == (Operation(becomes), str(version))
            assert bool(item.entry.body) == (becomes != "DELETE")
        else:
            assert (disposition, item.entry) == (Disposition(becomes), None)


@pytest.mark.parametrize("depth", [300, 5000])
async def test_an_object_that_is_nested_too_deeply(depth: int) -> None:
    """It is seen and not written, in a watch and in a replay; its type goes on."""
    text = b'{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"9"},"spec":%s1%s}' % (
        b'{"x":' * depth,
        b"}" * depth,
    )
    deep = parse_event(b'{"type":"ADDED","object":%s}' % text)
    made = intake(ALL_OPERATIONS, frozenset())
    item, disposition = made.read(deep, deadline=0.0)
    assert (disposition, item.entry, item.resource_version) == (Disposition.MALFORMED, None, "9")
    fold = Fold(made.spec, filter_noise=True, table=None)
    for listed in decode_object(b'{"items":[%s,{"metadata":{"name":"b","namespace":"shop"}}]}' % text)[
        "items"
    ]:
        fold.add(listed)
    assert [(one.name, one.presence) for one in fold.take().objects] == [
        ("a", Presence.PRESENT),
        ("b", Presence.FULL),
    ]


async def test_an_object_without_a_uid_is_never_known() -> None:
    """B19: some servers give none; each of its changes counts."""
    made = intake(ALL_OPERATIONS, frozenset())
    for kind, becomes in (("MODIFIED", "UPDATE"), ("MODIFIED", "UPDATE"), ("DELETED", "DELETE")) * 2:
        item, _ = made.read(event(kind, {"uid": ""}, 1, 9), deadline=0.0)
        assert isinstance(item.entry, EventEntry)
        assert item.entry.operation is Operation(becomes)
