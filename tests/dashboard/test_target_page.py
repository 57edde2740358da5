"""What the page of one target tells beside its verdict."""

from __future__ import annotations

import dataclasses
import re

import pytest
from django.test import Client

from reverser.dashboard.details import Stream, feeds
from reverser.kinds.parse import parse_watch_rule
from reverser.store import Store
from reverser.store.model import BranchHealth, KeptNews, LeaseKind, StreamRecord
from tests.dashboard import world


def _stream(group_resource: str, where: str = "shop", version: str = "v1") -> Stream:
    return Stream(group_resource, "", version, where, "streaming", "", "", None, None, 0, 0, 0, "")


@pytest.mark.parametrize(
    ("kind", "entry", "stream", "expected"),
    [
        ("WatchRule", {"resources": ["configmaps"]}, _stream("configmaps"), True),
        ("WatchRule", {"resources": [" ConfigMaps "]}, _stream("configmaps"), True),
        ("WatchRule", {"resources": ["configmaps"]}, _stream("configmaps", "depot"), False),
        ("WatchRule", {"resources": ["*"]}, _stream("apps/deployments"), True),
        ("WatchRule", {"resources": ["*"], "apiGroups": [""]}, _stream("apps/deployments"), False),
        ("WatchRule", {"resources": ["*"], "apiGroups": ["*"]}, _stream("apps/deployments"), True),
        ("WatchRule", {"resources": ["*"], "apiVersions": ["v2"]}, _stream("configmaps"), False),
        (
            "ClusterWatchRule",
            {"resources": ["*"], "scope": "Namespaced"},
            _stream("configmaps", "all namespaces"),
            True,
        ),
        (
            "ClusterWatchRule",
            {"resources": ["*"], "scope": "Namespaced"},
            _stream("namespaces", "cluster"),
            False,
        ),
        (
            "ClusterWatchRule",
            {"resources": ["*"], "scope": "Cluster"},
            _stream("namespaces", "cluster"),
            True,
        ),
    ],
)
def test_what_a_rule_resolves_to(kind: str, entry: dict[str, object], stream: Stream, expected: bool) -> None:
    """The streams that run because of it: by resource, group, version, scope and namespace."""
    rule = parse_watch_rule(
        {
            "kind": kind,
            "metadata": {"name": "r", "namespace": "" if kind == "ClusterWatchRule" else "shop"},
            "spec": {"targetRef": {"name": "live", "namespace": "shop"}, "rules": [entry]},
        }
    )

    assert feeds(rule, stream) is expected


def test_rules_name_their_types(viewer: Client, web: Store) -> None:
    """Not only how many they are."""
    row = world.target()
    world.stream(web, row)

    page = viewer.get(f"/admin/history/targetstate/{row.pk}/change/").content.decode()

    rules = page.split("Rules that feed it")[1].split("Last commits")[0]
    assert "shop/config" in rules and "configmaps v1" in rules


def test_streams_are_replayed_one_by_one(viewer: Client, operator: Client, web: Store) -> None:
    """Each row leads an operator, and only an operator, to the confirmation for its own type."""
    row = world.target()
    scope = world.stream(web, row)
    (record,) = web.read_streams(row.uid).values()
    deployments = dataclasses.replace(record.type, group="apps", resource="deployments", kind="Deployment")
    web.write_stream(
        StreamRecord(
            dataclasses.replace(scope, group_resource="apps/deployments"),
            deployments,
            record.state,
            "Expired",
            restarts=3,
        )
    )
    page = f"/admin/history/targetstate/{row.pk}/change/"

    seen, acting = viewer.get(page).content.decode(), operator.get(page).content.decode()

    assert "do/replay" not in seen
    links = re.findall(r'href="([^"]*do/replay/\?type=[^"]*)"', acting)
    chosen = [
        re.search(r'value="([^"]*)" selected', operator.get(link).content.decode())[1]  # type: ignore[index]
        for link in links
    ]
    assert chosen == ["apps/deployments", "configmaps"]
    assert re.search(r'data-label="Restarts"[^>]*>3 <span[^>]*>Expired', seen)


def test_what_the_prune_mode_keeps_is_told(viewer: Client, web: Store) -> None:
    """By type, with the mode; nothing is said of types that are not watched, nor where nothing is kept."""
    row = world.target()
    scope = world.stream(web, row)
    fence = web.acquire_lease(LeaseKind.BRANCH, world.key(row).id, "writer", 60_000, "test")
    assert fence is not None
    page = f"/admin/history/targetstate/{row.pk}/change/"
    gone = dataclasses.replace(scope, group_resource="services")
    notes = [KeptNews(gone, "OnEvent", True, ("shop/a",)), KeptNews(scope, "OnEvent", True)]

    web.note_kept(world.key(row), fence, row.uid, notes)
    before = viewer.get(page).content.decode()
    web.note_kept(world.key(row), fence, row.uid, [dataclasses.replace(notes[1], kept=("shop/a", "shop/b"))])
    after = viewer.get(page).content.decode()

    assert "The prune mode keeps" not in before
    told = re.search(r"The prune mode keeps.*?</ul>", after, re.DOTALL)
    assert told is not None
    words = " ".join(re.sub(r"<[^>]*>", " ", told[0]).split())
    assert words.endswith("configmaps in shop: 2 OnEvent")
    assert "services" not in told[0]


def test_a_failing_branch_is_told_beside_another_trouble(viewer: Client, web: Store) -> None:
    """The verdict has one reason; what the remote says stands with the journal, with the next try."""
    row = world.target(stalled="True", ready="False", reason="UnsupportedContent", message="a chart")
    web.open_journal(world.key(row))
    health = BranchHealth(False, "PushRejected", "the hook says no", since_ms=1, attempts=4)
    web.write_branch_health(world.key(row), health)
    world.pending(web, row, b"{}")
    branch = f"/admin/branches/{world.key(row).id}/"

    page = viewer.get(f"/admin/history/targetstate/{row.pk}/change/").content.decode()
    branches, one = viewer.get("/admin/branches/").content.decode(), viewer.get(branch).content.decode()

    assert "UnsupportedContent" in page and "PushRejected: the hook says no" in page
    clock = r"\d\d:\d\d:\d\d UTC"
    assert re.search(rf'data-label="Next due"[^>]*>{clock}', branches)
    assert re.search(rf"<dt>Next try</dt><dd><time[^>]*>{clock}", one)
    assert re.search(r"<dt>Failed attempts</dt><dd>4<", one)
