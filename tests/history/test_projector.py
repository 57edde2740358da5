"""Outcomes become rows once, whoever reads them and how often; old rows go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import transaction

from reverser.history.models import Commit, CommitObject, CommitText, Incident, ProjectorPosition, SaveRequest
from reverser.history.projector import forget_before, project_outcomes, reset_position
from reverser.history.search import search_commits
from reverser.store.model import BranchKey, ObjectChange, Outcome, OutcomeKind, TargetRef
from reverser.tasks import forget_history
from tests.dashboard import world

pytestmark = pytest.mark.django_db
BRANCH, TARGET = BranchKey("shop", "repo", "main"), TargetRef("uid", "shop", "live")


def outcome(number: int, kind: OutcomeKind = OutcomeKind.PUSHED, **more: object) -> Outcome:
    """An outcome as a writer settles it."""
    change = ObjectChange("UPDATE", "", "v1", "configmaps", "shop", f"menu-{number}", "a.yaml", "written")
    values: dict[str, object] = {
        "commit": f"{number:040x}",
        "message": f"change {number}",
        "changes": (change,),
        "changes_total": 1,
        "settled_ms": 1_800_000_000_000 + number,
    }
    return Outcome(f"outcome-{number}", kind, BRANCH, TARGET, **{**values, **more})  # type: ignore[arg-type]


class Source:
    """A stream of outcomes."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = [(f"{number}-0", item) for number, item in enumerate(outcomes, 1)]

    def read_outcomes(self, after_id: str, count: int, block_ms: int = 0) -> Sequence[tuple[str, Outcome]]:
        after = int(after_id.split("-")[0])
        return [pair for pair in self.outcomes if int(pair[0].split("-")[0]) > after][:count]


def test_each_once() -> None:
    """Read twice, written once; searchable at once."""
    source = Source(*(outcome(number) for number in range(5)))

    assert project_outcomes(source, count=3) == 3
    assert project_outcomes(source, count=3) == 2
    assert project_outcomes(source, count=3) == 0
    reset_position()
    assert project_outcomes(source) == 5

    assert (Commit.objects.count(), CommitObject.objects.count(), CommitText.objects.count()) == (5, 5, 5)
    assert [row.subject for row in search_commits(Commit.objects.all(), "menu-3")] == ["change 3"]


def test_slower_of_two_does_not_turn_back() -> None:
    """A process that read its batch before another wrote it leaves the position where it is."""
    source = Source(*(outcome(number) for number in range(4)))

    class Overtaken(Source):
        def read_outcomes(
            self, after_id: str, count: int, block_ms: int = 0
        ) -> Sequence[tuple[str, Outcome]]:
            found = super().read_outcomes(after_id, 1, block_ms)
            project_outcomes(source)
            return found

    slow = Overtaken()
    slow.outcomes = source.outcomes

    assert project_outcomes(slow) == 0
    assert ProjectorPosition.objects.get().position == "4-0"
    assert Commit.objects.count() == 4


def test_incidents_and_requests() -> None:
    """What is no commit, and what somebody asked for."""
    source = Source(
        outcome(1, OutcomeKind.REFUSED, reason="UnsupportedContent", commit=""),
        outcome(2, request_uid="request-uid", request_name="save-1", request_namespace="shop"),
    )

    project_outcomes(source)

    assert [(row.kind, row.reason) for row in Incident.objects.all()] == [("refused", "UnsupportedContent")]
    asked = SaveRequest.objects.get()
    assert (asked.name, asked.outcome, asked.sha) == ("save-1", "pushed", f"{2:040x}")


def test_a_failure_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is whole or not there, and is read again."""
    source = Source(outcome(1), outcome(2))

    def broken(*_args: object) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError), transaction.atomic():
        patch.setattr("reverser.history.projector.search.index", broken)
        project_outcomes(source)

    assert not Commit.objects.exists()
    assert project_outcomes(source) == 2


def test_retention() -> None:
    """Rows that are older than the limit go, with all that hangs on them."""
    row = world.target()
    world.commit(1, row)
    world.commit(2, row, pushed_at=world.NOW - timedelta(days=100))
    world.request(row, finished_at=world.NOW - timedelta(days=100))

    assert forget_before(datetime.now(tz=UTC) - timedelta(days=90)) > 0

    assert (Commit.objects.count(), CommitObject.objects.count(), CommitText.objects.count()) == (1, 1, 1)
    assert not SaveRequest.objects.exists()
    assert not search_commits(Commit.objects.all(), "menu-2").exists()


@pytest.mark.parametrize(("own", "redis", "left"), [(0, 0, 1), (400, 0, 1), (0, 400, 1), (100, 100, 0)])
def test_a_clock_that_is_wrong_forgets_nothing(
    monkeypatch: pytest.MonkeyPatch, own: int, redis: int, left: int
) -> None:
    """Q05: days that the process's clock and Redis' are ahead; both must agree that a row is too old."""
    world.commit(1, world.target())

    class Clock:
        def time_ms(self) -> int:
            return int((world.NOW + timedelta(days=redis)).timestamp() * 1000)

    monkeypatch.setattr("reverser.wiring.store", Clock)
    with time_machine.travel(world.NOW + timedelta(days=own)):
        forget_history()

    assert Commit.objects.count() == left
