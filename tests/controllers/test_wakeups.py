"""What wakes what (sheet 7), and what makes an Event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.controllers.conditions import Plan, blocked, condition, done, new_status, progressing
from reverser.controllers.events import transitions
from reverser.controllers.wakeups import hinted, wake_ups
from reverser.controllers.world import CLUSTER_RULES, PROVIDERS, REQUESTS, RESOURCES, RULES, TARGETS, World
from reverser.store.model import BranchKey
from tests.controllers.cluster import ListedCache


def obj(name: str, spec: dict[str, Any], namespace: str = "shop", generation: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    return {"metadata": {**metadata, **({"namespace": namespace} if namespace else {})}, "spec": spec}


PROVIDER = obj("gp", {"url": "file:///r", "allowedBranches": ["main"]})
TARGET = obj("gt", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"})
OTHER = obj("other", {"providerRef": {"name": "x"}, "branch": "main", "path": "p"})
RULE = obj("wr", {"targetRef": {"name": "gt"}, "rules": [{"resources": ["configmaps"]}]})
CLUSTER_RULE = obj("cwr", {"targetRef": {"name": "gt", "namespace": "shop"}, "rules": []}, namespace="")
REQUEST = obj("save", {"targetRef": {"name": "gt"}})


@pytest.fixture
def world() -> World:
    caches = {resource: ListedCache() for resource in RESOURCES}
    caches[PROVIDERS].found = [PROVIDER]
    caches[TARGETS].found = [TARGET, OTHER]
    caches[RULES].found = [RULE]
    caches[CLUSTER_RULES].found = [CLUSTER_RULE]
    caches[REQUESTS].found = [REQUEST]
    return World(None, caches)  # type: ignore[arg-type]


RULE_KEYS = {(RULES, "shop/wr"), (CLUSTER_RULES, "cwr")}


def test_a_provider_wakes_its_targets_and_their_rules(world: World) -> None:
    """Create, delete and spec changes; a status write wakes nobody (W1)."""
    everything = {(PROVIDERS, "shop/gp"), (TARGETS, "shop/gt"), (TARGETS, "shop/other"), *RULE_KEYS}
    assert wake_ups(PROVIDERS, None, PROVIDER, world) == everything
    assert wake_ups(PROVIDERS, PROVIDER, None, world) == everything
    assert wake_ups(PROVIDERS, PROVIDER, {**PROVIDER, "status": {"x": 1}}, world) == set()


def test_a_target_wakes_rules_and_requests(world: World) -> None:
    """Spec changes; readiness changes (I10) but no other status change; deletion wakes the losers (B08)."""
    dependants = {*RULE_KEYS, (REQUESTS, "shop/save")}
    newer = obj("gt", TARGET["spec"], generation=2)
    assert wake_ups(TARGETS, TARGET, newer, world) == {(TARGETS, "shop/gt"), *dependants}
    ready = {**TARGET, "status": new_status({}, Plan(done("OK", "")), generation=1, now="t")}
    assert wake_ups(TARGETS, TARGET, ready, world) == dependants
    clock = {**ready, "status": {**ready["status"], "lastReconcileTime": "t2"}}
    assert wake_ups(TARGETS, ready, clock, world) == set()
    noted = {**TARGET, "metadata": {**TARGET["metadata"], "annotations": {"a": "b"}}}
    assert wake_ups(TARGETS, TARGET, noted, world) == {(TARGETS, "shop/gt")}
    assert (TARGETS, "shop/other") in wake_ups(TARGETS, TARGET, None, world)


def test_a_rule_wakes_its_old_and_its_new_target(world: World) -> None:
    """A rule that names another target concerns both."""
    moved = obj("wr", {"targetRef": {"name": "other"}}, generation=2)
    assert wake_ups(RULES, RULE, moved, world) == {
        (RULES, "shop/wr"),
        (TARGETS, "shop/gt"),
        (TARGETS, "shop/other"),
    }


def test_hints_of_the_store(world: World) -> None:
    """Shards, pushes and outcomes wake those that show them."""
    mine = {(TARGETS, "shop/gt"), *RULE_KEYS}
    assert hinted("target:uid-gt", world) == mine
    assert hinted(f"branch:{BranchKey('shop', 'gp', 'main').id}", world) == mine
    assert hinted("request:uid-save", world) == {(REQUESTS, "shop/save")}
    assert hinted("gate", world) == set()


def said(*steps: tuple[Any, ...]) -> list[list[tuple[str, bool]]]:
    """The Events of each step of a history of condition sets."""
    before: list[dict[str, Any]] = []
    out = []
    for step in steps:
        status = new_status({"conditions": before}, Plan(step), generation=1, now="t")
        after = status["conditions"] if status is not None else before
        out.append([(h.reason, h.warning) for h in transitions(before, after)])
        before = after
    return out


def test_events_tell_transitions_once() -> None:
    """I24: Ready and Stalled, each once; a lasting state is silent."""
    assert said(
        progressing("Checking", ""),
        blocked("SecretNotFound", ""),
        blocked("SecretNotFound", "other words"),
        blocked("SecretMalformed", ""),
        done("Ready", ""),
        done("Ready", ""),
        progressing("Replaying", ""),
        done("Ready", ""),
    ) == [
        [],
        [("SecretNotFound", True)],
        [],
        [("SecretMalformed", True)],
        [("Ready", False)],
        [],
        [("Replaying", False)],
        [("Ready", False)],
    ]


def test_leaving_a_block_is_told_before_ready() -> None:
    """I24: Stalled turning False is a transition of its own while Ready is still to come."""
    assert said(
        blocked("ValidationFailed", ""),
        progressing("Replaying", "", ready_reason="Progressing"),
        done("OK", ""),
        blocked("WatchError", ""),
        done("OK", ""),
    ) == [
        [("ValidationFailed", True)],
        [("Replaying", False)],
        [("OK", False)],
        [("WatchError", True)],
        [("OK", False)],
    ]


@given(st.lists(st.sampled_from(["done", "progressing", "blocked"]), min_size=2, max_size=8))
def test_every_transition_of_ready_and_stalled_makes_one_event(shapes: list[str]) -> None:
    """I24: whatever the history, a change of Ready or Stalled is exactly one Event, all else is silent."""
    trio = {"done": done("OK", ""), "progressing": progressing("P", ""), "blocked": blocked("B", "")}
    steps = said(*(trio[shape] for shape in shapes))
    for before, after, events in zip(shapes, shapes[1:], steps[1:], strict=False):
        assert len(events) == int(before != after)


def test_the_event_of_a_closed_gate_says_why() -> None:
    """An Event is read alone: it holds the words of the gate that is closed."""
    closed = (
        *blocked("ValidationFailed", "Validated gate failed: BranchNotAllowed"),
        condition("Validated", "False", "BranchNotAllowed", "branch 'dev' matches none; add a pattern"),
    )
    (told,) = transitions([], new_status({}, Plan(closed), generation=1, now="t")["conditions"])  # type: ignore[index]
    assert told.message == "Validated gate failed: BranchNotAllowed: branch 'dev' matches none; add a pattern"


def test_push_failures_make_events() -> None:
    """B20: failing and recovering are told; nothing pushed yet is not."""

    def push(status: str, reason: str) -> tuple[Any, ...]:
        return (*done("OK", ""), condition("PushSucceeding", status, reason))

    assert said(push("Unknown", "NotPushed"), push("False", "PushRejected"), push("True", "OK")) == [
        [("OK", False)],
        [("PushRejected", True)],
        [("OK", False)],
    ]
