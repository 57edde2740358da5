"""A GitHub App against a server that checks what GitHub checks, over real https."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gitwriter.git.remote import Remote
from gitwriter.git.repository import list_remote
from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import Credentials, GitHubApp, parse_credentials
from reverser.trust.github import TokenSource
from reverser.trust.urls import parse_repository_url
from reverser.trust.values import redact
from tests.git.helpers import bare
from tests.git.servers import Authority, git_http, make_authority
from tests.loopback import serving

KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass
class GitHub:
    """The endpoint that gives out installation tokens."""

    port: int = 0
    clock: float = field(default_factory=time.time)
    issued: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    redirect: str = ""
    limit: dict[str, str] = field(default_factory=dict)
    """Headers of a 403 that limits; empty = no limit."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def judge(self, authorization: str, path: str) -> int:
        """201 for a JWT of the App that is valid now, else 401."""
        try:
            head, claims, signature = authorization.removeprefix("Bearer ").split(".")
            KEY.public_key().verify(_raw(signature), f"{head}.{claims}".encode(), PKCS1v15(), hashes.SHA256())
            said = json.loads(_raw(claims))
            assert json.loads(_raw(head)) == {"alg": "RS256", "typ": "JWT"}
            assert said["iss"] == "12"
            assert said["iat"] <= self.clock <= said["exp"] <= self.clock + 600
            assert path == "/app/installations/34/access_tokens"
        except (ValueError, AssertionError, InvalidSignature) as error:
            self.complaints.append(repr(error))
            return 401
        return 201


def _raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextlib.contextmanager
def github(authority: Authority) -> Iterator[GitHub]:
    state = GitHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

        def do_POST(self) -> None:
            status, body, headers = state.judge(self.headers.get("Authorization", ""), self.path), b"", {}
            if state.redirect:
                status, headers = 302, {"Location": state.redirect}
            elif state.limit:
                status, headers = 403, state.limit
            elif status == 201:
                state.issued.append(f"ghs_{len(state.issued)}")
                expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(state.clock + 3600))
                body = json.dumps({"token": state.issued[-1], "expires_at": expires}).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

    with serving(Handler, tls=authority.context()) as state.port:
        yield state


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


def credentials(api: str, authority: Authority, *, url: str = "https://127.0.0.1/r.git") -> Credentials:
    data = {
        "githubAppID": b"12\n",
        "githubAppInstallationID": b"34",
        "githubAppPrivateKey": PEM,
        "githubAppBaseURL": api.encode(),
        "ca.crt": authority.ca.read_bytes(),
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
