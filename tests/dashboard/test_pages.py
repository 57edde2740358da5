"""What the pages tell, what they must never tell, and what they cost."""

from __future__ import annotations

import fnmatch
import functools
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reverser.dashboard.overview import build
from reverser.dashboard.readings import READING, Reading, read_all
from reverser.history.queries import hours
from reverser.rest import urls as rest
from reverser.store import Store
from reverser.store.model import BranchHealth
from tests.dashboard import world

CANARY = "canary-7f3a9c"
TARGETS = 200


def _queries(browser: Client, page: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert browser.get(page).status_code == 200
    return len(seen)


def test_overview_in_one_look(viewer: Client, web: Store) -> None:
    """Failing first, with reason, age and words; the headline counts."""
    world.target("fine")
    world.target(
        "broken",
        stalled="True",
        ready="False",
        reason="UnsupportedContent",
        message="Git path refused at x.yaml",
        conditions=world.conditions("False", Stalled="True"),
    )

    page = viewer.get("/admin/").content.decode()

    assert "Git may be behind for 1 of 2 targets." in page
    assert page.index("shop/broken") < page.index("shop/fine")
    assert "UnsupportedContent" in page and "Git path refused at x.yaml" in page
    assert re.search(r"for \d+\s(min|h)", page)


def test_no_watcher_is_no_good_news(viewer: Client, web: Store) -> None:
    """All targets may have been up to date when they were last seen; nobody says so while nobody looks."""
    world.target("fine")

    page = viewer.get("/admin/").content.decode()

    assert "Whether Git is up to date cannot be told." in page
    assert "Git is up to date for" not in page
    assert 'id="headline" class="gr-head gr-late"' in page

    web.heartbeat("watcher", "watcher-1", {}, 60)
    web.heartbeat("worker", "worker-1", {}, 60)
    READING.clear()
    page = viewer.get("/admin/").content.decode()

    assert "Git is up to date for the one target." in page
    assert 'id="headline" class="gr-head gr-current"' in page


def test_failing_push_is_a_failing_target(viewer: Client, web: Store) -> None:
    """Though the target's own conditions are good."""
    row = world.target()
    web.open_journal(world.key(row))
    web.write_branch_health(world.key(row), BranchHealth(False, "PushRejected", "hook declined", since_ms=1))

    page = viewer.get("/admin/").content.decode()

    assert "PushRejected" in page and "hook declined" in page


def test_filters(viewer: Client, web: Store) -> None:
    """By text, state and namespace; the counts stay those of everything."""
    world.target("one")
    world.target("two", namespace="depot")

    assert b"depot/two" not in viewer.get("/admin/?namespace=shop").content
    assert b"shop/one" not in viewer.get("/admin/?q=two").content
    assert b"No target matches" in viewer.get("/admin/?state=failing").content


def test_refresh_is_only_what_changes(viewer: Client, web: Store) -> None:
    """The fragment has no page around it, and the same filters."""
    world.target("one")

    found = viewer.get("/admin/?q=one", headers={"HX-Request": "true"})

    assert b"<html" not in found.content and b"shop/one" in found.content
    assert b'hx-swap-oob="true"' in found.content
    assert "HX-Request" in found["Vary"]


@pytest.mark.parametrize("page", ["/admin/", "/admin/branches/", "/admin/history/targetstate/{pk}/change/"])
def test_without_store(viewer: Client, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """Redis away is the news of the page, not its end."""
    row = world.target()
    gone = Store.connect("redis://127.0.0.1:1/0", deadline_s=0.2)
    for place in (
        "reverser.wiring.store",
        "reverser.dashboard.pages.store",
        "reverser.dashboard.branchpages.store",
    ):
        monkeypatch.setattr(place, functools.lru_cache(lambda: gone))
    READING.clear()

    found = viewer.get(page.format(pk=row.pk))

    assert found.status_code == 200
    assert b"Redis cannot serve now" in found.content
    gone.close()


def test_bodies_never_show(operator: Client, web: Store) -> None:
    """Neither a journal's content nor a password of an address is on any page."""
    row = world.target(url=f"https://user:{CANARY}@github.com/acme/shop.git")
    world.pending(web, row, f'{{"data":{{"a":"{CANARY}"}}}}'.encode())
    made = world.commit(1, row)

    pages = [
        "/admin/",
        f"/admin/history/targetstate/{row.pk}/change/",
        "/admin/branches/",
        f"/admin/branches/{world.key(row).id}/",
        f"/admin/history/commit/{made.pk}/change/",
    ]
    text = "".join(operator.get(page).content.decode() for page in pages)

    assert CANARY not in text
    assert "ConfigMap shop/menu" in text


def test_a_branch_is_named_as_it_is(viewer: Client, web: Store) -> None:
    """The theme begins titles with a capital: a name alone would be shown as another one."""
    row = world.target()
    world.pending(web, row, b"{}")

    page = viewer.get(f"/admin/branches/{world.key(row).id}/").content.decode()

    assert f"Branch {world.key(row)}" in page
    assert str(world.key(row)).capitalize() not in page


def test_a_push_is_remembered_when_the_journal_is_not(viewer: Client, web: Store) -> None:
    """After Redis was lost a branch was not "never" pushed: the statuses of its targets say when."""
    row = world.target(last_push_at=datetime.now(tz=UTC) - timedelta(hours=3, minutes=5))
    world.target("older", last_push_at=world.NOW - timedelta(days=9))
    world.pending(web, row, b"{}")

    pages = ["/admin/branches/", f"/admin/branches/{world.key(row).id}/"]
    for page in pages:
        text = viewer.get(page).content.decode()
        assert "3\N{NO-BREAK SPACE}h ago" in text, text
        assert "never" not in text, text


def test_markup_is_escaped(viewer: Client, web: Store) -> None:
    """Whatever people write in messages and names stays text."""
    row = world.target(message="<script>alert(1)</script>", ready="False")
    made = world.commit(1, row, message="<img src=x onerror=alert(1)>")

    for page in ("/admin/", f"/admin/history/commit/{made.pk}/change/", "/admin/history/commit/"):
        content = viewer.get(page).content.decode()
        assert "<script>alert" not in content and "<img src=x" not in content


@pytest.mark.parametrize(
    "page",
    [
        "/admin/",
        "/admin/history/commit/",
        "/admin/history/targetstate/{pk}/change/",
        "/admin/history/targetstate/{pk}/do/save/",
        "/admin/branches/",
        "/api/docs/",
        "/admin/login/",
    ],
)
def test_no_inline_scripts(operator: Client, web: Store, page: str) -> None:
    """The policy forbids them and no page has one; only the admin's theme may compile expressions."""
    row = world.target()
    browser = Client() if page == "/admin/login/" else operator

    found = browser.get(page.format(pk=row.pk))

    policy = found["Content-Security-Policy"]
    scripts = re.search(r"script-src ([^;]*)", policy)
    assert scripts is not None
    assert scripts[1] == ("'self'" if page.startswith("/api") else "'self' 'unsafe-eval'")
    assert "frame-ancestors 'none'" in policy and "default-src 'none'" in policy
    content = found.content.decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>", content)
    assert not re.findall(r"<[^>]+\son[a-z]+\s*=", content)


BUDGETS = {
    "/admin/": 9,
    "/admin/?q=t1&page=2": 9,
    "/admin/history/targetstate/": 9,
    "/admin/history/targetstate/{target}/change/": 10,
    "/admin/history/targetstate/{target}/do/save/": 5,
    "/admin/history/targetstate/{target}/do/replay/": 5,
    "/admin/history/commit/": 9,
    "/admin/history/commit/?q=menu": 9,
    "/admin/history/commit/?namespace=shop&asked=yes": 9,
    "/admin/history/commit/{commit}/change/": 9,
    "/admin/history/commit/{commit}/diff/": 5,
    "/admin/history/saverequest/": 9,
    "/admin/history/saverequest/?q=spring&outcome=pushed": 9,
    "/admin/history/saverequest/{request}/change/": 9,
    "/admin/history/incident/": 9,
    "/admin/history/incident/{incident}/change/": 9,
    "/admin/branches/": 5,
    "/admin/branches/{branch}/": 5,
    "/admin/branches/{branch}/wake/": 5,
    "/api/v1/gittargets?limit=200": 5,
    "/api/v1/gittargets/shop/t000": 5,
    "/api/v1/streams?limit=200": 5,
    "/api/v1/commits?limit=200": 5,
    "/api/v1/commits?search=menu&object=menu-1": 8,
    "/api/v1/commits/{sha}": 6,
    "/api/v1/commitrequests?limit=200": 5,
    "/api/v1/commitrequests/shop/save-0": 5,
    "/api/v1/branches?limit=200": 5,
    "/api/v1/branches/{branch}": 5,
    "/api/v1/gitproviders": 5,
    "/api/v1/gitproviders/shop/repo": 5,
    "/api/v1/rules": 5,
}
"""SQL queries of each page and endpoint, the three of a session included."""


def test_query_budgets(operator: Client, web: Store) -> None:
    """The number of SQL queries does not grow with the number of targets, commits, requests and objects."""
    rows = [world.target(f"t{number:03}") for number in range(TARGETS)]
    for number, row in enumerate(rows[:20]):
        for step in range(3):
            world.commit(number * 10 + step, row)
    first = rows[0]
    asked = [world.request(first, f"save-{number}") for number in range(60)]
    incidents = [world.incident(row) for row in rows[:60]]
    world.stream(web, first)
    world.pending(web, first, b"{}")
    done = world.commit(9000, first, request_uid=asked[0].uid)
    for number in range(120):
        done.objects_changed.create(operation="UPDATE", resource="configmaps", name=f"more-{number}")
    names = {
        "target": first.pk,
        "commit": done.pk,
        "sha": done.sha,
        "request": asked[0].pk,
        "incident": incidents[0].pk,
        "branch": world.key(first).id,
    }

    used = {page: _queries(operator, page.format(**names)) for page in BUDGETS}

    assert {page: count for page, count in used.items() if count > BUDGETS[page]} == {}


def test_every_endpoint_has_a_budget() -> None:
    """A new endpoint of REST comes with its number of queries; events alone are no answer that ends."""
    shapes = {re.sub(r"<[^>]*>", "*", str(item.pattern)) for item in rest.urlpatterns}
    endpoints = {shape for shape in shapes if shape.startswith("v1/")} - {"v1/events"}
    measured = [page.removeprefix("/api/").partition("?")[0] for page in BUDGETS if page.startswith("/api/")]

    assert {shape for shape in endpoints if not fnmatch.filter(measured, shape)} == set()


def test_hours(web: Store) -> None:
    """Twenty-four hours, empty ones included, each with its own commits and changes."""
    row = world.target()
    now = world.NOW.replace(minute=30)
    world.commit(1, row, pushed_at=now, changes_total=3)
    world.commit(2, row, pushed_at=now - timedelta(hours=2), changes_total=5)
    world.commit(3, row, pushed_at=now - timedelta(hours=30))

    found = hours(now)

    assert len(found) == 24
    assert [(hour.commits, hour.changes) for hour in found[-3:]] == [(1, 5), (0, 0), (1, 3)]


def test_search_of_commits(viewer: Client, web: Store) -> None:
    """By message, author, id and object; every word must be found."""
    row = world.target()
    world.commit(1, row)
    world.commit(2, row, author_name="Bob", username="bob")

    def found(words: str) -> set[str]:
        page = viewer.get("/admin/history/commit/", {"q": words}).content.decode()
        return set(re.findall(r"change number (\d)", page))

    assert found("number") == {"1", "2"}
    assert found("bob") == {"2"}
    assert found("menu-1") == {"1"}
    assert found("configmaps menu-2") == {"2"}
    assert found(f"{2:040x}") == {"2"}
    assert found("bob menu-1") == set()


def test_reading_and_rows(web: Store) -> None:
    """A change that waits makes its target, and only that, one that writes."""
    one, other = world.target("one"), world.target("other", branch="side")
    world.pending(web, one, b"{}")

    states = {str(row.target): row.verdict.state.slug for row in build(read_all(web)).rows}

    assert states == {"shop/one": "writing", str(other): "current"}


def test_pages_of_the_overview(web: Store) -> None:
    """A hundred rows on a page; one beyond the last is the last."""
    for number in range(101):
        world.target(f"t{number:03}")

    assert len(build(Reading(), page=1).rows) == 100
    assert len(build(Reading(), page=9).rows) == 1
