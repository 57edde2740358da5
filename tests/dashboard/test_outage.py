"""The history database is away or cannot be written: a page that says so, not an error of the server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import DataError, InternalError, OperationalError
from django.test import Client


def _failing(error: Exception) -> Callable[[BaseDatabaseWrapper], None]:
    def cursor(_connection: BaseDatabaseWrapper) -> None:
        raise error

    return cursor


@pytest.mark.parametrize("error", [OperationalError, InternalError])
@pytest.mark.parametrize("path", ["/admin/", "/admin/branches/", "/admin/history/commit/"])
def test_every_page_says_so(
    operator: Client, monkeypatch: pytest.MonkeyPatch, path: str, error: type[Exception]
) -> None:
    """Away, or read-only after a fail-over: 503 with what it means and when to come back; none of the
    driver's words, which may hold the address and the user.
    """
    operator.raise_request_exception = False
    with monkeypatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "cursor", _failing(error("user=canary")))
        answer = operator.get(path)
    text = answer.content.decode()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The history database does not answer" in text
    assert "canary" not in text
    assert operator.get(path).status_code == 200


def test_a_login_says_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form is shown without the database; it cannot let anybody in."""
    browser = Client(raise_request_exception=False)
    with monkeypatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "cursor", _failing(OperationalError("user=canary")))
        assert browser.get("/admin/login/").status_code == 200
        answer = browser.post("/admin/login/", {"username": "olga", "password": "anything"})
    assert answer.status_code == 503


def test_a_wrong_query_stays_an_error(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database refuses because of the query is no outage."""
    operator.raise_request_exception = False
    with monkeypatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "cursor", _failing(DataError("no")))
        assert operator.get("/admin/").status_code == 500
