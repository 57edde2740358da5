"""Logging in through a real, small provider: who gets in, as whom, with which rights; and who does not."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.contrib.messages import get_messages
from django.test import Client

from reverser.dashboard import oidc
from reverser.history.models import OpenIdentity
from reverser.rest.identity import session_caller
from reverser.store import Store
from tests.dashboard import world
from tests.dashboard.provider import CLIENT, SECRET, Provider, serving

ALICE = {"sub": "subject-1", "preferred_username": "alice", "groups": ["staff"], "email": "alice@example.com"}


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with serving() as found:
        yield found


@pytest.fixture
def provider(web: Store, server: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A truthful provider where Alice is of the staff."""
    for item in dataclasses.fields(Provider):
        if item.name not in ("port", "keys"):
            fresh = item.default_factory() if callable(item.default_factory) else item.default
            setattr(server, item.name, fresh)
    server.person = dict(ALICE)
    more = {
        "oidc_issuer": server.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_viewer_groups": frozenset({"staff", "auditors"}),
        "oidc_operator_groups": frozenset({"ops"}),
    }
    monkeypatch.setattr(settings, "CONFIG", dataclasses.replace(settings.CONFIG, **more))
    oidc.ENDPOINTS.clear()
    yield server
    oidc.ENDPOINTS.clear()


def _begin(browser: Client, goal: str = "") -> str:
    """To the provider and back: the address that the browser is sent to with the code."""
    answer = browser.get("/oidc/login", {"next": goal} if goal else {})
    assert answer.status_code == 302, answer.content
    back = requests.get(answer["Location"], allow_redirects=False, timeout=60).headers["Location"]
    assert back.startswith("http://testserver/oidc/callback?")
    return back.removeprefix("http://testserver")


def _log_in(browser: Client, goal: str = "") -> Any:
    return browser.get(_begin(browser, goal))


def _refusal(answer: Any) -> str:
    """The words on the login page."""
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/")
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def _inside(browser: Client) -> bool:
    return browser.get("/admin/").status_code == 200


def test_login(provider: Provider) -> None:
    """A person of the staff is a viewer, without a password here, for an hour."""
    browser = Client()

    answer = _log_in(browser, "/admin/branches/")

    assert answer["Location"] == "/admin/branches/"
    assert _inside(browser)
    user = User.objects.get()
    assert (user.username, user.email) == ("alice", "alice@example.com")
    assert (user.is_staff, user.is_superuser, user.has_usable_password()) == (True, False, False)
    assert session_caller(user).groups[0] == "gitops-reverser:viewer"
    assert browser.session.get_expiry_age() <= 3600
    assert not {"oidc_access_token", "oidc_id_token"} & set(browser.session.keys())


def test_the_login_page_offers_it(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that keeps where the person wanted to go; nothing where no issuer is set."""
    assert b"/oidc/login?next=/admin/branches/" in Client().get("/admin/login/?next=/admin/branches/").content

    monkeypatch.setattr(settings, "CONFIG", dataclasses.replace(settings.CONFIG, oidc_issuer=""))

    assert b"/oidc/login" not in Client().get("/admin/login/").content
    assert Client().get("/oidc/login").status_code == 404
    assert Client().get("/oidc/callback?code=a&state=b").status_code == 404


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["staff"], {"viewer"}),
        (["ops"], {"operator"}),
        (["ops", "auditors", "other"], {"viewer", "operator"}),
        ("ops", {"operator"}),
    ],
)
def test_groups_are_rights(provider: Provider, groups: object, expected: set[str]) -> None:
    """A person's groups here are those that the issuer's groups map to."""
    provider.person["groups"] = groups

    _log_in(Client())

    assert set(User.objects.get().groups.values_list("name", flat=True)) == expected


@pytest.mark.parametrize("groups", [["other"], [], None, "", {"staff": True}, 7])
def test_no_group_no_entry(provider: Provider, groups: object) -> None:
    """Nobody comes in only because the issuer knows them."""
    provider.person["groups"] = groups
    browser = Client()

    assert "none of your groups" in _refusal(_log_in(browser))
    assert not _inside(browser)


def test_rights_follow_at_the_next_login(provider: Provider) -> None:
    """Lost groups are lost here, in sessions that are open too; groups that a person gave here stay."""
    provider.person["groups"] = ["ops"]
    browser = Client()
    _log_in(browser)
    user = User.objects.get()
    user.groups.add(Group.objects.create(name="local"))
    assert _inside(browser)

    provider.person["groups"] = []
    _refusal(_log_in(Client()))

    assert not _inside(browser)
    assert list(User.objects.get().groups.values_list("name", flat=True)) == ["local"]


def test_a_person_is_the_subject(provider: Provider) -> None:
    """A new name is the same account; another subject with an old name is not, and is not let in by it."""
    _log_in(Client())
    provider.person["preferred_username"] = "alice.new"
    _log_in(Client())
    assert [user.username for user in User.objects.all()] == ["alice.new"]

    provider.person = {**ALICE, "sub": "subject-2", "preferred_username": "alice.new"}

    assert "belongs to another account" in _refusal(_log_in(Client()))
    assert OpenIdentity.objects.count() == User.objects.count() == 1


def test_local_accounts_are_not_taken_over(provider: Provider) -> None:
    """Not by name, not by address."""
    admin = world.person("admin", superuser=True)
    admin.email = "alice@example.com"
    admin.save()
    provider.person["preferred_username"] = "admin"
    browser = Client()

    assert "belongs to another account" in _refusal(_log_in(browser))
    assert not _inside(browser)

    provider.person["preferred_username"] = "alice"
    _log_in(browser)
    assert dict(User.objects.values_list("username", "is_superuser")) == {"admin": True, "alice": False}


def test_closed_account(provider: Provider) -> None:
    """An administrator's word here is the last."""
    _log_in(Client())
    User.objects.update(is_active=False)

    assert "closed" in _refusal(_log_in(Client()))


@pytest.mark.parametrize("name", ["", None, "a b", "system:masters", "x" * 151, "a\nb"])
def test_names_that_cannot_be_used(provider: Provider, name: object) -> None:
    """A login without a usable name is refused, says which setting to change, and makes no account."""
    provider.person["preferred_username"] = name

    assert "REVERSER_OIDC_USERNAME_CLAIM" in _refusal(_log_in(Client()))
    assert not User.objects.exists()


def test_claims_of_the_userinfo_endpoint(provider: Provider) -> None:
    """Groups that do not stand in the token are asked for; those of another person do not count."""
    provider.person["groups"] = None
    provider.userinfo = {"groups": ["ops"]}
    _log_in(Client())
    assert [group.name for group in User.objects.get().groups.all()] == ["operator"]

    provider.userinfo = {"groups": ["ops"], "sub": "subject-9"}
    assert "another person" in _refusal(_log_in(Client()))


LIES: list[tuple[str, dict[str, Any]]] = [
    ("of another issuer", {"token": {"iss": "https://elsewhere.example.com"}}),
    ("for another client", {"token": {"aud": "another"}}),
    ("made by another party", {"token": {"aud": [CLIENT, "another"], "azp": "another"}}),
    ("over", {"token": {"exp": int(time.time()) - 3600}}),
    ("without an end", {"token": {"exp": None}}),
    ("without a subject", {"token": {"sub": None}}),
    ("of another login", {"token": {"nonce": "stale"}}),
    ("without a nonce", {"token": {"nonce": None}}),
    ("not signed", {"algorithm": "none"}),
    ("signed with the client's secret", {"algorithm": "HS256"}),
    ("signed with another key", {"published": False}),
]


@pytest.mark.parametrize("lie", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_tokens_that_do_not_count(provider: Provider, lie: dict[str, Any]) -> None:
    """A token that is not the issuer's, for us, now, lets nobody in and makes no account."""
    for name, value in lie.items():
        setattr(provider, name, value)
    browser = Client()

    assert "does not belong" in _refusal(_log_in(browser))
    assert not _inside(browser)
    assert not User.objects.exists()


def test_elliptic_curve(provider: Provider) -> None:
    """Any asymmetric signature of the issuer counts."""
    provider.algorithm = "ES256"
    browser = Client()
    _log_in(browser)

    assert _inside(browser)


def test_an_answer_counts_once_and_for_its_browser(provider: Provider) -> None:
    """Neither a link that was sent to somebody nor one that was used logs anybody in."""
    first, other = Client(), Client()
    back = _begin(first)
    assert "did not confirm" in _refusal(other.get(back))
    _begin(other)
    assert "does not belong" in _refusal(other.get(back))

    first.get(back)
    assert _inside(first)
    first.logout()
    _begin(first)
    assert "does not belong" in _refusal(first.get(back))
    assert not _inside(first)


@pytest.mark.parametrize("goal", ["https://evil.example.com/", "//evil.example.com", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere(provider: Provider, goal: str) -> None:
    """After the login nobody is redirected to an address outside the admin."""
    assert _log_in(Client(), goal)["Location"] == "/admin/"


def test_the_person_says_no(provider: Provider) -> None:
    """A person who declines at the issuer is told so on the login page."""
    provider.error = "access_denied"

    assert "did not confirm" in _refusal(_log_in(Client()))


@pytest.mark.parametrize("endpoint", ["openid-configuration", "keys", "token"])
def test_provider_away(provider: Provider, endpoint: str) -> None:
    """The login page says so, and local people still get in."""
    browser = Client()
    back = "" if endpoint == "openid-configuration" else _begin(browser)
    provider.broken = endpoint

    answer = browser.get(back or "/oidc/login")

    assert "does not answer as it should" in _refusal(answer)
    user = world.person("local", "viewer")
    user.set_password("correct horse battery")
    user.save()
    provider.asked.clear()
    form = {"username": "local", "password": "correct horse battery", "next": "/admin/"}
    assert browser.post("/admin/login/", form)["Location"] == "/admin/"
    assert provider.asked == []


def test_issuer_of_another_name(provider: Provider) -> None:
    """A discovery document counts for the issuer that it names only."""
    provider.issuer = "https://login.example.com"

    assert "REVERSER_OIDC_ISSUER" in _refusal(Client().get("/oidc/login"))


def test_what_is_asked_for(provider: Provider) -> None:
    """Code flow with state, nonce and PKCE; the secret is no part of what a browser sees."""
    answer = Client().get("/oidc/login")

    query = parse_qs(urlsplit(answer["Location"]).query)
    assert query["response_type"] == ["code"] and query["scope"] == ["openid email profile"]
    assert query["code_challenge_method"] == ["S256"]
    assert len(query["state"][0]) >= 32 and len(query["nonce"][0]) >= 32
    assert SECRET not in answer["Location"]


def test_beginning_is_limited(provider: Provider) -> None:
    """Each begun login is a row of the database, so an address has only so many."""
    codes = [Client().get("/oidc/login").status_code for _ in range(oidc.BEGINNINGS + 1)]

    assert codes == [302] * oidc.BEGINNINGS + [429]
