"""A rule explains itself: which selectors match nothing, why, and what cannot be told at the moment."""

from __future__ import annotations

from typing import Any

import pytest

from reverser.controllers.conditions import MESSAGE_LIMIT, STEADY
from reverser.controllers.decide_rule import decide_rule
from reverser.controllers.reconcile_rule import resolution_of
from reverser.controllers.streams import roll_up
from reverser.kinds.parse import parse_watch_rule
from reverser.store.model import StreamState
from tests.controllers.builders import NOW, provider, record
from tests.controllers.test_decide import ready_target
from watchers.discovery import Resource, Scan
from watchers.registry import Registry, judge

ALL = ("get", "list", "watch")


def registry(*failed: tuple[str, str]) -> Registry:
    """A small API surface: one type of each sort."""
    types = [
        Resource("", "v1", "configmaps", "ConfigMap", True, verbs=ALL, preferred=True),
        Resource("", "v1", "pods", "Pod", True, verbs=ALL, preferred=True),
        Resource("", "v1", "nodes", "Node", False, verbs=ALL, preferred=True),
        Resource("a.io", "v1", "widgets", "Widget", True, verbs=ALL, preferred=True),
        Resource("b.io", "v1", "widgets", "Widget", True, verbs=ALL, preferred=True),
        Resource("c.io", "v1", "readonly", "ReadOnly", True, verbs=("get", "list"), preferred=True),
    ]
    pairs = frozenset(r.group_version for r in types)
    return judge(Registry(), Scan(tuple(types), pairs, frozenset(failed)), 0.0)


def message(*rules: dict[str, Any], surface: Registry | None = None, cluster: bool = False) -> str:
    """What ``ResourcesResolved`` says."""
    kind = "ClusterWatchRule" if cluster else "WatchRule"
    meta = {"name": "wr", "uid": "u", **({} if cluster else {"namespace": "shop"})}
    target = {"name": "gt", "namespace": "shop"} if cluster else {"name": "gt"}
    rule = parse_watch_rule(
        {"kind": kind, "metadata": meta, "spec": {"targetRef": target, "rules": [*rules]}}
    )
    found = resolution_of(rule, surface or registry())
    plan = decide_rule(rule, ready_target(), provider(), resolution=found, now=NOW)
    assert plan.condition("ResourcesResolved").status == "True"
    return plan.condition("ResourcesResolved").message


@pytest.mark.parametrize(
    ("entry", "cluster", "words"),
    [
        ({"resources": ["gizmos"]}, False, ["gizmos", "serves no resource"]),
        ({"resources": ["pods"]}, False, ["pods", "policy"]),
        ({"resources": ["widgets"]}, False, ["widgets", "several groups (a.io, b.io)", "apiGroups"]),
        ({"resources": ["readonly"]}, False, ["readonly", "missing required verb: watch"]),
        ({"resources": ["nodes"]}, False, ["nodes is cluster-scoped", "ClusterWatchRule"]),
        ({"resources": ["configmaps"], "scope": "Cluster"}, True, ["configmaps is namespaced", "WatchRule"]),
        ({"resources": ["widgets"], "apiGroups": ["x.io"]}, False, ["widgets is served by a.io, b.io"]),
        ({"resources": ["configmaps"], "apiVersions": ["v9"]}, False, ["configmaps is served as v1"]),
    ],
)
def test_each_miss_is_explained(entry: dict[str, Any], cluster: bool, words: list[str]) -> None:
    """I14, B16: not served, denied, ambiguous, missing verb, another scope, group or version."""
    text = message(entry, cluster=cluster)
    assert text.startswith("watching 0 resource type(s)")
    for word in words:
        assert word in text


def test_a_type_that_may_not_be_watched_is_explained() -> None:
    """I6, I14: permission is told by the stream, with the name of the type."""
    denied = record(
        "widgets", StreamState.BLOCKED, group="a.io", reason="WatchNotPermitted", message="no list"
    )
    spec = {"targetRef": {"name": "gt"}, "rules": [{"resources": ["widgets"], "apiGroups": ["a.io"]}]}
    rule = parse_watch_rule({"kind": "WatchRule", "metadata": {"namespace": "shop"}, "spec": spec})
    found = resolution_of(rule, registry())
    assert found is not None
    plan = decide_rule(
        rule, ready_target(), provider(), resolution=found, streams=roll_up([denied], found.claims), now=NOW
    )
    assert plan.condition("Stalled").reason == "WatchNotPermitted"
    assert "1 blocked (widgets.a.io): no" in plan.condition("Stalled").message


def test_many_misses_are_counted() -> None:
    """Bounded: five in full, the rest by number, and never more than a message holds."""
    text = message({"resources": [f"no{'x' * 200}{number}" for number in range(9)]})
    assert text.count("serves no resource") <= 5
    assert len(text) <= MESSAGE_LIMIT
    assert "and 4 more selector(s)" in message({"resources": [f"no{number}" for number in range(9)]})


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"resources": ["*"]}, True),
        ({"resources": ["*"], "apiGroups": ["*"]}, True),
        ({"resources": ["*"], "apiGroups": [""]}, False),
        ({"resources": ["anything"], "apiGroups": ["broken.test"]}, True),
        ({"resources": ["unknown"]}, True),
        ({"resources": ["configmaps"]}, False),
        ({"resources": ["configmaps"], "apiGroups": ["*"]}, False),
    ],
)
def test_a_group_that_cannot_be_discovered_is_named(entry: dict[str, Any], told: bool) -> None:
    """C15, 70: the rule that may want its types says so; others are not bothered."""
    text = message(entry, surface=registry(("broken.test", "v1alpha1")))
    assert ("discovery of broken.test/v1alpha1 fails" in text) is told


def test_many_failing_groups_are_counted() -> None:
    """The message names three failing group versions and counts the others."""
    failing = [(f"g{number}.test", "v1") for number in range(9)]
    assert "g0.test/v1, g1.test/v1, g2.test/v1 and 6 more fails" in message(
        {"resources": ["*"]}, surface=registry(*failing)
    )


def test_an_explained_rule_is_left_in_peace() -> None:
    """I14: after a minute without a match the looks become steady."""
    rule = parse_watch_rule(
        {"kind": "WatchRule", "metadata": {"namespace": "shop"}, "spec": {
            "targetRef": {"name": "gt"}, "rules": [{"resources": ["gizmos"]}]}}
    )  # fmt: skip
    found = resolution_of(rule, registry())
    plan = decide_rule(rule, ready_target(), provider(), resolution=found, age=61.0, now=NOW)
    assert plan.requeue == STEADY
    assert "gizmos" in plan.condition("Ready").message
