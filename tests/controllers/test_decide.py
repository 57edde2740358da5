"""Every row of the condition tables, decided from plain values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.manifests import Issue, IssueKind
from gitwriter.verdicts import refused_verdict
from reverser.controllers.conditions import SETTLE, STEADY, Plan
from reverser.controllers.decide_provider import ProviderFindings, Step, decide_provider
from reverser.controllers.decide_request import SAFETY_BOUND, Waiting, decide_request, is_terminal
from reverser.controllers.decide_rule import BLOCKING_REASONS, Resolution, decide_rule
from reverser.controllers.decide_target import (
    NOT_REQUIRED,
    UNREAD,
    Finding,
    Observed,
    decide_target,
    validate,
)
from reverser.controllers.streams import Claimed, Streams, roll_up
from reverser.kinds.model import CommitSettings, Condition, Submitter
from reverser.store.model import BranchHealth, OutcomeKind, PathVerdict, StreamState
from tests.controllers.builders import NOW, legal_shape, outcome, provider, record, request, rule, target

OK = Finding("True", "OK")
REPO = {("shop", "gp"): "file:///r"}


def row(plan: Plan, *kinds: str) -> dict[str, str]:
    return {kind: f"{plan.condition(kind).status}/{plan.condition(kind).reason}" for kind in kinds}


# GitProvider


def test_a_reachable_provider() -> None:
    """A01: the trio, its reason and its message."""
    plan = decide_provider(provider(), ProviderFindings())
    assert row(plan, "Ready", "Reconciling", "Stalled") == {
        "Ready": "True/Ready",
        "Reconciling": "False/Ready",
        "Stalled": "False/Ready",
    }
    assert plan.condition("Ready").message == "Repository connectivity validated for file:///r"
    assert plan.requeue == STEADY


@pytest.mark.parametrize(
    ("step", "shown"),
    [(Step.CONFIG, False), (Step.SIGNING, False), (Step.CREDENTIALS, True), (Step.CONNECTION, True)],
)
def test_the_public_key_is_shown_when_only_the_connection_fails(step: Step, shown: bool) -> None:
    """P3: cleared at steps 1 to 3, published at steps 4 to 6."""
    signed = provider(commit=CommitSettings(signing_configured=True, signing_secret="sig"))
    plan = decide_provider(signed, ProviderFindings(step, "ConnectionFailed", "why", "ssh-ed25519 AAAA"))
    assert ("signingPublicKey" in plan.fields) is shown
    assert plan.condition("Stalled").status == "True"
    unsigned = decide_provider(provider(), ProviderFindings(None, signing_public_key="ssh-ed25519 AAAA"))
    assert "signingPublicKey" not in unsigned.fields


def test_a_provider_that_is_being_checked() -> None:
    """P4: the progressing shape."""
    assert row(decide_provider(provider(), None), "Ready", "Reconciling") == {
        "Ready": "False/Checking",
        "Reconciling": "True/Checking",
    }


# GitTarget: gates


@pytest.mark.parametrize(
    ("changes", "has_provider", "reason", "words"),
    [
        ({}, False, "ProviderNotFound", ["'shop/gp'", "not found"]),
        ({"branch": "qa"}, True, "BranchNotAllowed", ["qa", "'main', 'env/*'", "'shop/gp'"]),
        ({"branch": "--mirror"}, True, "InvalidConfig", ["spec.branch"]),
        ({"branch": "a..b"}, True, "InvalidConfig", ["spec.branch"]),
        ({"path": "/abs"}, True, "InvalidConfig", ["spec.path", "/abs"]),
        ({"path": "../up"}, False, "InvalidConfig", ["spec.path"]),
        ({"path": "a\\b"}, True, "InvalidConfig", ["backslash"]),
        ({"problems": ("spec.prune.mode: 'x' is none of Always",)}, True, "InvalidConfig", ["prune.mode"]),
    ],
)
def test_validation(changes: dict[str, Any], has_provider: bool, reason: str, words: list[str]) -> None:
    """A10, B01, B03, B05: the reason, and a message that names object, field and remedy."""
    found = validate(target(**changes), provider() if has_provider else None)
    assert (found.status, found.reason) == ("False", reason)
    for word in words:
        assert word in found.message


def test_a_failed_validation_blocks_everything_behind_it() -> None:
    """B01: T2, with the exact message; lastPushTime goes when the branch is not allowed (B05)."""
    seen = Observed(last_push=NOW, streams=roll_up([record("configmaps", StreamState.STREAMING)]))
    missing = decide_target(
        target(), validated=validate(target(), None), encryption=None, observed=seen, now=NOW
    )
    assert row(missing, "EncryptionConfigured", "StreamsRunning", "GitPathAccepted", "Ready", "Stalled") == {
        "EncryptionConfigured": "Unknown/Blocked",
        "StreamsRunning": "Unknown/NotReady",
        "GitPathAccepted": "Unknown/NotChecked",
        "Ready": "False/ValidationFailed",
        "Stalled": "True/ValidationFailed",
    }
    assert missing.condition("Ready").message == "Validated gate failed: ProviderNotFound"
    assert missing.fields["lastPushTime"] == NOW
    assert "streams" not in missing.fields
    closed = target(branch="qa")
    narrowed = decide_target(
        closed, validated=validate(closed, provider()), encryption=None, observed=seen, now=NOW
    )
    assert "lastPushTime" not in narrowed.fields


def test_a_closed_encryption_gate() -> None:
    """B10: T3."""
    plan = decide_target(target(), validated=OK, encryption=Finding("False", "MissingSecret", "m"), now=NOW)
    assert row(plan, "EncryptionConfigured", "StreamsRunning", "GitPathAccepted", "Ready", "Stalled") == {
        "EncryptionConfigured": "False/MissingSecret",
        "StreamsRunning": "Unknown/NotReady",
        "GitPathAccepted": "Unknown/NotChecked",
        "Ready": "False/EncryptionNotConfigured",
        "Stalled": "True/EncryptionNotConfigured",
    }
    assert plan.condition("Ready").message == "EncryptionConfigured gate failed: MissingSecret"
    assert plan.requeue == 15


def test_a_branch_that_cannot_be_opened() -> None:
    """T4."""
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, worker_error="no Redis", now=NOW)
    assert row(plan, "Stalled", "StreamsRunning") == {
        "Stalled": "True/WorkerUnavailable",
        "StreamsRunning": "Unknown/NotReady",
    }
    assert "shop/gt" in plan.condition("Ready").message


RUNNING = roll_up([record("configmaps", StreamState.STREAMING)])
REPLAYING = roll_up([record("configmaps", StreamState.STREAMING), record("secrets", StreamState.REPLAYING)])
BLOCKED = roll_up([record("widgets", StreamState.BLOCKED, group="example.com", reason="WatchError")])
DENIED = roll_up([record("widgets", StreamState.BLOCKED, reason="WatchNotPermitted")])
FOREIGN, NO = "UnsupportedContent", "WatchNotPermitted"
FOUND = [Issue(IssueKind.FOREIGN_FILE, path, "not YAML") for path in ("live/deploy.sh", "live/x", "live/y")]
REFUSED = refused_verdict(FOUND, now_ms=0)


@pytest.mark.parametrize(
    ("streams", "path", "ready", "reconciling", "stalled", "requeue"),
    [
        (RUNNING, REFUSED, f"False/{FOREIGN}", f"False/{FOREIGN}", f"True/{FOREIGN}", SETTLE),
        (BLOCKED, None, "False/WatchError", "False/WatchError", "True/WatchError", SETTLE),
        (DENIED, None, f"False/{NO}", f"False/{NO}", f"True/{NO}", SETTLE),
        (REPLAYING, None, "False/Progressing", "True/Replaying", "False/Progressing", SETTLE),
        (Streams(), None, "False/Progressing", "True/NoResolvedTypes", "False/Progressing", SETTLE),
        (RUNNING, None, "True/OK", "False/OK", "False/OK", STEADY),
        (RUNNING, PathVerdict(True), "True/OK", "False/OK", "False/OK", STEADY),
    ],
)  # fmt: skip
def test_target_derivation(
    *, streams: Streams, path: PathVerdict | None, ready: str, reconciling: str, stalled: str, requeue: float
) -> None:
    """T9 to T15 and T18, first match wins."""
    seen = Observed(streams=streams, path=path)
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, observed=seen, now=NOW)
    assert row(plan, "Ready", "Reconciling", "Stalled") == {
        "Ready": ready,
        "Reconciling": reconciling,
        "Stalled": stalled,
    }
    assert plan.requeue == requeue
    assert plan.condition("StreamsRunning").status == ("True" if streams is RUNNING else "False")


def test_a_refused_path_counts_its_issues() -> None:
    """T16: the first issue, and how many more, in the writer's words and once."""
    plan = decide_target(
        target(), validated=OK, encryption=NOT_REQUIRED, observed=Observed(path=REFUSED), now=NOW
    )
    message = plan.condition("GitPathAccepted").message
    assert message == "Git path refused at live/deploy.sh: not YAML (and 2 more issue(s))"


def test_push_failures_are_shown_without_touching_the_trio() -> None:
    """B20: a rejecting remote is a condition of the target."""
    health = BranchHealth(ok=False, reason="PushRejected", message="the remote refused: no")
    seen = Observed(streams=RUNNING, health=health)
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, observed=seen, now=NOW)
    assert row(plan, "Ready", "PushSucceeding") == {
        "Ready": "True/OK",
        "PushSucceeding": "False/PushRejected",
    }
    assert "lastPushTime" not in plan.fields


def test_a_push_that_was_seen_stays_true() -> None:
    """I5: Redis without its memory, or away, makes nothing untrue: the time is kept, the rest is unknown."""
    before = target(last_push_time="2030-05-05T00:00:00Z")
    forgot = decide_target(
        before, validated=OK, encryption=NOT_REQUIRED, observed=Observed(streams=RUNNING), now=NOW
    )
    assert forgot.fields["lastPushTime"] == "2030-05-05T00:00:00Z"
    assert row(forgot, "PushSucceeding") == {"PushSucceeding": "True/OK"}
    away = decide_target(
        before, validated=OK, encryption=NOT_REQUIRED, worker_error="no Redis", observed=UNREAD, now=NOW
    )
    assert away.fields["lastPushTime"] == "2030-05-05T00:00:00Z"
    kinds = ("PushSucceeding", "DeletionsApplied", "ObjectsWritten", "RenderMatchesLive")
    assert row(away, *kinds) == dict.fromkeys(kinds, "Unknown/NotChecked")
    assert "Redis" in away.condition("PushSucceeding").message
    newer = Observed(streams=RUNNING, last_push="2031-02-02T00:00:00Z")
    plan = decide_target(before, validated=OK, encryption=NOT_REQUIRED, observed=newer, now=NOW)
    assert plan.fields["lastPushTime"] == "2031-02-02T00:00:00Z"


def test_a_held_sweep_tells_how_to_release_it() -> None:
    """J23: the annotation and the outcome to name in it."""
    seen = Observed(streams=RUNNING, held=("o-7",), held_message="40 of 50 documents would be deleted")
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, observed=seen, now=NOW)
    held = plan.condition("DeletionsApplied")
    assert (held.status, held.reason) == ("False", "SweepHeld")
    assert "configbutler.ai/release-held-deletions=o-7" in held.message


# streams


@pytest.mark.parametrize(
    ("states", "reason", "message"),
    [
        ({"a": "streaming"}, "AllStreamsReady", "1/1 streams running"),
        ({}, "NoResolvedTypes", "0/0 streams running; no resolved resource types"),
        (
            {"a": "streaming", "secrets": "replaying", "configmaps": "replaying"},
            "Replaying",
            "1/3 streams running; 2 replaying (configmaps, secrets)",
        ),
        (
            {"a": "blocked", "b": "replaying"},
            "WatchError",
            "0/2 streams running; 1 blocked (a); 1 replaying (b)",
        ),
    ],
)
def test_stream_messages(states: dict[str, str], reason: str, message: str) -> None:
    """Sheet 4.2, with blocked and replaying types told apart (I17)."""
    streams = roll_up(record(name, StreamState(state), reason="WatchError") for name, state in states.items())
    assert (streams.reason, streams.message) == (reason, message)


def test_a_missing_right_says_how_to_grant_it() -> None:
    """C31: the words of the API server, and the command that prints what is to be applied."""
    assert DENIED.message.endswith("; grant list and watch: manage.py rbac --for-rules")


def test_a_type_counts_once_at_its_worst_state() -> None:
    """Sheet 2.3: two namespaces of one type are one type; a claimed type without a record replays."""
    records = [
        record("configmaps", StreamState.STREAMING, namespace="a"),
        record("configmaps", StreamState.BLOCKED, namespace="b", reason="WatchError"),
        record("other", StreamState.STREAMING),
    ]
    claims = [Claimed("", "v1", "configmaps", "a"), Claimed("", "v1", "configmaps", "b")]
    streams = roll_up(records, [*claims, Claimed("", "v1", "secrets", "a")])
    assert (streams.total, streams.ready) == (2, 0)
    assert (streams.blocked, streams.replaying) == (("configmaps",), ("secrets",))
    field = streams.as_field(NOW, sample=True)
    assert field["total"] == field["ready"] + field["replaying"] + field["blocked"]
    assert field["pendingSample"] == ["configmaps", "secrets"]


def test_a_covering_stream_counts() -> None:
    """I4, C26: a namespace claim is served by the cluster-wide shard of the same type, of any version."""
    records = [record("configmaps", StreamState.STREAMING)]
    assert roll_up(records, [Claimed("", "v1beta1", "configmaps", "shop")]).running
    narrow = [record("configmaps", StreamState.STREAMING, namespace="shop")]
    assert not roll_up(narrow, [Claimed("", "v1", "configmaps", None)]).running


# rules


def ready_target(status: str = "True", reason: str = "OK", kind: str = "Ready", generation: int = 1) -> Any:
    return target(conditions=(Condition(kind, status, reason, "words", generation),))


FOUND = Resolution(claims=(Claimed("", "v1", "configmaps"),))


@pytest.mark.parametrize(
    ("changes", "goal", "has_provider", "resolution", "streams", "expected", "requeue"),
    [
        ({"target_name": ""}, None, False, FOUND, RUNNING, "blocked/GitDestinationInvalid", STEADY),
        ({}, None, False, FOUND, RUNNING, "blocked/GitTargetNotFound", STEADY),
        ({}, ready_target(), False, FOUND, RUNNING, "blocked/GitProviderNotFound", STEADY),
        ({}, ready_target(), True, None, RUNNING, "progressing/UnresolvedResources", SETTLE),
        ({}, ready_target("True", "ValidationFailed", "Stalled"), True, FOUND, RUNNING,
         "blocked/ValidationFailed", SETTLE),
        ({}, ready_target(), True, FOUND, BLOCKED, "blocked/WatchError", SETTLE),
        ({}, ready_target("False", "Replaying"), True, FOUND, RUNNING, "progressing/Replaying", SETTLE),
        ({}, ready_target("False", "GitRepoConfigNotFound"), True, FOUND, RUNNING,
         "blocked/GitRepoConfigNotFound", SETTLE),
        ({}, target(), True, FOUND, RUNNING, "progressing/Progressing", SETTLE),
        ({}, ready_target(generation=0), True, FOUND, RUNNING, "progressing/Progressing", SETTLE),
        ({}, ready_target(), True, FOUND, RUNNING, "done/Ready", STEADY),
        ({}, ready_target(), True, FOUND, REPLAYING, "progressing/Replaying", SETTLE),
        ({"problems": ("spec.rules[0].operations: x",)}, ready_target(), True, FOUND, RUNNING,
         "blocked/InvalidConfig", STEADY),
    ],
)  # fmt: skip
def test_rule_ladder(
    *,
    changes: dict[str, Any],
    goal: Any,
    has_provider: bool,
    resolution: Resolution | None,
    streams: Streams,
    expected: str,
    requeue: float,
) -> None:
    """R1 to R8 with I10, I13 and I22."""
    plan = decide_rule(
        rule(**changes),
        goal,
        provider() if has_provider else None,
        resolution=resolution,
        streams=streams,
        now=NOW,
    )
    trio = {c.type: c.status for c in plan.conditions if c.type in ("Ready", "Reconciling", "Stalled")}
    shape = {"Ready": "done", "Reconciling": "progressing", "Stalled": "blocked"}
    (active,) = [shape[kind] for kind, status in trio.items() if status == "True"]
    assert f"{active}/{plan.condition('Reconciling').reason}" == expected
    assert plan.requeue == requeue


def test_a_rule_that_matches_nothing_says_why() -> None:
    """I14: the selectors are explained, and after a minute the rule is left in peace."""
    nothing = Resolution((), ("'gizmos': not served by this cluster",))
    for age, requeue in ((1.0, SETTLE), (61.0, STEADY)):
        plan = decide_rule(rule(), ready_target(), provider(), resolution=nothing, age=age, now=NOW)
        assert plan.requeue == requeue
        assert "watching 0 resource type(s); 'gizmos': not served" in plan.condition("Ready").message
    assert plan.condition("ResourcesResolved").status == "True"


# CommitRequest

BUG = "UnexpectedOutcome"


@pytest.mark.parametrize(
    ("kind", "ready", "stalled", "pushed"),
    [
        (OutcomeKind.PUSHED, "True/Committed", "False/Committed", "True/Pushed"),
        (OutcomeKind.NO_WINDOW, "True/NoWindowInGrace", "False/NoWindowInGrace", "False/NoWindowInGrace"),
        (OutcomeKind.WINDOW_MISMATCH, "True/WindowMismatch", "False/WindowMismatch", "False/WindowMismatch"),
        (OutcomeKind.NO_CHANGE, "True/AlreadyPresent", "False/AlreadyPresent", "False/AlreadyPresent"),
        (OutcomeKind.REFUSED, "False/FinalizeFailed", "True/FinalizeFailed", "False/FinalizeFailed"),
        (OutcomeKind.RETIRED, "False/FinalizeFailed", "True/FinalizeFailed", "False/FinalizeFailed"),
        (OutcomeKind.SUPERSEDED, f"False/{BUG}", f"True/{BUG}", f"False/{BUG}"),
    ],
)  # fmt: skip
def test_request_outcomes(kind: OutcomeKind, ready: str, stalled: str, pushed: str) -> None:
    """I01, I06, I13, I15: sheet 6.4."""
    plan = decide_request(request(), outcome(kind, commit="c0ffee", detail="live/deploy.sh"), submitter=None)
    assert plan is not None
    assert row(plan, "Ready", "Stalled", "Pushed") == {"Ready": ready, "Stalled": stalled, "Pushed": pushed}
    assert ("sha" in plan.fields) is (kind is OutcomeKind.PUSHED)
    assert plan.fields["branch"] == "main"
    assert plan.requeue is None
    if kind is OutcomeKind.REFUSED:
        assert "live/deploy.sh" in plan.condition("Ready").message


def test_a_waiting_request_and_its_bound() -> None:
    """Q5, Q7, I21: waiting tells what for; past the bound it fails and says that nothing is lost."""
    waiting = decide_request(request(), None, submitter=None, waiting=Waiting(1, "GitTarget not found"))
    assert waiting is not None
    assert row(waiting, "Ready", "Reconciling", "Pushed", "AuthorAttributed") == {
        "Ready": "False/WaitingForCloseDelay",
        "Reconciling": "True/WaitingForCloseDelay",
        "Pushed": "Unknown/WaitingForCloseDelay",
        "AuthorAttributed": "False/CommitterFallback",
    }
    assert waiting.condition("Reconciling").message == "GitTarget not found"
    late = decide_request(request(), None, submitter=None, waiting=Waiting(SAFETY_BOUND + 1))
    assert late is not None
    assert row(late, "Stalled", "Pushed") == {
        "Stalled": "True/FinalizeFailed",
        "Pushed": "False/FinalizeFailed",
    }


def test_who_asked_is_stated_once() -> None:
    """I21: a later lookup does not flip AuthorAttributed; the submitter is kept in status (I20)."""
    alice = Submitter("alice", "Alice A.", "a@x")
    plan = decide_request(request(), None, submitter=alice)
    assert plan is not None
    assert row(plan, "AuthorAttributed") == {"AuthorAttributed": "True/AttributedFromAdmission"}
    assert plan.fields["submitter"] == {"username": "alice", "displayName": "Alice A.", "email": "a@x"}
    again = request(conditions=plan.conditions, submitter=alice)
    later = decide_request(again, outcome(OutcomeKind.PUSHED, commit="c"), submitter=None)
    assert later is not None
    assert row(later, "AuthorAttributed") == {"AuthorAttributed": "True/AttributedFromAdmission"}
    assert later.fields["submitter"]["username"] == "alice"


@pytest.mark.parametrize("kind", ["Ready", "Stalled"])
def test_a_finished_request_is_inert(kind: str) -> None:
    """I26: nothing is decided for it again."""
    finished = request(conditions=(Condition(kind, "True", "Committed"),))
    assert is_terminal(finished)
    assert decide_request(finished, outcome(OutcomeKind.PUSHED, commit="d"), submitter=None) is None


# Shapes

FINDINGS = st.builds(Finding, st.sampled_from(["True", "False"]), st.sampled_from(["OK", "InvalidConfig"]))
STREAMS = st.lists(
    st.builds(
        record,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(list(StreamState)),
        reason=st.sampled_from(["WatchError", "WatchNotPermitted", ""]),
    ),
    max_size=5,
).map(roll_up)
VERDICTS = st.none() | st.builds(
    PathVerdict, st.booleans(), st.sampled_from(["", "UnsupportedContent", "IgnoreShadowsManagedPath"])
)
HEALTH = st.none() | st.builds(
    BranchHealth, st.booleans(), st.sampled_from(["", "PushRejected"]), last_push_ms=st.integers(0, 1)
)
CONDITIONS = st.lists(
    st.builds(
        Condition,
        st.sampled_from(["Ready", "Stalled", "Reconciling"]),
        st.sampled_from(["True", "False", "Unknown"]),
        st.sampled_from(["OK", "Progressing", *sorted(BLOCKING_REASONS)[:4]]),
        observed_generation=st.integers(0, 2),
    ),
    max_size=4,
).map(tuple)


@given(
    validated=FINDINGS, encryption=st.none() | FINDINGS, error=st.sampled_from(["", "x"]),
    streams=STREAMS, path=VERDICTS, health=HEALTH, conditions=CONDITIONS,
    resolution=st.none() | st.just(FOUND) | st.just(Resolution()),
    findings=st.none() | st.builds(ProviderFindings, st.none() | st.sampled_from(list(Step)), st.just("X")),
    result=st.none() | st.builds(outcome, st.sampled_from(OutcomeKind), commit=st.sampled_from(["", "c"])),
    waited=st.floats(0, 1000),
)  # fmt: skip
def test_no_input_yields_an_illegal_shape(
    *,
    validated: Finding,
    encryption: Finding | None,
    error: str,
    streams: Streams,
    path: PathVerdict | None,
    health: BranchHealth | None,
    conditions: tuple[Condition, ...],
    resolution: Resolution | None,
    findings: ProviderFindings | None,
    result: Any,
    waited: float,
) -> None:
    """S5, N6: Ready, Reconciling and Stalled are always one of the three shapes, with valid reasons."""
    plans = [
        decide_provider(provider(), findings),
        decide_target(
            target(),
            validated=validated,
            encryption=encryption,
            worker_error=error,
            observed=Observed(streams=streams, path=path, health=health),
            now=NOW,
        ),
        decide_rule(
            rule(), target(conditions=conditions), provider(), resolution=resolution, streams=streams, now=NOW
        ),
        decide_request(request(), result, submitter=None, waiting=Waiting(waited)),
    ]
    for plan in plans:
        assert plan is not None
        assert legal_shape(plan.conditions)
        assert all(c.reason and c.status in ("True", "False", "Unknown") for c in plan.conditions)
