"""Which class of error an answer becomes."""

from __future__ import annotations

import json

import pytest

from reverser.errors import (
    KubeConflict,
    KubeForbidden,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeThrottled,
    KubeUnauthenticated,
    KubeUnavailable,
)
from reverser.kube.answers import http_error, parse_retry_after, status_error


def body(**fields: object) -> bytes:
    return json.dumps({"kind": "Status", **fields}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", KubeInvalid),
        (401, "Unauthorized", KubeUnauthenticated),
        (403, "Forbidden", KubeForbidden),
        (404, "NotFound", KubeNotFound),
        (405, "MethodNotAllowed", KubeInvalid),
        (408, "Timeout", KubeUnavailable),
        (409, "Conflict", KubeConflict),
        (410, "Expired", KubeGone),
        (410, "Gone", KubeGone),
        (422, "Invalid", KubeInvalid),
        (429, "TooManyRequests", KubeThrottled),
        (500, "InternalError", KubeUnavailable),
        (502, "", KubeUnavailable),
        (503, "ServiceUnavailable", KubeUnavailable),
        (504, "Timeout", KubeUnavailable),
        (302, "", KubeUnavailable),
    ],
)
def test_code_and_reason_decide_the_class(code: int, reason: str, expected: type[Exception]) -> None:
    """Each status has its own class; the message names the request, the code and the server's words."""
    error = http_error("GET /x", code, body(reason=reason, message="words"))
    assert type(error) is expected
    assert "GET /x" in str(error)
    assert str(code) in str(error)
    assert "words" in str(error)


def test_an_expired_reason_is_gone_whatever_the_code() -> None:
    """An ERROR event says Expired; that alone means too old."""
    assert type(status_error("w", {"reason": "Expired"})) is KubeGone
    assert type(status_error("w", {"code": 410})) is KubeGone


def test_a_name_that_is_taken_is_told_from_a_lost_update() -> None:
    """409 AlreadyExists sets ``exists``; 409 Conflict does not."""
    taken = http_error("POST /x", 409, body(reason="AlreadyExists"))
    lost = http_error("PUT /x", 409, body(reason="Conflict"))
    assert isinstance(taken, KubeConflict)
    assert isinstance(lost, KubeConflict)
    assert (taken.exists, lost.exists) == (True, False)


def test_field_causes_are_carried() -> None:
    """A refused sendInitialEvents is recognised by the field of its cause."""
    details = {"causes": [{"field": "sendInitialEvents", "reason": "FieldValueForbidden", "message": "m"}, 3]}
    error = http_error("GET /x", 422, body(reason="Invalid", details=details))
    assert isinstance(error, KubeInvalid)
    assert [cause.field for cause in error.causes] == ["sendInitialEvents"]


def test_the_delay_that_the_server_asks_for_is_carried() -> None:
    """Retry-After comes from the header, else from the Status details; 503 with one counts as throttling."""
    assert http_error("x", 429, b"", "5").retry_after == 5.0  # type: ignore[attr-defined]
    error = http_error("x", 503, body(details={"retryAfterSeconds": 7}))
    assert isinstance(error, KubeThrottled)
    assert error.retry_after == 7.0
    assert parse_retry_after("soon") is None
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_a_cache_that_is_behind_is_told_as_such() -> None:
    """A server that starts blames the version that it was asked for; what it means is said, by its cause."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "m"}], "retryAfterSeconds": 1}
    said = "Timeout: Too large resource version: 7, current: 5"
    error = http_error("GET /x", 504, body(reason="Timeout", message=said, details=details))
    assert isinstance(error, KubeThrottled)
    assert error.retry_after == 1.0
    assert "its cache is behind its etcd" in str(error)
    assert "its cache" not in str(http_error("GET /x", 504, body(reason="Timeout", message=said)))


def test_a_body_that_is_no_status_still_makes_an_error() -> None:
    """A proxy's HTML page is quoted, bounded, and decides nothing."""
    error = http_error("GET /x", 502, b"<html>" + b"x" * 5000)
    assert isinstance(error, KubeUnavailable)
    assert len(str(error)) < 1200


@pytest.mark.parametrize("code", [0, 500])
def test_an_object_that_a_server_quotes_is_not_repeated(code: int) -> None:
    """O-LEAK: a server that fails on an object may print it; its body reaches no log and no status."""
    said = 'unable to decode: &v1.Secret{Data:map[string][]byte{"k":[]byte{0x70}}}'
    error = status_error("watch of secrets", {"reason": "InternalError", "message": said}, code=code)
    assert "unable to decode: &v1.Secret..." in str(error)
    assert "0x70" not in str(error)
