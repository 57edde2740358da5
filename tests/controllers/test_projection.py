"""Rows for the admin: the latest state of each object, written when the database can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db.utils import OperationalError

from reverser.controllers.conditions import Plan, done, new_status
from reverser.controllers.projection import Projection
from reverser.history.models import SaveRequest, TargetState
from reverser.kinds.model import Submitter
from tests.controllers.builders import request, target

READY = new_status(
    {}, Plan(done("OK", "fine"), {"lastPushTime": "2031-01-01T00:00:00Z"}), generation=1, now="t"
)


@pytest.mark.django_db
def test_the_latest_state_is_written_once() -> None:
    """Of several states of a target only the latest is written, and only once."""
    projection = Projection()
    projection.target(target(), {}, url="file:///r")
    projection.target(target(), READY or {}, url="file:///r")
    assert projection.flush() == 1
    row = TargetState.objects.get(uid="uid-shop-gt")
    assert (row.ready, row.reason, row.message, row.branch) == ("True", "OK", "fine", "main")
    assert row.last_push_at is not None
    assert projection.flush() == 0


@pytest.mark.django_db
def test_what_is_kept_follows_the_status() -> None:
    """The count of kept documents comes with the status, and goes with it."""
    kept = {"mode": "Never", "retainedDocuments": 3, "observedTime": "2031-01-01T00:00:00.000Z"}
    projection = Projection()
    for status, expected in (({"retention": kept}, kept), ({}, None)):
        projection.target(target(), status, url="")
        projection.flush()
        assert TargetState.objects.get(uid="uid-shop-gt").retention == expected


@pytest.mark.django_db
def test_targets_that_are_gone_are_marked() -> None:
    """The row of a target that no longer exists is marked as removed."""
    projection = Projection()
    projection.target(target(), {}, url="")
    projection.target(target("other"), {}, url="")
    projection.living(["uid-shop-gt"])
    projection.flush()
    removed = {row.name: row.removed_at is not None for row in TargetState.objects.all()}
    assert removed == {"gt": False, "other": True}


@pytest.mark.django_db
def test_a_request_is_known_before_and_after_its_end() -> None:
    """A request has one row: made while it waits, and keeping what was known when its end is written."""
    projection = Projection()
    asked = replace(request(), message="save")
    projection.request(asked, target_uid="t", submitter=Submitter("alice"))
    projection.flush()
    projection.request(asked, target_uid="t", submitter=None, failure="not finished within 420 s")
    projection.flush()
    row = SaveRequest.objects.get()
    assert (row.submitter, row.message, row.outcome) == ("alice", "save", "failed")
    assert row.requested_at is not None


@pytest.mark.django_db
def test_a_database_that_is_away_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is written by the next flush."""
    projection = Projection()
    projection.target(target(), READY or {}, url="")

    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr(TargetState.objects, "update_or_create", away)
        with pytest.raises(OperationalError):
            projection.flush()
    assert projection.flush() == 1
