"""REST: CommitRequests are made in the caller's name, and waited for."""

from __future__ import annotations

import time

import pytest

from reverser.kube.paths import own_path
from reverser.sandbox.thread import SandboxServer
from reverser.wiring import kube

from .test_api import PROBLEM, ask, post


def test_create_in_the_callers_name(rows: object, web_sandbox: SandboxServer) -> None:
    """The object is the caller's, as the API server's own audit tells."""
    answer = post(
        "shopper-token",
        {"namespace": "shop", "target": "live", "message": "why", "closeDelaySeconds": 2},
    )

    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert body["state"] == "waiting"
    assert answer["Location"].endswith(f"/api/v1/commitrequests/shop/{body['name']}")
    made = kube().get(own_path("commitrequests", namespace="shop", name=body["name"]))
    assert made["spec"]["targetRef"]["name"] == "live"
    assert (made["spec"]["message"], made["spec"]["closeDelaySeconds"]) == ("why", 2)
    creators = [
        event["impersonatedUser"]["username"]
        for event in web_sandbox.audit_events()
        if event["verb"] == "create"
        and event["objectRef"].get("resource") == "commitrequests"
        and event.get("impersonatedUser")
    ]
    assert creators[-1] == "shopper"


@pytest.mark.parametrize(
    ("token", "body", "expected"),
    [
        ("reader-token", {"namespace": "shop", "target": "live"}, 403),
        ("shopper-token", {"namespace": "depot", "target": "live"}, 403),
        ("shopper-token", {"namespace": "shop", "target": "none"}, 422),
        ("shopper-token", {"namespace": "shop"}, 400),
        ("shopper-token", {"namespace": "Shop", "target": "live"}, 400),
        ("shopper-token", {"namespace": "shop", "target": "../live"}, 400),
        ("shopper-token", {"namespace": "shop", "target": "live", "message": "x" * 1025}, 400),
        ("shopper-token", {"namespace": "shop", "target": "live", "message": "a\u0007b"}, 400),
        ("shopper-token", {"namespace": "shop", "target": "live", "closeDelaySeconds": 301}, 400),
        ("shopper-token", [1], 400),
    ],
)
def test_create_refused(rows: object, token: str, body: object, expected: int) -> None:
    """A refused creation is a problem document with the right status."""
    answer = post(token, body)

    assert answer.status_code == expected, answer.content
    assert answer["Content-Type"] == PROBLEM


def test_wait_ends_in_time(rows: object) -> None:
    """Nobody finishes it here: the answer comes after the time asked for, and says that it waits."""
    began = time.monotonic()

    answer = post("shopper-token", {"namespace": "shop", "target": "live"}, "?wait=1")

    assert answer.json()["state"] == "waiting"
    assert 1 <= time.monotonic() - began < 20


def test_wait_for_the_end(rows: object) -> None:
    """A finished request is told at once, with its commit."""
    name = post("shopper-token", {"namespace": "shop", "target": "live"}).json()["name"]
    path = own_path("commitrequests", namespace="shop", name=name)
    found = kube().get(path)
    done = {"type": "Ready", "status": "True", "reason": "Committed", "message": "there"}
    found["status"] = {
        "conditions": [{**done, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "branch": "main",
        "sha": "a" * 40,
    }
    kube().update_status(path, found)

    body = ask(f"commitrequests/shop/{name}?wait=30", "shopper-token").json()

    assert (body["state"], body["reason"], body["sha"]) == ("succeeded", "Committed", "a" * 40)


def test_request_that_is_gone(rows: object) -> None:
    """History keeps it."""
    body = ask("commitrequests/shop/save-1", "shopper-token").json()

    assert (body["state"], body["reason"], body["submitter"]) == ("succeeded", "Committed", "bob")
