"""Against ``git http-backend``: logins, private authorities, client certificates, refusals, silence."""

from __future__ import annotations

import base64
import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gitwriter.git.errors import CloneUnusable
from gitwriter.git.httpstatus import parse_retry_after
from gitwriter.git.probe import refused_push
from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository, Deadlines, PushResult, list_remote
from reverser.errors import RemoteUnavailable
from reverser.trust.credentials import Credentials, parse_credentials
from reverser.trust.forge import Answer
from reverser.trust.github import TokenSource
from reverser.trust.urls import parse_repository_url
from tests.git.helpers import ALICE, OPERATOR, WHEN, bare, git, hook, human_commit
from tests.git.servers import Authority, GitHttp, git_http, make_authority

TOKEN = "zq-CANARY-token-4711"
PATIENT = Deadlines()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bare(tmp_path / "srv" / "origin.git")
    git(tmp_path / "srv" / "origin.git", "config", "http.receivepack", "true")
    return tmp_path / "srv"


@pytest.fixture
def server(root: Path) -> Iterator[GitHttp]:
    with git_http(root) as running:
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"))


def secret(url: str, **data: bytes | str) -> Credentials:
    raw = {
        key.replace("_", "."): value if isinstance(value, bytes) else value.encode()
        for key, value in data.items()
    }
    return parse_credentials(raw, parse_repository_url(url), secret="cred")


def write(remote: Remote, path: Path, *, deadlines: Deadlines = PATIENT) -> str:
    """A whole round: list, fetch, commit, push. Returns the new tip."""
    with BareRepository.open_or_create(path, remote.url.text, deadlines=deadlines) as repo:
        refs = repo.list_remote(remote).branches
        tip = repo.fetch(remote, refs).get("main")
        new = repo.commit(
            parent=tip,
            files={"live/a": str(time.monotonic()).encode()},
            author=ALICE,
            committer=OPERATOR,
            when=WHEN,
            message=b"m",
        )
        assert repo.push(remote, branch="main", new=new, expected=tip) is PushResult.PUSHED
    return new


def test_basic_and_bearer(server: GitHttp, root: Path, tmp_path: Path) -> None:
    """A05: each login works for listing, fetching and pushing."""
    server.basic = ("bot", "p4:ss wörd")
    human_commit(root / "origin.git", "main", "README", "x")
    basic = Remote.of(server.url(), secret(server.url(), username="bot", password="p4:ss wörd"))
    first = write(basic, tmp_path / "c")
    server.basic, server.bearer = None, TOKEN
    bearer = Remote.of(server.url(), secret(server.url(), bearerToken=TOKEN))
    second = write(bearer, tmp_path / "c")
    assert git(root / "origin.git", "rev-list", "--count", "main") == "3"
    assert git(root / "origin.git", "rev-parse", "main", "main^").split() == [second, first]


def test_wrong_login_is_no_leak(server: GitHttp, tmp_path: Path) -> None:
    """A08, 106: a refused login is retried later, and the message does not hold the secret in any form."""
    server.basic = ("bot", "right")
    remote = Remote.of(server.url(), secret(server.url(), username="bot", password=TOKEN))
    with pytest.raises(RemoteUnavailable) as caught:
        write(remote, tmp_path / "c")
    assert TOKEN not in str(caught.value)
    assert "wants a login and takes none that it was given" in str(caught.value)
    assert "askpass" not in str(caught.value)
    server.basic = ("bot", TOKEN)
    write(remote, tmp_path / "c")
    for file in (tmp_path / "c").rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_private_authority(root: Path, authority: Authority, tmp_path: Path) -> None:
    """Z9: a custom authority from the Secret is trusted; without it the connection is refused."""
    with git_http(root, tls=authority.context()) as server:
        with pytest.raises(RemoteUnavailable):
            list_remote(Remote.of(server.url()))
        trusted = secret(server.url(), ca_crt=authority.ca.read_bytes())
        write(Remote.of(server.url(), trusted), tmp_path / "c")
        server.basic = ("bot", "p")
        both = secret(server.url(), ca_crt=authority.ca.read_bytes(), username="bot", password="p")
        write(Remote.of(server.url(), both), tmp_path / "c")


def test_client_certificate(root: Path, authority: Authority, tmp_path: Path) -> None:
    """Z9: a client certificate from the Secret is presented."""
    with git_http(root, tls=authority.context(demand_client=True)) as server:
        ca = authority.ca.read_bytes()
        with pytest.raises(RemoteUnavailable):
            list_remote(Remote.of(server.url(), secret(server.url(), ca_crt=ca)), deadlines=PATIENT)
        mutual = secret(
            server.url(),
            ca_crt=ca,
            tls_crt=authority.client_cert.read_bytes(),
            tls_key=authority.client_key.read_bytes(),
        )
        write(Remote.of(server.url(), mutual), tmp_path / "c")


def test_credentials_stay_with_their_host(server: GitHttp) -> None:
    """The header is bound to the repository's host in git's configuration."""
    remote = Remote.of(server.url(), secret(server.url(), bearerToken=TOKEN))
    with remote.environment() as environment:
        text = Path(environment["GIT_CONFIG_GLOBAL"]).read_text()
        assert f'[http "http://127.0.0.1:{server.port}/"]' in text
        assert not any(TOKEN in value for value in environment.values())


def test_github_app_token(server: GitHttp, tmp_path: Path) -> None:
    """Z9, 107: an App's token is minted and sent as the password of x-access-token."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    app = secret(server.url(), githubAppID="12", githubAppInstallationID="34", githubAppPrivateKey=pem)
    calls = []

    def call(method: str, url: str, jwt: str, ca: bytes) -> Answer:
        calls.append(url)
        return Answer(201, b'{"token": "ghs_x", "expires_at": "2999-01-01T00:00:00Z"}')

    server.basic = ("x-access-token", "ghs_x")
    remote = Remote(parse_repository_url(server.url()), app, tokens=TokenSource(call=call))
    write(remote, tmp_path / "c")
    assert calls == ["https://api.github.com/app/installations/34/access_tokens"]


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_error_answers_are_transient(server: GitHttp, tmp_path: Path, status: int) -> None:
    """A server that answers an error is asked again later."""
    server.answer = status
    with pytest.raises(RemoteUnavailable):
        write(Remote.of(server.url()), tmp_path / "c")


@pytest.mark.parametrize(("status", "expected"), [(429, 120.0), (403, 120.0), (503, 120.0), (500, None)])
def test_a_limiting_server_is_left_alone_as_long_as_it_asks(
    server: GitHttp, authority: Authority, root: Path, status: int, expected: float | None
) -> None:
    """100: Retry-After of a limiting answer becomes the delay, also behind a private authority."""
    with git_http(root, tls=authority.context(demand_client=True)) as secure:
        for target, data in (
            (server, {"bearerToken": TOKEN}),
            (
                secure,
                {
                    "bearerToken": TOKEN,
                    "ca_crt": authority.ca.read_bytes(),
                    "tls_crt": authority.client_cert.read_bytes(),
                    "tls_key": authority.client_key.read_bytes(),
                },
            ),
        ):
            target.answer, target.retry_after = status, "120"
            with pytest.raises(RemoteUnavailable) as caught:
                list_remote(Remote.of(target.url(), secret(target.url(), **data)))
            assert caught.value.retry_after == expected
            assert set(target.authorizations) == {f"Bearer {TOKEN}"}


def test_forms_of_retry_after() -> None:
    """100: seconds or a date, bounded; anything else is no wish."""
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert parse_retry_after("7", now=0) == 7
    assert parse_retry_after("999999", now=0) == 3600
    assert parse_retry_after(date, now=1445412470) == 10
    assert parse_retry_after(date, now=1445499999) == 0
    assert parse_retry_after("soon", now=0) is None
    assert parse_retry_after("", now=0) is None


def test_a_read_only_login_fails_at_the_push(server: GitHttp, root: Path, tmp_path: Path) -> None:
    """K9: reading works, the push does not, and the remote is unchanged."""
    tip = human_commit(root / "origin.git", "main", "README", "x")
    server.read_only = True
    with pytest.raises(RemoteUnavailable, match="push"):
        write(Remote.of(server.url()), tmp_path / "c")
    assert git(root / "origin.git", "rev-parse", "main") == tip


def test_a_silent_server_is_abandoned(server: GitHttp, tmp_path: Path) -> None:
    """F15: a server that accepts and never answers costs no more than the deadline."""
    server.hang.set()
    began = time.monotonic()
    with pytest.raises(RemoteUnavailable, match="does not answer"):
        list_remote(Remote.of(server.url()), deadlines=Deadlines(listing=0.5))
    assert time.monotonic() - began < 60


def until_told(folder: Path) -> str:
    """Shell for a hook: it says that it runs, and goes on when ``go`` is there."""
    return f"touch {folder}/inside; while [ ! -e {folder}/go ]; do sleep 0.05; done"


def test_a_push_that_falls_silent_is_decided_by_the_listing(
    server: GitHttp, root: Path, tmp_path: Path
) -> None:
    """A hook that takes longer than the silence allows ends the push; the listing says what became of it."""
    tip = human_commit(root / "origin.git", "main", "README", "x")
    hook(root / "origin.git", "pre-receive", f"{until_told(tmp_path)}; exit 1")
    try:
        with pytest.raises(RemoteUnavailable):
            write(Remote.of(server.url()), tmp_path / "c", deadlines=Deadlines(silence=0.5))
        assert git(root / "origin.git", "rev-parse", "main") == tip
    finally:
        (tmp_path / "go").touch()


def test_large_pushes_use_chunks(server: GitHttp, root: Path, tmp_path: Path) -> None:
    """A pack larger than git's post buffer arrives whole."""
    remote = Remote.of(server.url())
    with BareRepository.open_or_create(tmp_path / "c", remote.url.text) as repo:
        content = random.Random(7).randbytes(3_000_000)
        new = repo.commit(
            parent=None, files={"big": content}, author=ALICE, committer=OPERATOR, when=WHEN, message=b"m"
        )
        repo.push(remote, branch="main", new=new, expected=None)
    assert git(root / "origin.git", "cat-file", "-s", "main:big") == "3000000"


def test_no_redirect_carries_the_login(server: GitHttp, root: Path) -> None:
    """A redirect is never followed with a login: git would hand the header to the other server."""
    with git_http(root) as other:
        server.redirect = other.url("")[:-1]
        remote = Remote.of(server.url(), secret(server.url(), bearerToken=TOKEN))
        with pytest.raises(RemoteUnavailable, match="302"):
            list_remote(remote, deadlines=PATIENT)
        assert set(server.authorizations) == {f"Bearer {TOKEN}"}
        assert other.authorizations == []
        list_remote(Remote.of(server.url()), deadlines=PATIENT)
        assert set(other.authorizations) == {""}


def test_proxies_of_the_process_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the process was given reaches git; nothing else of its environment does."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.test:3128")
    monkeypatch.setenv("GIT_TRACE", "/tmp/trace")
    monkeypatch.setenv("REVERSER_REDIS_URL", "redis://secret@x")
    with Remote.of("https://git.example.test/a/b").environment() as environment:
        assert environment["HTTPS_PROXY"] == "http://proxy.example.test:3128"
        assert environment["GIT_ALLOW_PROTOCOL"] == "file:http:https:ssh"
        assert environment["GIT_TERMINAL_PROMPT"] == "0"
        assert not {"GIT_TRACE", "REVERSER_REDIS_URL"} & set(environment)


def test_push_permission_is_seen_without_pushing(server: GitHttp, root: Path) -> None:
    """Z9: a login that may only read is found out, and the probe leaves no trace on the remote."""
    remote = Remote.of(server.url())
    assert refused_push(remote) == ""
    server.read_only = True
    assert "403" in refused_push(remote)
    server.read_only = False
    human_commit(root / "origin.git", "main", "README", "x")
    assert refused_push(remote) == ""
    assert git(root / "origin.git", "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_without_room_for_the_probe_the_check_goes_on(
    server: GitHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No temporary folder is a fault of this machine, with what to do about it, and no bug."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(CloneUnusable, match="check TMPDIR, space and permissions"):
        refused_push(Remote.of(server.url()))


def test_nothing_secret_is_seen_from_outside(server: GitHttp, root: Path, tmp_path: Path) -> None:
    """106, F15: while a push runs, no process shows the token in its arguments or its environment."""
    needles = [TOKEN.encode(), base64.b64encode(f"bot:{TOKEN}".encode())]
    server.basic = ("bot", TOKEN)
    hook(root / "origin.git", "pre-receive", until_told(tmp_path))
    remote = Remote.of(server.url(), secret(server.url(), username="bot", password=TOKEN))
    with ThreadPoolExecutor(1) as pool:
        push = pool.submit(write, remote, tmp_path / "c")
        try:
            seen = b""
            while not push.done():
                inside = (tmp_path / "inside").exists()
                for process in Path("/proc").glob("[0-9]*"):
                    for name in ("cmdline", "environ"):
                        with contextlib.suppress(OSError):
                            content = (process / name).read_bytes()
                            assert not any(needle in content for needle in needles), process
                            seen += content if name == "cmdline" else b""
                if inside:  # looked at whole while the push ran
                    break
        finally:
            (tmp_path / "go").touch()
        push.result()
    assert b"\0push\0" in seen
    assert (tmp_path / "inside").exists()
