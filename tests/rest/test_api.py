"""REST: who gets in, what RBAC lets them see, and the manners of every answer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from reverser import wiring
from reverser.rest.access import Access, may
from reverser.rest.identity import Caller
from reverser.rest.throttling import OPEN
from reverser.sandbox.thread import SandboxServer
from reverser.store import Store
from reverser.store.model import BranchKey
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
    world.TargetState.objects.filter(namespace="shop").update(retention=world.KEPT)

    body = ask("gittargets/shop/live", "reader-token").json()

    assert (body["state"], body["journalEntries"]) == ("writing", 1)
    assert body["repository"] == "https://github.com/acme/shop.git"
    assert body["conditions"][0]["type"] == "Ready"
    assert body["retention"] == world.KEPT
    assert ask("gittargets/depot/live", "reader-token").json()["retention"] is None


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
