"""Every refusal below /api/ is a problem document, whoever refuses: router, framework, database, bug."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db.utils import OperationalError
from django.test import Client

from reverser.store import Store
from tests.dashboard import world

PROBLEM = "application/problem+json"
READER = {"Authorization": "Bearer reader-token"}
WISH = json.dumps({"namespace": "shop", "target": "live"})


def _problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == PROBLEM, answer.content
    body: dict[str, Any] = answer.json()
    assert body["status"] == status and body["title"] and body["detail"]
    return body


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("get", "/api/v1/nothing", {}, 404),
        ("get", "/api/v1/gittargets/", {}, 404),
        ("get", "/api/v1/commits/zz", {}, 404),
        ("get", "/api/v1/", {}, 404),
        ("get", "/api/v1", {}, 404),
        ("get", "/api/v2/gittargets", {}, 404),
        ("get", "/api/", {}, 404),
        ("post", "/api/v1/nothing", {"data": WISH, "content_type": "application/json"}, 404),
        ("delete", "/api/v1/commits", {}, 405),
        ("post", "/api/v1/gittargets", {"data": WISH, "content_type": "application/json"}, 405),
        ("put", "/api/v1/commitrequests", {"data": WISH, "content_type": "application/json"}, 405),
        ("delete", "/api/v1/commitrequests/shop/save-1", {}, 405),
        ("post", "/api/v1/commitrequests", {"data": WISH, "content_type": "text/plain"}, 415),
        (
            "post",
            "/api/v1/commitrequests",
            {"data": "a=b", "content_type": "application/x-www-form-urlencoded"},
            415,
        ),
        ("post", "/api/v1/commitrequests", {"data": "{", "content_type": "application/json"}, 400),
        ("post", "/api/v1/commitrequests", {"data": b"\xff\xfe", "content_type": "application/json"}, 400),
        ("post", "/api/v1/commitrequests", {"data": "[" * 3000, "content_type": "application/json"}, 400),
        ("post", "/api/v1/commitrequests", {"data": "null", "content_type": "application/json"}, 400),
        (
            "post",
            "/api/v1/commitrequests",
            {"data": "x" * 3_000_000, "content_type": "application/json"},
            413,
        ),
        ("get", "/api/v1/gittargets", {"headers": {"Accept": "text/html"}}, 406),
        ("get", "/api/v1/gittargets", {"headers": {"Host": "evil.example.com"}}, 400),
        ("get", "/api/v1/commits?cursor=nonsense", {}, 404),
        ("get", "/api/v1/commits?cursor=" + "x" * 3000, {}, 404),
        ("get", "/api/v1/commits?limit=1e3", {}, 400),
        ("get", "/api/v1/gitproviders?continue=nonsense", {}, 400),
    ],
)
def test_refusals(web: Store, method: str, path: str, more: dict[str, Any], status: int) -> None:
    """Each refusal is a problem document with the right status."""
    world.request(world.target())
    headers = {**READER, **more.pop("headers", {})}

    _problem(getattr(Client(), method)(path, headers=headers, **more), status)


def test_method_not_allowed_names_the_others(web: Store) -> None:
    """RFC 9110: a 405 tells what is allowed."""
    answer = Client().delete("/api/v1/commitrequests", headers=READER)

    assert {"GET", "POST"} <= {name.strip() for name in answer["Allow"].split(",")}


@pytest.mark.parametrize("token", ["", "x" * 20_000, "\x01", "ä", "two words", "wrong"])
def test_odd_tokens(web: Store, token: str) -> None:
    """A 401, never a question to the cluster that it cannot read."""
    _problem(Client().get("/api/v1/gittargets", headers={"Authorization": f"Bearer {token}"}), 401)


def test_a_bug_says_nothing_of_itself(web: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 500 without details; the log has them."""

    def broken() -> None:
        raise RuntimeError("canary-of-the-inside")

    monkeypatch.setattr("reverser.rest.views.current", broken)

    body = _problem(Client(raise_request_exception=False).get("/api/v1/gittargets", headers=READER), 500)

    assert "canary" not in json.dumps(body)


def test_database_away(web: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a bug: 503, and when to come back."""

    def away() -> None:
        raise OperationalError("password=canary")

    monkeypatch.setattr("reverser.rest.views.living_targets", away)

    answer = Client(raise_request_exception=False).get("/api/v1/gittargets", headers=READER)

    assert "canary" not in json.dumps(_problem(answer, 503))
    assert int(answer["Retry-After"]) > 0


def test_nobody_asks_in_anothers_name(web: Store) -> None:
    """What a caller sends of users and groups, as Kubernetes' own headers or in the body, has no effect."""
    world.target()
    body = {"namespace": "shop", "target": "live", "submitter": "alice", "username": "alice"}
    headers = {
        "Authorization": "Bearer shopper-token",
        "Impersonate-User": "alice",
        "Impersonate-Group": "system:masters",
        "X-Remote-User": "alice",
    }

    made = Client().post("/api/v1/commitrequests", json.dumps(body), "application/json", headers=headers)

    assert made.status_code == 201, made.content
    refused = Client().get("/api/v1/gittargets", headers=headers)
    _problem(refused, 403)
    assert made.json()["submitter"] in ("", "shopper")


def test_a_session_does_not_lend_its_rights_to_a_token(web: Store) -> None:
    """A wrong token is refused, though a session that may is open in the same browser."""
    browser = Client()
    browser.force_login(world.person("vera", "viewer"), backend="django.contrib.auth.backends.ModelBackend")

    assert browser.get("/api/v1/gittargets").status_code == 200
    _problem(browser.get("/api/v1/gittargets", headers={"Authorization": "Bearer wrong"}), 401)


def test_etags_are_of_the_answer(web: Store) -> None:
    """Another page, another filter and a change are another ETag; a weak or listed one counts."""
    row = world.target()
    world.commit(1, row)
    first = Client().get("/api/v1/commits", headers=READER)
    filtered = Client().get("/api/v1/commits?author=nobody", headers=READER)
    assert first["ETag"] != filtered["ETag"]

    same = Client().get("/api/v1/commits", headers={**READER, "If-None-Match": f'"a", W/{first["ETag"]}'})
    world.commit(2, row)
    changed = Client().get("/api/v1/commits", headers={**READER, "If-None-Match": first["ETag"]})
    unknown = Client().get("/api/v1/commits", headers={"If-None-Match": first["ETag"]})

    assert (same.status_code, changed.status_code, unknown.status_code) == (304, 200, 401)
