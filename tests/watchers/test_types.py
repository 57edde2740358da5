"""Discovery documents, the memory of the registry, rules to claims, claims to shards."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverser.errors import KubeUnavailable
from reverser.kinds.model import Meta, Rule, WatchRule
from reverser.store.model import ALL_OPERATIONS, Operation, Scope
from tests import needs
from watchers.discovery import Resource, Scan, parse_aggregated, parse_legacy, scan
from watchers.registry import Registry, judge
from watchers.rules import best_versions, resolve, version_priority
from watchers.table import build_table

VERBS = ("create", "get", "list", "watch")
RECORDINGS = Path(__file__).resolve().parents[2].parent / "shared" / "apiserver-recordings"


def served(
    resource: str,
    kind: str,
    group: str = "",
    version: str = "v1",
    *,
    namespaced: bool | None = True,
    **more: Any,
) -> Resource:
    fields: dict[str, Any] = {"verbs": VERBS, "preferred": True, **more}
    return Resource(group, version, resource, kind, namespaced, **fields)


def facts(
    *resources: Resource, failed: tuple[tuple[str, str], ...] = (), scanned: tuple[tuple[str, str], ...] = ()
) -> Scan:
    pairs = {r.group_version for r in resources} | set(scanned)
    return Scan(tuple(resources), frozenset(pairs - set(failed)), frozenset(failed))


CM = served("configmaps", "ConfigMap")
DEP = served("deployments", "Deployment", "apps")
GIZ = served("gizmos", "Gizmo", "lab.test")
POD = served("pods", "Pod")


def names(registry: Registry) -> list[str]:
    return [record.group_resource for record in registry.live]


def test_aggregated_discovery() -> None:
    """D1 to D5: scope, verbs, subresources; stale versions fail; the first fresh version is preferred."""
    document = {
        "items": [
            {
                "metadata": {"name": "lab.test"},
                "versions": [
                    {"version": "v2", "freshness": "Stale"},
                    {
                        "version": "v1",
                        "freshness": "Current",
                        "resources": [
                            {
                                "resource": "Gizmos",
                                "scope": "Namespaced",
                                "verbs": ["watch", "list", "get"],
                                "responseKind": {"group": "", "version": "", "kind": "Gizmo"},
                                "subresources": [{"subresource": "scale"}, {"subresource": "status"}],
                                "singularResource": "gizmo",
                                "shortNames": ["gz"],
                            },
                            {"resource": "", "scope": "Namespaced"},
                            3,
                        ],
                    },
                    {"version": "v1beta1", "resources": []},
                ],
            }
        ]
    }
    found = parse_aggregated(document)
    assert found.failed == {("lab.test", "v2")}
    assert found.scanned == {("lab.test", "v1"), ("lab.test", "v1beta1")}
    verbs = ("get", "list", "watch")
    subresources, aliases = ("scale", "status"), ("gizmo", "gz")
    expected = Resource("lab.test", "v1", "gizmos", "Gizmo", True, verbs, True, subresources, aliases=aliases)
    assert found.resources == (expected,)


def test_legacy_discovery_folds_subresources() -> None:
    """Entries named parent/sub belong to their parent; one without a parent is served only as a
    subresource.
    """
    document = {
        "resources": [
            {
                "name": "deployments",
                "singularName": "deployment",
                "shortNames": ["deploy"],
                "namespaced": True,
                "kind": "Deployment",
                "verbs": ["get"],
            },
            {"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"},
            {"name": "orphans/status", "kind": "Orphan"},
        ]
    }
    found = list(parse_legacy(document, ("apps", "v1"), True))
    assert [(r.resource, r.subresources, r.subresource_only) for r in found] == [
        ("deployments", ("scale",), False),
        ("orphans", ("status",), True),
    ]
    assert found[0].names == ("deployments", "Deployment", "deploy", "deployment")


class Documents:
    """A transport that answers from a table; anything else is unavailable."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table

    async def raw(self, method: str, path: str, *, headers: Mapping[str, str] | None = None) -> bytes:
        if path not in self.table:
            raise KubeUnavailable(f"{method} {path}")
        return json.dumps(self.table[path]).encode()


async def test_a_scan_of_an_older_server() -> None:
    """D1, D3: one document per group version; a failing one is marked, the others count."""
    group = {
        "name": "lab.test",
        "preferredVersion": {"version": "v1"},
        "versions": [{"version": "v1"}, {"version": "v1beta1"}],
    }
    entry = {"name": "gizmos", "namespaced": True, "kind": "Gizmo", "verbs": list(VERBS)}
    core = {"name": "configmaps", "namespaced": True, "kind": "ConfigMap", "verbs": list(VERBS)}
    table = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": [group]},
        "/api/v1": {"resources": [core]},
        "/apis/lab.test/v1": {"resources": [entry]},
    }
    found = await scan(Documents(table))
    assert [(r.group, r.version, r.resource, r.preferred) for r in found.resources] == [
        ("", "v1", "configmaps", True),
        ("lab.test", "v1", "gizmos", True),
    ]
    assert found.failed == {("lab.test", "v1beta1")}
    with pytest.raises(KubeUnavailable):
        await scan(Documents({"/api": table["/api"]}))


@needs.material(RECORDINGS)
async def test_recorded_discovery_reads_alike_in_both_forms() -> None:
    """Aggregated and legacy documents of one real server give the same core types."""
    recorded = json.loads((RECORDINGS / "s01-discovery.json").read_text())["requests"]
    bodies: dict[tuple[str, bool], Any] = {
        (request["path"], "accept" in request): request["response"]["body"] for request in recorded
    }
    modern = parse_aggregated(bodies["/api", True])
    legacy = set(parse_legacy(bodies["/api/v1", False], ("", "v1"), True))
    assert set(modern.resources) == legacy
    registry = judge(Registry(), modern, 0.0)
    assert "configmaps" in names(registry)
    assert "pods" not in names(registry)


@pytest.mark.parametrize(
    ("resource", "summary"),
    [
        (CM, "followable"),
        (POD, "not followable — excluded by GitOps Reverser default watch policy"),
        (served("jobs", "Job", "batch"), "followable"),
        (served("cronjobs", "CronJob", "batch"), "followable"),
        (served("secrets", "Secret"), "followable"),
        (served("x", "X", verbs=("get",)), "not followable — missing required verb: list, watch"),
        (served("x", "X", namespaced=None), "not followable — scope unknown"),
        (served("x", "X", "a.io", subresources=("scale",)), "followable"),
        (served("x", "X", subresource_only=True), "not followable — served only as a subresource"),
    ],
)
def test_verdicts_of_single_types(resource: Resource, summary: str) -> None:
    """T1, T6, T7, C28: the checks in order; a scale subresource refuses nothing."""
    (record,) = judge(Registry(), facts(resource), 0.0).records.values()
    assert record.summary == summary


def test_identity_must_be_one_to_one() -> None:
    """A6: two resources of one kind, or two kinds of one resource, refuse each other."""
    twins = judge(Registry(), facts(served("a", "X"), served("b", "X")), 0.0)
    assert {record.summary for record in twins.records.values()} == {
        "not followable — GVK served by more than one resource: a, b"
    }
    double = judge(Registry(), facts(served("a", "X"), served("a", "Y")), 0.0)
    assert {record.summary for record in double.records.values()} == {
        "not followable — resource resolves to more than one kind: X, Y"
    }


STEP = tuple[float, Scan]
GONE = facts(CM, scanned=(("lab.test", "v1"),))
FAILING = facts(CM, failed=(("lab.test", "v1"),))
BACK = facts(CM, GIZ)


@pytest.mark.parametrize(
    ("steps", "live"),
    [
        ([(0, GONE), (30, GONE), (45, BACK), (90, BACK)], True),
        ([(0, GONE), (30, GONE), (59, GONE)], True),
        ([(0, GONE), (30, GONE), (61, GONE)], False),
        ([(0, GONE), (20, FAILING), (70, FAILING)], False),
        ([(0, FAILING), (600, FAILING)], True),
        ([(0, FAILING), (600, FAILING), (601, GONE)], True),
        ([(0, GONE), (30, BACK), (40, GONE), (99, GONE)], True),
        ([(0, facts(CM)), (61, facts(CM))], False),
        ([(0, facts(CM, failed=(("other", "v1"),))), (61, facts(CM, failed=(("other", "v1"),)))], True),
        ([(0, Scan((), frozenset(), frozenset())), (99, Scan((), frozenset(), frozenset()))], True),
    ],
)
def test_grace(steps: list[STEP], live: bool) -> None:
    """A2 to A4, C18: a missing type leaves 60 s after it was first missed; a failure neither starts nor
    stops that.
    """
    registry = judge(Registry(), BACK, -30.0)
    for at, found in steps:
        registry = judge(registry, found, at)
    assert ("lab.test/gizmos" in names(registry)) is live
    assert "configmaps" in names(registry)


def test_refused_types_leave_at_once() -> None:
    """T3: grace protects live types only."""
    registry = judge(judge(Registry(), facts(CM, POD), 0.0), facts(CM), 1.0)
    assert [record.group_resource for record in registry.records.values()] == ["configmaps"]


def test_the_revision_moves_with_facts_only() -> None:
    """D6: time alone is no change; a removal is one even though no fact came with it."""
    first = judge(Registry(), BACK, 0.0)
    assert judge(first, BACK, 30.0).revision == first.revision
    missed = judge(first, GONE, 100.0)
    removed = judge(missed, GONE, 161.0)
    assert first.revision < missed.revision < removed.revision


WORLD = judge(
    Registry(),
    facts(
        CM,
        DEP,
        POD,
        served("nodes", "Node", namespaced=False),
        served("widgets", "Widget", "a.io"),
        served("widgets", "Widget", "a.io", "v1beta1", preferred=False),
        served("widgets", "Widget", "b.io"),
    ),
    0.0,
)


def rule(*, cluster: bool = False, **fields: Any) -> WatchRule:
    entry = Rule(**{"resources": (), **fields})
    return WatchRule(Meta("team-a", "r", "u"), cluster, "team-a", "gt", (entry,))


def claims(found: WatchRule) -> list[str]:
    return sorted(
        f"{claim.record.type.api_version} {claim.record.type.resource} {claim.namespace or '*'}"
        for claim in resolve(found, WORLD).claims
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"resources": ("configmaps",)}, ["v1 configmaps team-a"]),
        ({"resources": ("Deployments",)}, ["apps/v1 deployments team-a"]),
        ({"resources": (" configmaps ",)}, ["v1 configmaps team-a"]),
        ({"resources": ("widgets",)}, []),
        ({"resources": ("widgets",), "api_groups": ("a.io",)}, ["a.io/v1 widgets team-a"]),
        (
            {"resources": ("widgets",), "api_groups": ("a.io",), "api_versions": ("*",)},
            ["a.io/v1 widgets team-a", "a.io/v1beta1 widgets team-a"],
        ),
        (
            {"resources": ("widgets",), "api_groups": ("a.io",), "api_versions": ("v1beta1",)},
            ["a.io/v1beta1 widgets team-a"],
        ),
        ({"resources": ("widgets",), "api_versions": ("v1beta1",)}, ["a.io/v1beta1 widgets team-a"]),
        (
            {"resources": ("widgets",), "api_groups": ("*",)},
            ["a.io/v1 widgets team-a", "b.io/v1 widgets team-a"],
        ),
        (
            {"resources": ("*",)},
            [
                "a.io/v1 widgets team-a",
                "apps/v1 deployments team-a",
                "b.io/v1 widgets team-a",
                "v1 configmaps team-a",
            ],
        ),
        ({"resources": ("*",), "api_groups": ("",)}, ["v1 configmaps team-a"]),
        ({"resources": ("pods",)}, []),
        ({"resources": ("nodes",)}, []),
        ({"resources": ("pod*",)}, []),
        ({"resources": ("configmaps",), "api_groups": ("Apps",)}, []),
        ({"cluster": True, "resources": ("configmaps",), "api_groups": ("",)}, ["v1 configmaps *"]),
        ({"cluster": True, "resources": ("nodes",), "scope": "Cluster"}, ["v1 nodes *"]),
        ({"cluster": True, "resources": ("configmaps",), "scope": "Cluster"}, []),
        ({"cluster": True, "resources": ("nodes",), "scope": "Namespaced"}, []),
    ],
)
def test_rules_to_claims(fields: dict[str, Any], expected: list[str]) -> None:
    """C01, C03, C05, C06, C08 and every row of wildcards and ambiguity."""
    assert claims(rule(**fields)) == expected


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("", "pods"),
        ("", "events"),
        ("", "endpoints"),
        ("events.k8s.io", "events"),
        ("discovery.k8s.io", "endpointslices"),
        ("coordination.k8s.io", "leases"),
        ("apps", "controllerrevisions"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ],
)
def test_runtime_types_are_not_followed_by_a_rule_for_everything(group: str, resource: str) -> None:
    """Pain 50: each type of the list is left out, in any version and by whichever rule."""
    world = judge(Registry(), facts(CM, served(resource, "Thing", group, "v9")), 0.0)
    everything = resolve(rule(resources=("*", resource), api_groups=("*",)), world)
    assert [claim.record.type.resource for claim in everything.claims] == ["configmaps"]
    page = (Path(__file__).parents[2] / "docs" / "sanitizing.md").read_text().lower().replace("\n", " ")
    assert re.search(rf"types that no rule can follow:[^.]*\b{resource}\b", page)


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        ({"resources": ("widgets",)}, "Ambiguous", "a.io, b.io"),
        ({"resources": ("pods",)}, "Denied", "default watch policy"),
        ({"resources": ("nodes",)}, "ScopeMismatch", "ClusterWatchRule"),
        ({"resources": ("nosuch",)}, "NotServed", "nosuch"),
        ({"resources": ("ConfigMap",)}, "NotServed", "configmap; did you mean configmaps?"),
        ({"resources": ("deployments.apps",)}, "NotServed", "did you mean deployments?"),
        ({"resources": ("Widget",)}, "NotServed", "did you mean widgets?"),
        ({"resources": ("confgmaps",)}, "NotServed", "named confgmaps; did you mean configmaps?"),
        ({"resources": ("configmaps",), "api_groups": ("core",)}, "GroupMismatch", 'core (written "")'),
        ({"resources": ("configmaps",), "api_versions": ("v2",)}, "VersionMismatch", "v1"),
        ({"cluster": True, "resources": ("configmaps",), "scope": "Cluster"}, "ScopeMismatch", "Namespaced"),
    ],
)
def test_misses_are_explained(fields: dict[str, Any], reason: str, words: str) -> None:
    """B16: each selector that matches nothing says why, in words that name the remedy."""
    (explanation,) = resolve(rule(**fields), WORLD).explanations
    assert explanation.reason == reason
    assert words in explanation.message


def test_explanations_are_bounded() -> None:
    """B16: at most five."""
    found = resolve(rule(resources=tuple(f"no{i}" for i in range(9))), WORLD)
    assert len(found.explanations) == 5
    assert found.unexplained == 4
    assert found.types == 0


def test_version_priority() -> None:
    """B14: v10 > v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > others in order of name."""
    versions = ["v1beta1", "foo10", "v1", "v10", "v1alpha1", "v2", "v1beta2", "foo1"]
    expected = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]
    assert sorted(versions, key=version_priority, reverse=True) == expected


def test_one_writing_shard_per_type() -> None:
    """B4, R7: the preferred version writes, others are covered; operations of named namespaces stay
    visible.
    """
    found = [
        *resolve(rule(resources=("widgets",), api_groups=("a.io",), api_versions=("*",)), WORLD).claims,
        *resolve(rule(resources=("configmaps",), operations=frozenset({"CREATE"})), WORLD).claims,
        *resolve(
            rule(cluster=True, resources=("configmaps",), operations=frozenset({"UPDATE"})), WORLD
        ).claims,
    ]
    table = build_table("u", found, frozenset({"secrets", "a.io/widgets"}))
    assert [(s.scope, s.type.version, s.sensitive) for s in table.shards] == [
        (Scope("u", "a.io/widgets", "team-a"), "v1", True),
        (Scope("u", "configmaps", None), "v1", False),
    ]
    assert [kind.version for kind in table.covered] == ["v1beta1"]
    shard = table.shards[1]
    assert shard.operations_for("team-a") == {Operation.CREATE, Operation.UPDATE}
    assert shard.operations_for("other") == {Operation.UPDATE}
    assert table.types == 2
    assert build_table("u", (), frozenset()).shards == ()


def test_operations() -> None:
    """R: none given or a star means all."""
    for given in (frozenset(), frozenset({"*", "CREATE"})):
        (claim,) = resolve(rule(resources=("configmaps",), operations=given), WORLD).claims
        assert claim.operations == ALL_OPERATIONS


def test_a_version_that_blinks_is_not_left_for_another() -> None:
    """A2, C13: while a watched version is missing the watch waits for it, though another one is served and
    preferred meanwhile; after its grace, and for a watch that is new, what is served is taken.
    """
    preferred = served("gizmos", "Gizmo", "lab.test", "v1")
    two = served("gizmos", "Gizmo", "lab.test", "v2", preferred=False)
    both = judge(Registry(), facts(preferred, two), 0.0)
    blink = judge(both, facts(replace(two, preferred=True), scanned=(("lab.test", "v1"),)), 30.0)
    over = judge(blink, facts(replace(two, preferred=True), scanned=(("lab.test", "v1"),)), 91.0)
    back = judge(blink, facts(preferred, scanned=(("lab.test", "v2"),)), 60.0)

    def chosen(registry: Registry, watched: str = "") -> str:
        running = {"lab.test/gizmos": watched} if watched else {}
        (record,) = best_versions(registry.versions("lab.test", "gizmos"), running)
        return record.resource.version

    assert chosen(both, "v1") == "v1"
    assert chosen(blink, "v1") == "v1"
    assert chosen(blink) == "v2"
    assert chosen(over, "v1") == "v2"
    assert chosen(back, "v1") == "v1"
    assert chosen(back) == "v1"
