"""A push that fails without a reason of its own."""

from __future__ import annotations

from reverser.controllers.decide_target import decide_target
from reverser.store.model import BranchHealth
from tests.controllers.test_decide import NOT_REQUIRED, NOW, OK, RUNNING, Observed, row, target


def test_a_failure_without_a_reason_still_has_one() -> None:
    """A condition always has a reason: `PushFailing` where the failure names none."""
    seen = Observed(streams=RUNNING, health=BranchHealth(ok=False, reason="", message="it failed"))
    plan = decide_target(target(), validated=OK, encryption=NOT_REQUIRED, observed=seen, now=NOW)
    assert row(plan, "PushSucceeding") == {"PushSucceeding": "False/PushFailing"}
