"""``status.retention``: what is shown of the documents that a prune mode keeps."""

from __future__ import annotations

from typing import Any

import pytest

from reverser.controllers.retention import (
    claimed_scopes,
    counts_of,
    retention,
    retention_field,
    still_skipped,
)
from reverser.controllers.streams import Claimed
from reverser.kinds.model import PruneMode
from reverser.kinds.parse import parse_git_target
from reverser.store.model import Kept, KeptNews, LeaseKind, Scope, Skipped, SkippedObject
from tests.controllers.cluster import Cluster
from tests.controllers.test_reconcile import MAIN, base

TIME = "2026-01-02T03:04:05Z"
MS = 1_767_323_045_000
SHOP = ("configmaps", "shop")


def field(prune: str, counts: tuple[Kept, ...] | None, **status: Any) -> dict[str, Any] | None:
    obj = {"kind": "GitTarget", "spec": {"prune": {"mode": prune}}, "status": {"retention": status}}
    return retention_field(parse_git_target(obj), counts)


def test_what_is_watched_is_added_up() -> None:
    """A claim of all namespaces covers the named ones; a type that no rule claims counts for nothing."""
    claims = [Claimed("", "v1", "configmaps", "shop"), Claimed("apps", "v1", "deployments", "shop")]
    claims.append(Claimed("apps", "v1", "deployments"))
    scopes = claimed_scopes(claims)
    assert scopes == {SHOP, ("apps/deployments", None)}
    kept = {
        Scope("u", "configmaps", "shop"): Kept("OnEvent", 1),
        Scope("u", "configmaps", "depot"): Kept("OnEvent", 2),
        Scope("u", "apps/deployments", None): Kept("OnEvent", 4),
        Scope("u", "apps/deployments", "shop"): Kept("OnEvent", 8),
        Scope("u", "services", None): Kept("OnEvent", 16),
    }
    assert sum(item.documents for item in counts_of(kept, scopes)) == 5


@pytest.mark.parametrize(
    ("mode", "counts", "expected"),
    [
        ("OnEvent", (), None),
        ("OnEvent", (Kept("OnEvent", 0, MS),), ("OnEvent", 0)),
        ("OnEvent", (Kept("OnEvent", 2, MS), Kept("OnEvent", 1, 5)), ("OnEvent", 3)),
        ("Never", (Kept("OnEvent", 2, MS),), ("Never", 2)),
        ("Always", (Kept("Always", 0, MS),), None),
        ("Always", (Kept("Always", 0, MS), Kept("OnEvent", 2, 5)), ("OnEvent", 2)),
    ],
)
def test_the_field(mode: str, counts: tuple[Kept, ...], expected: tuple[str, int] | None) -> None:
    """From the first count on; under Always only while a sweep has still to remove something."""
    found = field(mode, counts)
    assert (found and (found["mode"], found["retainedDocuments"])) == expected
    assert found is None or found["observedTime"] == TIME


def test_what_was_said_stays_while_nothing_newer_is_known() -> None:
    """Redis is away, or a gate is closed; what is broken in a status is dropped."""
    said = {"mode": "OnEvent", "retainedDocuments": 3, "observedTime": TIME}
    assert field("OnEvent", None, **said) == said
    assert field("Always", None, **said) == said
    assert field("OnEvent", (), **said) is None
    assert field("OnEvent", None) is None
    assert field("OnEvent", None, mode="OnEvent") is None
    assert retention((Kept("Never", 2**40, MS),), PruneMode.NEVER) is not None
    assert field("Never", (Kept("Never", 2**40, MS),)) == {
        **said,
        "mode": "Never",
        "retainedDocuments": 2**31 - 1,
    }


def test_an_object_of_a_type_that_is_no_longer_watched_is_not_left_out() -> None:
    """No replay would ever take it back."""
    found = tuple(SkippedObject(kind, "shop", "a", "code", "text") for kind in ("configmaps", "services"))
    assert still_skipped(Skipped(found, 3), frozenset({SHOP})) == Skipped(found[:1], 3)
    assert still_skipped(Skipped(found, 3), frozenset({("services", None)})) == Skipped(found[1:], 3)
    assert still_skipped(Skipped(found, 3), frozenset()) == Skipped()


async def test_the_status_follows_the_counts(cluster: Cluster, url: str) -> None:
    """No condition tells of it; without its rule there is nothing to tell, and an equal count is no write."""

    async def shown() -> tuple[str, int] | None:
        await cluster.settle()
        found = (await cluster.get("GitTarget", "gt"))["status"].get("retention")
        return (found["mode"], found["retainedDocuments"]) if found else None

    async def note(mode: str, *names: str) -> None:
        await cluster.store.note_kept(MAIN, fence, uid, [KeptNews(scope, mode, True, names)])

    await base(cluster, url)
    await cluster.settle()
    before = await cluster.conditions("GitTarget", "gt")
    uid = await cluster.uid("GitTarget", "gt")
    scope = Scope(uid, "configmaps", "shop")
    fence = await cluster.store.acquire_lease(LeaseKind.BRANCH, MAIN.id, "writer", 600_000, "test")
    assert fence is not None
    assert await shown() is None
    await note("Always")
    assert await shown() is None
    target = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}
    await cluster.apply("GitTarget", "gt", {**target, "prune": {"mode": "OnEvent"}})
    await note("OnEvent", "shop/a", "shop/b")
    assert await shown() == ("OnEvent", 2)
    version = (await cluster.get("GitTarget", "gt"))["metadata"]["resourceVersion"]
    await note("OnEvent", "shop/a", "shop/b")
    assert await shown() == ("OnEvent", 2)
    assert (await cluster.get("GitTarget", "gt"))["metadata"]["resourceVersion"] == version
    assert await cluster.conditions("GitTarget", "gt") == before
    await cluster.delete("WatchRule", "wr")
    assert await shown() is None
