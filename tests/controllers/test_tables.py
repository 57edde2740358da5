"""The rows of the condition tables that no other test goes through one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reverser.controllers.conditions import SECRET_BLOCKED, SECRET_STEADY, SETTLE, STEADY
from reverser.controllers.decide_provider import CONNECTION_RETRY, ProviderFindings, Step, decide_provider
from reverser.controllers.decide_request import Waiting, decide_request
from reverser.controllers.decide_rule import BLOCKING_REASONS, decide_rule
from reverser.controllers.decide_target import NOT_REQUIRED, Finding, Observed, decide_target, validate
from reverser.controllers.wakeups import wake_ups
from reverser.controllers.world import CLUSTER_RULES, REQUESTS, RULES, TARGETS, World
from reverser.kinds.model import CommitSettings, Encryption
from reverser.store.model import OutcomeKind, PathVerdict
from tests.controllers import test_wakeups
from tests.controllers.builders import NOW, outcome, provider, request, rule, target
from tests.controllers.test_decide import FOUND, RUNNING, ready_target, row

OK = Finding("True", "OK")
SHADOWS = "IgnoreShadowsManagedPath"
TRIO = ("Ready", "Reconciling", "Stalled")
SECRET = {"secret_name": "cred"}
SIGNED = {"commit": CommitSettings(signing_configured=True, signing_secret="sig")}

world = test_wakeups.world


@pytest.mark.parametrize(
    ("step", "reason", "more", "requeue"),
    [
        (Step.CONFIG, "CommitConfigInvalid", {}, STEADY),
        (Step.CONFIG, "InvalidConfig", {}, STEADY),
        (Step.SIGNING, "SecretNotFound", SIGNED, SECRET_BLOCKED),
        (Step.SIGNING, "SecretMalformed", SIGNED, SECRET_BLOCKED),
        (Step.CREDENTIALS, "SecretNotFound", SECRET, SECRET_BLOCKED),
        (Step.CREDENTIALS, "SecretMalformed", SECRET, SECRET_BLOCKED),
        (Step.CREDENTIALS, "SecretForbidden", SECRET, SECRET_BLOCKED),
        (Step.CONNECTION, "ConnectionFailed", SECRET, SECRET_BLOCKED),
        (Step.CONNECTION, "ConnectionFailed", {}, CONNECTION_RETRY),
    ],
)
def test_a_provider_that_fails(step: Step, reason: str, more: dict[str, Any], requeue: float) -> None:
    """Sheet 3.1, S6, P1: each step's reason on all three, the block said in Reconciling, the next look."""
    plan = decide_provider(provider(**more), ProviderFindings(step, reason, "why"))
    assert row(plan, *TRIO) == {
        "Ready": f"False/{reason}",
        "Reconciling": f"False/{reason}",
        "Stalled": f"True/{reason}",
    }
    assert "stalled" in plan.condition("Reconciling").message
    assert plan.requeue == requeue


@pytest.mark.parametrize(
    ("more", "requeue"), [({}, STEADY), (SECRET, SECRET_STEADY), (SIGNED, SECRET_STEADY)]
)
def test_a_provider_that_works(more: dict[str, Any], requeue: float) -> None:
    """S10: a Secret in use is read every 30 s, all else every 5 min."""
    assert decide_provider(provider(**more), ProviderFindings()).requeue == requeue


AGE = Encryption(enabled=True, secret_name="age", extract_from_secret=True)


@pytest.mark.parametrize(
    ("validated", "encryption", "worker_error", "ready", "message", "requeue"),
    [
        *(
            (Finding("False", reason), None, "", "ValidationFailed",
             f"Validated gate failed: {reason}", STEADY)
            for reason in ("ProviderNotFound", "BranchNotAllowed", "TargetConflict", "InvalidConfig")
        ),
        *(
            (OK, Finding("False", reason), "", "EncryptionNotConfigured",
             f"EncryptionConfigured gate failed: {reason}", SECRET_BLOCKED)
            for reason in ("MissingSecret", "InvalidConfig")
        ),
        (OK, NOT_REQUIRED, "no Redis", "WorkerUnavailable",
         "branch journal of GitTarget 'shop/gt' is not available: no Redis", SETTLE),
    ],
)  # fmt: skip
def test_a_closed_gate(
    *,
    validated: Finding,
    encryption: Finding | None,
    worker_error: str,
    ready: str,
    message: str,
    requeue: float,
) -> None:
    """T2 to T5: each gate's reason, the words of the trio, Unknown behind it, no old counts (I18)."""
    plan = decide_target(
        target(encryption=AGE),
        validated=validated,
        encryption=encryption,
        worker_error=worker_error,
        observed=Observed(streams=RUNNING),
        now=NOW,
    )
    assert row(plan, *TRIO) == {
        "Ready": f"False/{ready}",
        "Reconciling": f"False/{ready}",
        "Stalled": f"True/{ready}",
    }
    assert plan.condition("Ready").message == message
    assert row(plan, "StreamsRunning", "GitPathAccepted") == {
        "StreamsRunning": "Unknown/NotReady",
        "GitPathAccepted": "Unknown/NotChecked",
    }
    assert "streams" not in plan.fields
    assert plan.requeue == requeue


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (None, "True/GitPathAccepted"),
        (PathVerdict(True), "True/GitPathAccepted"),
        (
            PathVerdict(False, "IgnoreShadowsManagedPath", (".gitignore: x",), 1),
            "False/IgnoreShadowsManagedPath",
        ),
        (PathVerdict(False, "UnsupportedContent", ("a: b",), 1), "False/UnsupportedContent"),
        (PathVerdict(False, "SomethingNew", ("a: b",), 1), "False/UnsupportedContent"),
    ],
)
def test_path_acceptance(verdict: PathVerdict | None, shown: str) -> None:
    """T14, T16: not scanned yet is accepted; streams are judged alone."""
    seen = Observed(streams=RUNNING, path=verdict)
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, observed=seen, now=NOW)
    assert row(plan, "GitPathAccepted", "StreamsRunning") == {
        "GitPathAccepted": shown,
        "StreamsRunning": "True/AllStreamsReady",
    }


@pytest.mark.parametrize("reason", sorted(BLOCKING_REASONS))
def test_a_blocking_reason_of_the_target_blocks_its_rules(reason: str) -> None:
    """R6: one by one; the message is the target's own (R3)."""
    plan = decide_rule(
        rule(),
        ready_target("True", reason, "Stalled"),
        provider(),
        resolution=FOUND,
        streams=RUNNING,
        now=NOW,
    )
    assert row(plan, *TRIO) == {
        "Ready": f"False/{reason}",
        "Reconciling": f"False/{reason}",
        "Stalled": f"True/{reason}",
    }
    assert plan.condition("GitTargetReady").message == "words"
    assert row(plan, "StreamsRunning") == {"StreamsRunning": "True/AllStreamsReady"}


@pytest.mark.parametrize(
    ("cluster", "namespace", "name", "words"),
    [
        (False, "shop", "", "spec.targetRef must name a GitTarget"),
        (True, "", "gt", "and its namespace"),
        (True, "shop", "", "and its namespace"),
    ],
)
def test_a_rule_without_a_destination(*, cluster: bool, namespace: str, name: str, words: str) -> None:
    """R1: the reason on GitTargetReady and on the trio, everything else Unknown/NotReady."""
    blind = rule(cluster=cluster, target_namespace=namespace, target_name=name)
    plan = decide_rule(blind, None, None, resolution=FOUND, now=NOW)
    assert row(plan, "Stalled", "GitTargetReady", "ResourcesResolved", "StreamsRunning") == {
        "Stalled": "True/GitDestinationInvalid",
        "GitTargetReady": "False/GitDestinationInvalid",
        "ResourcesResolved": "Unknown/NotReady",
        "StreamsRunning": "Unknown/NotReady",
    }
    assert words in plan.condition("Ready").message


@pytest.mark.parametrize("kind", list(OutcomeKind))
def test_every_outcome_ends_a_request(kind: OutcomeKind) -> None:
    """Q12, Q13, N4: whatever a writer may settle ends in Ready or Stalled; a sha only after a push."""
    plan = decide_request(request(), outcome(kind, commit="c0ffee"), submitter=None)
    assert plan is not None
    assert "True" in (plan.condition("Ready").status, plan.condition("Stalled").status)
    assert (
        ("sha" in plan.fields) is (plan.condition("Pushed").status == "True") is (kind is OutcomeKind.PUSHED)
    )
    empty = decide_request(request(), outcome(kind, commit=""), submitter=None)
    assert empty is not None
    assert "sha" not in empty.fields
    assert empty.condition("Pushed").status == "False"


@pytest.mark.parametrize(("waited", "stalled"), [(0.0, "False"), (420.0, "False"), (420.1, "True")])
def test_the_bound_of_a_request(waited: float, stalled: str) -> None:
    """Q7: 420 s."""
    plan = decide_request(request(), None, submitter=None, waiting=Waiting(waited))
    assert plan is not None
    assert plan.condition("Stalled").status == stalled


def test_order_of_validation() -> None:
    """Sheet 4.1 with I1: path and branch name, provider, allowed branch, conflict, placement, the rest."""
    worst = target(path="/abs", branch="--x", problems=("spec.odd: x",))
    assert "spec.path" in validate(worst, None, placement_error="bad").message
    worst = replace(worst, path="live")
    assert "spec.branch" in validate(worst, None, placement_error="bad").message
    worst = replace(worst, branch="qa")
    assert validate(worst, None, placement_error="bad").reason == "ProviderNotFound"
    assert validate(worst, provider(), placement_error="bad").reason == "BranchNotAllowed"
    worst = replace(worst, branch="main")
    assert validate(worst, provider(), placement_error="bad").message == "bad"
    assert validate(worst, provider()).message == "spec.odd: x"
    assert validate(replace(worst, problems=()), provider()).ok


def test_what_wakes_rules_and_requests(world: World) -> None:
    """Sheet 7: create, spec change and delete of a rule wake it and its target; a request wakes itself."""
    for resource, obj, key in (
        (RULES, test_wakeups.RULE, "shop/wr"),
        (CLUSTER_RULES, test_wakeups.CLUSTER_RULE, "cwr"),
    ):
        found = {(resource, key), (TARGETS, "shop/gt")}
        newer = {**obj, "metadata": {**obj["metadata"], "generation": 2}}
        assert wake_ups(resource, None, obj, world) == found
        assert wake_ups(resource, obj, newer, world) == found
        assert wake_ups(resource, obj, None, world) == found
        assert wake_ups(resource, obj, {**obj, "status": {"x": 1}}, world) == set()
    save = test_wakeups.REQUEST
    assert wake_ups(REQUESTS, None, save, world) == {(REQUESTS, "shop/save")}
    assert wake_ups(REQUESTS, save, None, world) == {(REQUESTS, "shop/save")}
    assert wake_ups(REQUESTS, save, {**save, "status": {"x": 1}}, world) == set()
