"""Who may see what, and who may do what: every page and action against every kind of person."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from reverser.store import Store
from reverser.store.model import StreamState
from tests.dashboard import world

PAGES = (
    "/admin/",
    "/admin/history/targetstate/",
    "/admin/history/targetstate/{target}/change/",
    "/admin/history/commit/",
    "/admin/history/commit/{commit}/change/",
    "/admin/history/commit/{commit}/diff/",
    "/admin/history/commit/{commit}/diff/?view=side",
    "/admin/history/saverequest/",
    "/admin/history/saverequest/{request}/change/",
    "/admin/history/incident/",
    "/admin/history/incident/{incident}/change/",
    "/admin/branches/",
    "/admin/branches/{branch}/",
)
ACTIONS = (
    "/admin/history/targetstate/{target}/do/save/",
    "/admin/history/targetstate/{target}/do/recheck/",
    "/admin/history/targetstate/{target}/do/replay/",
    "/admin/branches/{branch}/wake/",
)
WRITES = (
    "/admin/history/targetstate/add/",
    "/admin/history/commit/add/",
    "/admin/history/commit/{commit}/delete/",
    "/admin/history/saverequest/{request}/delete/",
)
PEOPLE_PAGES = ("/admin/auth/user/", "/admin/auth/group/", "/admin/admin/logentry/")


@pytest.fixture
def names(web: Store) -> dict[str, object]:
    """One of everything, by the name in the addresses."""
    target = world.target()
    world.stream(web, target)
    world.pending(web, target, b"{}")
    return {
        "target": target.pk,
        "commit": world.commit(1, target).pk,
        "request": world.request(target).pk,
        "incident": world.incident(target).pk,
        "branch": world.key(target).id,
    }


def _browser(who: str) -> Client:
    browser = Client()
    if who == "stranger":
        return browser
    groups = (who,) if who in ("viewer", "operator") else ()
    user = world.person(f"{who}-person", *groups, superuser=who == "superuser")
    if who == "not staff":
        user.is_staff = False
        user.save()
    browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return browser


@pytest.mark.parametrize(
    ("who", "pages", "actions"),
    [
        ("stranger", 302, 302),
        ("not staff", 302, 302),
        ("nobody", 403, 403),
        ("viewer", 200, 403),
        ("operator", 200, 200),
        ("superuser", 200, 200),
    ],
)
def test_matrix(names: dict[str, object], who: str, pages: int, actions: int) -> None:
    """Viewers see everything, operators act; what needs a login leads to it."""
    browser = _browser(who)

    seen = {page: browser.get(page.format(**names)).status_code for page in PAGES}
    asked = {page: browser.get(page.format(**names)).status_code for page in ACTIONS}
    done = {page: browser.post(page.format(**names)).status_code for page in ACTIONS}

    assert seen == dict.fromkeys(PAGES, pages)
    assert asked == dict.fromkeys(ACTIONS, actions)
    assert done == dict.fromkeys(ACTIONS, 302 if actions == 200 else actions)


@pytest.mark.parametrize("who", ["viewer", "operator", "superuser"])
def test_history_is_read_only(names: dict[str, object], who: str) -> None:
    """Nobody writes or deletes history by hand."""
    browser = _browser(who)

    assert {browser.post(page.format(**names)).status_code for page in WRITES} == {403}


@pytest.mark.parametrize(("who", "expected"), [("viewer", 403), ("operator", 403), ("superuser", 200)])
def test_people_are_for_administrators(names: dict[str, object], who: str, expected: int) -> None:
    """Only administrators see the pages of people and groups."""
    browser = _browser(who)

    assert {browser.get(page).status_code for page in PEOPLE_PAGES} == {expected}


def test_without_token_nothing_is_done(names: dict[str, object]) -> None:
    """A foreign page cannot make a person act."""
    user = world.person("olga", "operator")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    assert {browser.post(page.format(**names)).status_code for page in ACTIONS} == {403}


def test_actions_leave_a_trail(names: dict[str, object], operator: Client) -> None:
    """Who, on what, and what was told."""
    for page in ACTIONS:
        assert operator.post(page.format(**names), {"message": "because"}).status_code == 302

    trail = {(entry.user.get_username(), entry.object_repr) for entry in LogEntry.objects.all()}
    told = " ".join(entry.get_change_message() for entry in LogEntry.objects.all())
    assert trail == {("olga", "shop/live"), ("olga", "shop/repo/main")}
    assert all(title in told for title in ("Save now", "Check folder again", "Replay", "Wake branch"))


def test_replay_raises_what_is_wanted(names: dict[str, object], operator: Client, web: Store) -> None:
    """The type asked for replays, also when it was parked."""
    operator.post("/admin/history/targetstate/{target}/do/replay/".format(**names), {"type": "configmaps"})

    (marks,) = web.read_marks("uid-shop-live").values()
    assert marks.needs_replay
    assert not marks.parked_reason


def test_recheck_lifts_the_park(names: dict[str, object], operator: Client, web: Store) -> None:
    """A folder that was refused is looked at again; other parks stay."""
    (scope,) = web.read_streams("uid-shop-live")
    web.raise_wanted(scope, parked_reason="path-refused")

    operator.post("/admin/history/targetstate/{target}/do/recheck/".format(**names))

    assert web.read_marks("uid-shop-live")[scope].parked_reason == ""


def test_save_is_made_in_the_persons_name(
    names: dict[str, object], operator: Client, web_sandbox: object
) -> None:
    """The cluster sees the person, not the product."""
    from reverser.sandbox.thread import SandboxServer

    assert isinstance(web_sandbox, SandboxServer)
    answer = operator.post(
        "/admin/history/targetstate/{target}/do/save/".format(**names),
        {"message": "named\r\nso"},
        follow=True,
    )

    assert b"was created" in answer.content
    made = [
        o
        for o in web_sandbox.objects("configbutler.ai", "commitrequests")
        if o["spec"].get("message") == "named\nso"
    ]
    assert len(made) == 1


def test_refused_save_tells_why(names: dict[str, object], web: Store) -> None:
    """RBAC knows nothing of this operator's group: the page says so, nothing is recorded."""
    from django.contrib.auth.models import Group, Permission

    odd = Group.objects.create(name="odd")
    odd.permissions.set(Permission.objects.filter(content_type__app_label="history"))
    browser = Client()
    browser.force_login(world.person("otto", "odd"), backend="django.contrib.auth.backends.ModelBackend")

    answer = browser.post("/admin/history/targetstate/{target}/do/save/".format(**names))

    assert answer.status_code == 409
    assert b"gitops-reverser:otto" in answer.content
    assert not LogEntry.objects.exists()


def test_gone_target_has_no_actions(operator: Client) -> None:
    """Nothing can be asked of what is not there."""
    gone = world.target("gone", removed_at=world.NOW)

    assert operator.get(f"/admin/history/targetstate/{gone.pk}/change/").status_code == 200
    assert operator.post(f"/admin/history/targetstate/{gone.pk}/do/replay/").status_code == 404


@pytest.mark.parametrize("page", ["0", "999999", "x", "9" * 30])
def test_unknown_rows(operator: Client, page: str) -> None:
    """Not found, not an error."""
    for model in ("targetstate", "commit", "saverequest"):
        assert operator.get(f"/admin/history/{model}/{page}/change/").status_code == 404


def test_blocked_stream_is_shown(viewer: Client, web: Store) -> None:
    """With its state in words."""
    target = world.target()
    world.stream(web, target, StreamState.BLOCKED)

    assert b"blocked" in viewer.get(f"/admin/history/targetstate/{target.pk}/change/").content


LIVE = ("/admin/", "/admin/branches/", "/admin/history/targetstate/{target}/change/")


@pytest.mark.parametrize("page", LIVE)
def test_session_that_is_over(names: dict[str, object], page: str) -> None:
    """The part of a page that renews itself is never filled with the login form: the page is loaded anew."""
    answer = Client().get(page.format(**names), headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Refresh"], answer.content) == (204, "true", b"")
