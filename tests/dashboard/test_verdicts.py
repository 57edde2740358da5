"""One word per target: the worst that is known of it wins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reverser.dashboard.readings import BranchReading
from reverser.dashboard.verdicts import LATE_MS, State, judge
from reverser.history.models import TargetState
from reverser.store.model import BranchHealth, BranchKey, BranchRecord
from tests.dashboard.world import conditions

NOW_MS = 1_800_000_000_000


def _target(**more: object) -> TargetState:
    values = {"uid": "u", "ready": "True", "reconciling": "False", "stalled": "False"}
    return TargetState(conditions=more.pop("conditions", conditions()), **{**values, **more})


def _branch(*, oldest_ms: int = 0, ok: bool = True, due_ms: int = 0) -> BranchReading:
    health = BranchHealth(
        ok, "" if ok else "PushRejected", "" if ok else "the hook says no", since_ms=NOW_MS - 60_000
    )
    oldest = {"u": oldest_ms} if oldest_ms else {}
    return BranchReading(BranchKey("shop", "repo", "main"), BranchRecord(), health, "", oldest, {}, due_ms)


@pytest.mark.parametrize(
    ("target", "branch", "expected"),
    [
        pytest.param(_target(), _branch(), State.CURRENT, id="nothing waits"),
        pytest.param(_target(), None, State.CURRENT, id="the store says nothing of the branch"),
        pytest.param(_target(), _branch(oldest_ms=NOW_MS - 1000), State.WRITING, id="a fresh change waits"),
        pytest.param(
            _target(), _branch(oldest_ms=NOW_MS - LATE_MS - 1), State.LATE, id="an old change waits"
        ),
        pytest.param(
            _target(),
            _branch(oldest_ms=NOW_MS - LATE_MS - 1, due_ms=NOW_MS + 60_000),
            State.WRITING,
            id="an old change waits in a long commit window",
        ),
        pytest.param(
            _target(),
            _branch(oldest_ms=NOW_MS - LATE_MS - 1, due_ms=NOW_MS + 4_000),
            State.LATE,
            id="an old change was claimed and is not written",
        ),
        pytest.param(
            _target(), _branch(ok=False), State.FAILING, id="pushes fail though the target is ready"
        ),
        pytest.param(_target(stalled="True"), _branch(), State.FAILING, id="the target is stalled"),
        pytest.param(
            _target(ready="False", reconciling="True"), _branch(), State.STARTING, id="it reconciles"
        ),
        pytest.param(_target(ready="Unknown"), _branch(), State.UNKNOWN, id="nobody judged it"),
        pytest.param(
            _target(conditions=conditions(DeletionsApplied="False")),
            _branch(),
            State.HELD,
            id="deletions held",
        ),
    ],
)
def test_state(target: TargetState, branch: BranchReading | None, expected: State) -> None:
    """Each situation has one state."""
    assert judge(target, branch, now_ms=NOW_MS).state is expected


def test_failure_says_since_when_and_why() -> None:
    """The writer's own words and time, not the target's condition, which a failing push leaves alone."""
    verdict = judge(_target(), _branch(ok=False), now_ms=NOW_MS)

    assert (verdict.reason, verdict.message) == ("PushRejected", "the hook says no")
    assert verdict.since == datetime.fromtimestamp((NOW_MS - 60_000) / 1000, tz=UTC)


def test_worst_first() -> None:
    """The order of the states is the order in which a person should look."""
    assert sorted(State)[:3] == [State.FAILING, State.LATE, State.HELD]


def _found(**messages: tuple[str, str]) -> list[dict[str, str]]:
    """Conditions with a status and a message each."""
    return [
        {"type": name, "status": status, "reason": "R", "message": message}
        for name, (status, message) in messages.items()
    ]


def test_the_reason_behind_the_reason() -> None:
    """A summary that only names a gate is followed by what the gate says, and never twice."""
    closed = _found(
        Ready=("False", "EncryptionConfigured gate failed: InvalidConfig"),
        EncryptionConfigured=("False", "generateWhenMissing needs extractFromSecret: set it"),
        StreamsRunning=("Unknown", "no stream runs while a gate is closed"),
    )
    summary = closed[0]["message"]

    stalled = judge(
        _target(stalled="True", message=summary, conditions=closed), _branch(), now_ms=NOW_MS
    ).message
    starting = judge(
        _target(ready="False", reconciling="True", message=summary, conditions=closed),
        _branch(),
        now_ms=NOW_MS,
    ).message

    assert stalled == starting == f"{summary}: generateWhenMissing needs extractFromSecret: set it"
    refused = _found(GitPathAccepted=("False", "Git path refused at x: no"))
    words = judge(
        _target(stalled="True", message="Git path refused at x: no", conditions=refused),
        _branch(),
        now_ms=NOW_MS,
    ).message
    assert words == "Git path refused at x: no"


@pytest.mark.parametrize("name", ["ObjectsWritten", "RenderMatchesLive"])
def test_up_to_date_but_for_what_is_left_out(name: str) -> None:
    """Nothing waits, so nobody is woken up; what is not in Git is still told."""
    left = _found(Ready=("True", ""), **{name: ("False", "not written: configmaps shop/menu")})

    verdict = judge(_target(conditions=left), _branch(), now_ms=NOW_MS)

    assert (verdict.state, verdict.reason) == (State.CURRENT, "R")
    assert verdict.message == "not written: configmaps shop/menu"
