"""Conditions: legal shapes, transition times, bounds, and no write without a change."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reverser.controllers.conditions import (
    Plan,
    blocked,
    cap_message,
    condition,
    done,
    new_status,
    progressing,
    upsert,
    valid_reason,
)
from tests.controllers.builders import legal_shape


def test_transition_time_moves_with_status_alone() -> None:
    """S3: reason and message are refreshed, the time only when status differs."""
    stored = [
        {"type": "Ready", "status": "True", "reason": "A", "message": "a", "lastTransitionTime": "t0"},
        {"type": "Ready", "status": "False", "reason": "dup", "lastTransitionTime": "t9"},
        {"type": "Gone", "status": "True", "reason": "x", "lastTransitionTime": "t0"},
        {"type": "Stalled", "status": "True", "reason": "x", "lastTransitionTime": "t0"},
    ]
    out = upsert(stored, done("B", "b"), generation=3, now="t1")
    assert [(c["type"], c["reason"], c["lastTransitionTime"]) for c in out] == [
        ("Ready", "B", "t0"),
        ("Reconciling", "B", "t1"),
        ("Stalled", "B", "t1"),
    ]
    assert {c["observedGeneration"] for c in out} == {3}


@given(st.text(max_size=3000))
def test_messages_are_capped_between_characters(text: str) -> None:
    """I17: at most 1024 characters, always encodable."""
    capped = cap_message(text)
    assert len(capped) <= 1024
    capped.encode()


@given(
    st.text(max_size=1100)
    | st.sampled_from(["not-editable", "", "1st", "a b", "Ready", "A,B:c_1", "A,", "ü"])
)
def test_a_reason_is_always_one_that_an_api_server_takes(text: str) -> None:
    """S2: reasons come from the store, too; one that the schema refuses would keep the status away."""
    reason = condition("Ready", "True", text).reason
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason)
    assert 1 <= len(reason) <= 1024
    assert valid_reason(reason) == reason


def test_a_good_reason_stays_as_it_is() -> None:
    """A reason that the API server accepts is kept, one that it refuses is mended, an empty one is named."""
    assert [valid_reason(text) for text in ("PushRejected", "A,B:c_1", "not-editable", "")] == [
        "PushRejected",
        "A,B:c_1",
        "not_editable",
        "Unspecified",
    ]


def test_a_blocked_object_says_stalled_in_reconciling() -> None:
    """S6: the Reconciling message of a blocked object contains the word."""
    (_, reconciling, _) = blocked("X", "why")
    assert "stalled" in reconciling.message


def test_only_clocks_changed_means_no_write() -> None:
    """I11: a pass that finds what is written already writes nothing."""
    plan = Plan(done("OK", "m"), {"lastReconcileTime": "t1", "streams": {"total": 1, "observedTime": "t1"}})
    first = new_status({}, plan, generation=1, now="t1")
    assert first is not None
    later = Plan(done("OK", "m"), {"lastReconcileTime": "t2", "streams": {"total": 1, "observedTime": "t2"}})
    assert new_status(first, later, generation=1, now="t2") is None
    assert new_status(first, later, generation=2, now="t2") is not None
    changed: dict[str, Any] = {"lastReconcileTime": "t2", "streams": {"total": 2, "observedTime": "t2"}}
    assert new_status(first, Plan(done("OK", "m"), changed), generation=1, now="t2") is not None


def test_fields_that_a_plan_leaves_out_are_removed() -> None:
    """The whole status is replaced: an old signing key or stream count does not stay."""
    before = new_status({}, Plan(done("OK", ""), {"signingPublicKey": "k"}), generation=1, now="t")
    assert before is not None
    after = new_status(before, Plan(done("OK", ""), {}), generation=1, now="t")
    assert after is not None
    assert "signingPublicKey" not in after


def test_legal_shapes() -> None:
    """S5 and N6: exactly three shapes."""
    assert all(legal_shape(trio) for trio in (done("A", ""), progressing("A", ""), blocked("A", "")))
    both = (
        condition("Ready", "False", "A"),
        condition("Reconciling", "True", "A"),
        condition("Stalled", "True", "A"),
    )
    assert not legal_shape(both)
    assert not legal_shape(done("A", "")[:2])
