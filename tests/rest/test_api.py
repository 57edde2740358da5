"""REST: who gets in, what RBAC lets them see, and the manners of every answer."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from reverser import wiring
from reverser.kube.paths import own_path
from reverser.rest.access import Access, may
from reverser.rest.events import OutcomeStream
from reverser.rest.identity import Caller
from reverser.rest.throttling import OPEN, OpenRequests
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from reverser.store.model import BranchKey, LeaseKind, Outcome, OutcomeKind, Settlement, TargetRef
from reverser.wiring import kube
from tests.dashboard import world

ALL = ("gittargets", "streams", "gitproviders", "rules", "commits", "branches", "commitrequests")
PROBLEM = "application/problem+json"


def ask(path: str, token: str = "", **more: Any) -> Any:
    """GET as somebody."""
    headers = {**more.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    return Client().get(f"/api/v1/{path}", headers=headers, **more)


def post(token: str, body: object, query: str = "") -> Any:
    """Create a CommitRequest as somebody."""
    return Client().post(
        f"/api/v1/commitrequests{query}",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )


@pytest.fixture
def rows(web: Store) -> world.TargetState:
    """Two targets in two namespaces, each with a commit and a request."""
    for namespace in ("shop", "depot"):
        row = world.target(namespace=namespace)
        world.commit(1 if namespace == "shop" else 2, row)
        world.request(row)
        world.stream(web, row)
        web.open_journal(world.key(row))
    return world.TargetState.objects.get(namespace="shop")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("token", "query", "expected"),
    [
        ("", "", 401),
        ("wrong-token", "", 401),
        ("nobody-token", "", 403),
        ("nobody-token", "?namespace=shop", 403),
        ("shopper-token", "", 403),
        ("shopper-token", "?namespace=depot", 403),
        ("shopper-token", "?namespace=shop", 200),
        ("reader-token", "", 200),
    ],
)
def test_matrix(rows: object, name: str, token: str, query: str, expected: int) -> None:
    """RBAC of the cluster is the one policy, list by list and namespace by namespace."""
    answer = ask(f"{name}{query}", token)

    assert answer.status_code == expected, answer.content
    if expected != 200:
        assert answer["Content-Type"] == PROBLEM
        assert answer.json()["status"] == expected
    else:
        assert len(answer.json()["results"]) == (1 if query else 2)
    if expected == 401:
        assert answer["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("path", "token", "expected"),
    [
        ("gittargets/shop/live", "shopper-token", 200),
        ("gittargets/depot/live", "shopper-token", 403),
        ("gittargets/depot/live", "reader-token", 200),
        ("gittargets/depot/none", "reader-token", 404),
        ("gitproviders/shop/repo", "shopper-token", 200),
        ("gitproviders/shop/none", "shopper-token", 404),
        ("commitrequests/shop/save-1", "shopper-token", 200),
        ("commitrequests/shop/none", "shopper-token", 404),
        (f"commits/{1:040x}", "shopper-token", 200),
        (f"commits/{2:040x}", "shopper-token", 404),
        (f"commits/{9:040x}", "reader-token", 404),
        (f"branches/{BranchKey('shop', 'repo', 'main').id}", "shopper-token", 200),
        (f"branches/{BranchKey('depot', 'repo', 'main').id}", "shopper-token", 404),
        ("nowhere", "reader-token", 404),
    ],
)
def test_one_object(rows: object, path: str, token: str, expected: int) -> None:
    """What may not be seen is refused before it is looked up, or is not there at all."""
    answer = ask(path, token)

    assert answer.status_code == expected, answer.content
    if expected != 200:
        assert answer["Content-Type"] == PROBLEM


def test_person_of_the_admin(rows: object, viewer: Client) -> None:
    """A session is known to RBAC under its prefixed name and groups."""
    assert viewer.get("/api/v1/gittargets").status_code == 200
    assert may(
        kube(), Caller("gitops-reverser:vera", ("gitops-reverser:viewer",)), Access("list", "gittargets")
    )
    assert not may(kube(), Caller("vera", ("viewer",)), Access("list", "gittargets"))


def test_session_writes_need_the_csrf_token(rows: object) -> None:
    """A foreign page cannot save in a person's name."""
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.person("olga", "operator"), backend="django.contrib.auth.backends.ModelBackend")

    answer = browser.post(
        "/api/v1/commitrequests", json.dumps({"namespace": "shop", "target": "live"}), "application/json"
    )

    assert answer.status_code == 403


def test_state_of_a_target(rows: object, web: Store) -> None:
    """The same verdict as the overview's."""
    world.pending(web, world.TargetState.objects.get(namespace="shop"), b"{}")

    body = ask("gittargets/shop/live", "reader-token").json()

    assert (body["state"], body["journalEntries"]) == ("writing", 1)
    assert body["repository"] == "https://github.com/acme/shop.git"
    assert body["conditions"][0]["type"] == "Ready"


def test_commits_are_filtered(rows: world.TargetState) -> None:
    """By author, object, time and words."""
    world.commit(5, rows, author_name="Bob", author_email="", username="bob")

    def found(query: str) -> list[str]:
        answer = ask(f"commits?{query}", "reader-token")
        assert answer.status_code == 200, answer.content
        return [item["message"].split("\n")[0][-1] for item in answer.json()["results"]]

    assert found("author=bob") == ["5"]
    assert found("object=menu-1") == ["1"]
    assert found("namespace=depot") == ["2"]
    assert found("search=number+bob") == ["5"]
    assert found("order=pushedAt") == ["5", "2", "1"]
    assert found(f"since={(world.NOW).isoformat().replace('+', '%2B')}") == []


def test_cursor(rows: world.TargetState) -> None:
    """Pages follow each other without gap or overlap."""
    for number in range(10, 35):
        world.commit(number, rows)

    seen, page = [], ask("commits?limit=10", "reader-token").json()
    while True:
        seen += [item["id"] for item in page["results"]]
        assert len(page["results"]) <= 10
        if page["next"] is None:
            break
        page = ask(page["next"].split("/api/v1/")[1], "reader-token").json()

    assert len(seen) == len(set(seen)) == 27


def test_cursor_while_rows_are_written(rows: world.TargetState) -> None:
    """What is committed while somebody pages is on no later page, and pushes nothing from one to another."""
    for number in range(10, 30):
        world.commit(number, rows)

    seen, page = [], ask("commits?limit=10", "reader-token").json()
    for added in range(40, 60):
        seen += [item["sha"] for item in page["results"]]
        if page["next"] is None:
            break
        world.commit(added, rows, pushed_at=world.NOW)
        page = ask(page["next"].split("/api/v1/")[1], "reader-token").json()

    assert sorted(seen) == [f"{number:040x}" for number in (1, 2, *range(10, 30))]


@pytest.mark.parametrize(
    "path",
    [
        "commits?limit=0",
        "commits?limit=201",
        "commits?limit=ten",
        "commits?order=color",
        "commits?since=yesterday",
        "commits?since=2026-13-45T00:00:00Z",
        "commits?search=%00",
        "commits?namespace=Shop",
        "gittargets?namespace=../x",
        "rules?kind=Secret",
        "commitrequests/shop/save-1?wait=61",
        "commitrequests?state=odd",
    ],
)
def test_what_cannot_be_read(rows: object, path: str) -> None:
    """A 400 that names the field."""
    answer = ask(path, "reader-token")

    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == PROBLEM
    assert answer.json()["causes"][0]["field"]


def test_etag(rows: object) -> None:
    """Unchanged is told without a body; another caller's answer is never reused."""
    first = ask("gittargets", "reader-token")

    again = ask("gittargets", "reader-token", headers={"If-None-Match": first["ETag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert "Authorization" in first["Vary"] and "private" in first["Cache-Control"]


def test_throttle(rows: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the rate a caller is asked to wait; others are not."""
    monkeypatch.setattr(settings, "CONFIG", dataclasses.replace(settings.CONFIG, rest_rate=3))

    codes = [ask("gittargets", "reader-token").status_code for _ in range(4)]
    refused = ask("gittargets", "reader-token")

    assert codes == [200, 200, 200, 429]
    assert int(refused["Retry-After"]) >= 1
    assert ask("gittargets?namespace=shop", "shopper-token").status_code == 200


def test_cluster_away(rows: object, web_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is let in on trust: 503, and what to do."""
    from reverser.errors import KubeUnavailable

    def away(*_args: object, **_rest: object) -> None:
        raise KubeUnavailable("the API server does not answer: check it")

    monkeypatch.setattr("reverser.rest.authentication.review_token", away)

    answer = ask("gittargets", "reader-token")

    assert answer.status_code == 503
    assert answer["Content-Type"] == PROBLEM


def _dead(tmp_path: Path) -> Path:
    """A kubeconfig for an API server that is not there."""
    cluster = {"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "gone", "context": {"cluster": "gone", "user": "gone"}}
    user = {"name": "gone", "user": {"token": "x"}}
    path = tmp_path / "dead-kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "gone",
                "clusters": [cluster],
                "contexts": [context],
                "users": [user],
            }
        )
    )
    return path


def test_no_answer_is_no_right(
    rows: object, viewer: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither TokenReview nor SubjectAccessReview answers: 503 and when to come back, not 401, 403 or 500."""
    monkeypatch.setenv("KUBECONFIG", str(_dead(tmp_path)))
    wiring.kube.cache_clear()
    body = json.dumps({"namespace": "shop", "target": "live"})
    answers = [
        ask("gittargets", "reader-token"),
        ask("events", "reader-token"),
        post("shopper-token", {"namespace": "shop", "target": "live"}),
        viewer.get("/api/v1/gittargets"),
        viewer.get("/api/v1/commits"),
        viewer.get("/api/v1/gitproviders/shop/repo"),
        viewer.post("/api/v1/commitrequests", body, content_type="application/json"),
    ]

    assert [answer.status_code for answer in answers] == [503] * len(answers)
    for answer in answers:
        assert answer["Content-Type"] == PROBLEM
        assert int(answer["Retry-After"]) > 0
        assert "reader-token" not in answer.content.decode()
    assert not OPEN._open


# -- saving


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


# -- events


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 5.0
        return self.now


@pytest.fixture
def places() -> OpenRequests:
    return OpenRequests(in_all=2, of_one=1)


def _settled(store: Store, namespace: str, number: int) -> None:
    """An outcome in the store, settled the way a writer does."""
    branch = BranchKey(namespace, "repo", "main")
    store.open_journal(branch)
    fence = store.acquire_lease(LeaseKind.BRANCH, branch.id, "w", 60_000, "worker")
    assert fence is not None
    target = TargetRef(f"uid-{namespace}-live", namespace, "live")
    outcome = Outcome(f"o-{namespace}-{number}", OutcomeKind.PUSHED, branch, target, commit="c" * 40)
    assert store.settle(branch, fence, Settlement(outcome, ()))


def _stream(
    store: Store, places: OpenRequests, name: str = "shopper", namespace: str = "shop"
) -> OutcomeStream:
    places.enter(name)
    return OutcomeStream(
        store,
        kube(),
        caller=Caller(name),
        access=Access("list", "gittargets", namespace),
        after="0-0",
        places=places,
        seconds=30,
        clock=_Clock(),
    )


def _events(lines: Iterator[bytes]) -> list[dict[str, Any]]:
    text = b"".join(lines).decode()
    return [json.loads(part.split("data: ", 1)[1]) for part in text.split("\n\n") if part.startswith("id: ")]


def test_outcomes_as_events(rows: object, web: Store, places: OpenRequests) -> None:
    """Only those of the namespace that was asked for, each with its place."""
    _settled(web, "shop", 1)
    _settled(web, "depot", 2)

    found = _events(_stream(web, places))

    assert [(item["id"], item["kind"], item["namespace"]) for item in found] == [
        ("o-shop-1", "pushed", "shop")
    ]


def test_stream_ends_where_the_right_does(rows: object, web: Store, places: OpenRequests) -> None:
    """A caller who may not (any more) is told nothing."""
    _settled(web, "shop", 1)

    lines = list(_stream(web, places, "nobody"))

    assert b"event: end" in lines[-1]
    assert not _events(iter(lines))


def test_places_are_given_back(rows: object, web: Store, places: OpenRequests) -> None:
    """Also by a stream that nobody ever read from."""
    from rest_framework.exceptions import Throttled

    stream = _stream(web, places)
    with pytest.raises(Throttled):
        places.enter("shopper")

    stream.close()
    stream.close()

    places.enter("shopper")
    places.enter("other")
    with pytest.raises(Throttled):
        places.enter("third")


def test_events_over_http(rows: object) -> None:
    """The head of the answer, and refusals as problems."""
    answer = ask("events?namespace=shop", "shopper-token", headers={"Accept": "text/event-stream"})
    assert answer["Content-Type"] == "text/event-stream"
    assert next(iter(answer.streaming_content)).startswith(b"retry:")
    answer.close()

    refused = ask("events", "shopper-token", headers={"Accept": "text/event-stream"})
    odd = ask("events?namespace=shop", "shopper-token", headers={"Last-Event-ID": "x"})
    assert (refused.status_code, refused["Content-Type"]) == (403, PROBLEM)
    assert odd.status_code == 400


def test_head_of_events_takes_no_place(rows: object) -> None:
    """Whoever asks for the head only gets it at once."""
    answer = Client().head("/api/v1/events?namespace=shop", headers={"Authorization": "Bearer shopper-token"})

    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
    assert not OPEN._open


def test_no_more_streams_than_places(rows: object) -> None:
    """Beyond the bound a caller is told to come back; the streams that are open go on."""
    held = [ask("events?namespace=shop", "shopper-token") for _ in range(2)]
    try:
        refused = ask("events?namespace=shop", "shopper-token")

        assert (refused.status_code, refused["Content-Type"]) == (429, PROBLEM)
        assert int(refused["Retry-After"]) > 0
        assert next(iter(held[0].streaming_content)).startswith(b"retry:")
    finally:
        for answer in held:
            answer.close()
    assert not OPEN._open


def test_stream_ends_where_the_store_does(rows: object, web: Store, places: OpenRequests) -> None:
    """Redis goes away under an open stream: it ends in words, its place is free, the next one goes on."""
    _settled(web, "shop", 1)
    stream = _stream(web, places)
    assert b"retry" in next(stream)
    first = next(stream)
    place = first.decode().split("\n")[0].removeprefix("id: ")
    away = Store.connect("redis://127.0.0.1:1/0", deadline_s=0.2)
    stream._store = away

    last = list(stream)[-1]
    stream.close()
    away.close()

    assert last.startswith(b"event: end")
    _settled(web, "shop", 2)
    again = OutcomeStream(
        web,
        kube(),
        caller=Caller("shopper"),
        access=Access("list", "gittargets", "shop"),
        after=place,
        places=places,
        seconds=30,
        clock=_Clock(),
    )
    places.enter("shopper")
    assert [item["id"] for item in _events(again)] == ["o-shop-2"]
    again.close()
