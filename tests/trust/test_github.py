"""A GitHub App against a server that checks what GitHub checks, over real https."""

from __future__ import annotations

import base64
import contextlib
import http.server
import threading
import time
from pathlib import Path

import pytest

from gitwriter.git.remote import Remote
from gitwriter.git.repository import list_remote
from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import Credentials, GitHubApp, parse_credentials
from reverser.trust.forge import call
from reverser.trust.github import TokenSource
from reverser.trust.urls import parse_repository_url
from reverser.trust.values import redact
from tests.git.helpers import bare
from tests.git.servers import Authority, git_http, make_authority
from tests.loopback import serving
from tests.trust.github_api import PEM, github


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


def credentials(
    api: str,
    authority: Authority,
    *,
    url: str = "https://127.0.0.1/r.git",
    where: dict[str, bytes] | None = None,
) -> Credentials:
    """The login of an App; ``where`` says which installation."""
    data = {
        "githubAppID": b"12\n",
        "githubAppPrivateKey": PEM,
        "githubAppBaseURL": api.encode(),
        "ca.crt": authority.ca.read_bytes(),
        **({"githubAppInstallationID": b"34"} if where is None else where),
    }
    return parse_credentials(data, parse_repository_url(url), secret="cred")


def app_of(found: Credentials) -> GitHubApp:
    assert isinstance(found.login, GitHubApp)
    return found.login


def test_tokens_are_minted_renewed_and_used(authority: Authority, tmp_path: Path) -> None:
    """Z9, 107: a signed JWT buys a token; it serves until shortly before it expires, then a new one is had;
    a token that the remote refuses is not used again, and none of them stands in a message."""
    bare(tmp_path / "origin.git")
    with github(authority) as hub, git_http(tmp_path, tls=authority.context()) as server:
        source = TokenSource(clock=lambda: hub.clock)
        url = server.url()
        remote = Remote(parse_repository_url(url), credentials(hub.url, authority, url=url), tokens=source)
        server.basic = ("x-access-token", "ghs_0")
        list_remote(remote)
        hub.clock += 2900
        list_remote(remote)
        assert hub.issued == ["ghs_0"]
        hub.clock += 200
        with pytest.raises(RemoteUnavailable):
            list_remote(remote)
        server.basic = ("x-access-token", "ghs_2")
        list_remote(remote)
        assert (hub.issued, hub.complaints) == (["ghs_0", "ghs_1", "ghs_2"], [])
        pair = base64.b64encode(b"x-access-token:ghs_2").decode()
        assert redact(f"remote said ghs_2 and {pair}", remote.secrets) == "remote said **** and ****"


def test_a_refused_app_needs_a_person(authority: Authority) -> None:
    """K4: a JWT that GitHub does not accept names the three entries, and nothing of the key."""
    with github(authority) as hub:
        hub.clock += 10_000
        with pytest.raises(SecretMalformed, match="githubAppPrivateKey") as caught:
            TokenSource().token(app_of(credentials(hub.url, authority)))
        assert PEM.decode().splitlines()[1] not in str(caught.value)
        assert len(hub.complaints) == 1


def test_limits_redirects_and_silence(authority: Authority) -> None:
    """100, 107: a limit says how long to wait; no redirect is followed with the App's token; nobody there is
    no fault of the Secret."""
    with github(authority) as hub, github(authority) as other:
        app = app_of(credentials(hub.url, authority))
        hub.limit = {"Retry-After": "40"}
        with pytest.raises(RemoteUnavailable) as caught:
            TokenSource().token(app)
        assert caught.value.retry_after == 40
        hub.limit = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 90)}
        with pytest.raises(RemoteUnavailable) as caught:
            TokenSource().token(app)
        assert 60 < (caught.value.retry_after or 0) <= 90
        hub.limit, hub.redirect = {}, f"{other.url}/app/installations/34/access_tokens"
        with pytest.raises(RemoteUnavailable, match="302"):
            TokenSource().token(app)
        assert (other.issued, other.complaints) == ([], [])
    with pytest.raises(RemoteUnavailable, match="does not answer"):
        TokenSource().token(app)


def test_an_unknown_authority_gets_no_token(authority: Authority, tmp_path: Path) -> None:
    """Z9: the App's own API is verified like the remote; another authority's certificate is refused."""
    other = make_authority(tmp_path / "other")
    with github(authority) as hub:
        with pytest.raises(RemoteUnavailable):
            TokenSource().token(app_of(credentials(hub.url, other)))
        assert (hub.issued, hub.complaints) == ([], [])


OWNER = {"githubAppInstallationOwner": b"acme-tools\n"}


@pytest.mark.parametrize(
    ("installed", "asked"),
    [
        ({"orgs/acme-tools": 34}, ["GET /orgs/acme-tools/installation"]),
        (
            {"users/acme-tools": 34},
            ["GET /orgs/acme-tools/installation", "GET /users/acme-tools/installation"],
        ),
    ],
)
@pytest.mark.parametrize("base", ["", "/api/v3"])
def test_an_installation_is_found_by_its_owner(
    authority: Authority, tmp_path: Path, installed: dict[str, int], asked: list[str], base: str
) -> None:
    """Z9: Flux names the owner instead of the installation's id: an organization, else a user, at GitHub and
    at a GitHub Enterprise Server; it is looked up once for each token, which then reads the repository."""
    bare(tmp_path / "origin.git")
    with github(authority) as hub, git_http(tmp_path, tls=authority.context()) as server:
        hub.installed, hub.base = installed, base
        url = server.url()
        source = TokenSource(clock=lambda: hub.clock)
        access = credentials(f"{hub.url}{base}/", authority, url=url, where=OWNER)
        remote = Remote(parse_repository_url(url), access, tokens=source)
        server.basic = ("x-access-token", "ghs_0")
        list_remote(remote)
        list_remote(remote)
    wanted = [*asked, "POST /app/installations/34/access_tokens"]
    assert [line.replace(base, "", 1) for line in hub.asked] == wanted
    assert hub.complaints == []


def test_without_installation_the_owner_of_the_repository_counts(authority: Authority) -> None:
    """Z9: Argo CD finds the installation by the repository's owner; so does the same Secret here."""
    with github(authority) as hub:
        hub.installed = {"orgs/acme": 34}
        found = credentials(hub.url, authority, url="https://github.example/acme/shop.git", where={})
        assert TokenSource().token(app_of(found)).reveal() == b"ghs_0"


def test_an_owner_without_the_app_needs_a_person(authority: Authority) -> None:
    """K4: not installed, refused and suspended are told apart by which entries are named, none of which is
    quoted; a limit, a broken answer and a redirect are asked again later."""
    with github(authority) as hub:
        app = app_of(credentials(hub.url, authority, where=OWNER))
        with pytest.raises(SecretMalformed, match="githubAppInstallationOwner") as caught:
            TokenSource().token(app)
        assert "acme" not in str(caught.value)
        assert hub.asked == ["GET /orgs/acme-tools/installation", "GET /users/acme-tools/installation"]
        hub.installed, hub.suspended = {"orgs/acme-tools": 34}, True
        with pytest.raises(SecretMalformed, match="suspended"):
            TokenSource().token(app)
        hub.suspended = False
        for body in (b"[]", b"{}", b'{"id": "34"}', b'{"id": true}', b'{"id": -1}', b"\xff", b"<html>"):
            hub.lookup = (200, body)
            with pytest.raises(RemoteUnavailable, match="no installation"):
                TokenSource().token(app)
        hub.lookup = (502, b"")
        with pytest.raises(RemoteUnavailable, match="HTTP 502"):
            TokenSource().token(app)
        hub.lookup, hub.limit = None, {"Retry-After": "40"}
        with pytest.raises(RemoteUnavailable) as slower:
            TokenSource().token(app)
        assert slower.value.retry_after == 40
        hub.limit, hub.redirect = {}, f"{hub.url}/orgs/other/installation"
        with pytest.raises(RemoteUnavailable, match="HTTP 302"):
            TokenSource().token(app)
        hub.redirect, hub.clock = "", hub.clock + 10_000
        with pytest.raises(SecretMalformed, match="githubAppPrivateKey"):
            TokenSource().token(app)
        assert hub.issued == []


def test_an_api_that_drips_is_given_up(authority: Authority) -> None:
    """A server that sends a byte now and then, head or body, is left after the deadline of the whole call."""
    ended = threading.Event()

    class Dripping(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            head = b"HTTP/1.1 200 OK\r\n" + (b"X" if self.path == "/head" else b"Content-Length: 999\r\n\r\n")
            with contextlib.suppress(OSError):
                self.wfile.write(head)
                while not ended.wait(0.02):
                    self.wfile.write(b"x")

    with serving(Dripping, tls=authority.context()) as port:
        try:
            for path in ("head", "body"):
                url = f"https://127.0.0.1:{port}/{path}"
                with pytest.raises(RemoteUnavailable, match="does not answer"):
                    call("GET", url, "jwt", authority.ca.read_bytes(), seconds=0.3)
        finally:
            ended.set()
