"""Host trust that fails closed, and URLs that cannot carry an option or a program."""

from __future__ import annotations

import pytest

from reverser.errors import ConfigInvalid, SecretMalformed
from reverser.trust.hosts import parse_known_hosts, resolve_known_hosts
from reverser.trust.urls import Scheme, canonical_url, parse_repository_url

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
LINE = f"github.com {KEY}\n".encode()
OTHER = f"gitlab.com {KEY} comment\n".encode()


def test_first_source_with_content_wins() -> None:
    """K6: the Secret, then the reference (known_hosts before ssh_known_hosts), then the default."""
    reference = {"ssh_known_hosts": OTHER, "known_hosts": b" "}
    assert resolve_known_hosts(LINE, reference=reference).content == LINE
    assert resolve_known_hosts(b"\n", reference=reference).content == OTHER
    found = resolve_known_hosts(b"", reference={"x": b"y"}, default={"known_hosts": LINE})
    assert (found.content, found.verify) == (LINE, True)


def test_no_source_fails_closed() -> None:
    """K7, A06 (a): the message lists the three ways and the flag."""
    with pytest.raises(SecretMalformed) as caught:
        resolve_known_hosts(b"", reference={}, default=None)
    for word in (
        "known_hosts",
        "spec.knownHostsRef",
        "--default-known-hosts-configmap",
        "--insecure-allow-missing-known-hosts",
    ):
        assert word in str(caught.value)
    assert resolve_known_hosts(b"", allow_missing=True).verify is False


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense",
        b"host ssh-rsa",
        b"host ssh-rsa !!!",
        f"host ssh-rsa {KEY.split()[1]}".encode(),
        b"@unknown " + LINE,
        f"|1|abc|def {KEY}".encode(),
        b"# only a comment\n",
        b"\xff\xfe",
    ],
)
def test_broken_content_is_an_error_with_the_flag_too(content: bytes) -> None:
    """K7, A06 (c): content that is there but broken is never taken for none."""
    with pytest.raises(SecretMalformed):
        resolve_known_hosts(content, allow_missing=True)


def test_forms_of_lines() -> None:
    """K7: ports, several names, hashes, markers, CRLF and comments parse; fingerprints are shown."""
    hashed = f"|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= {KEY}"
    text = f"# c\r\n[h]:22,10.0.0.1 {KEY} c\r\n\r\n@revoked *.x {KEY}\n{hashed}\n@cert-authority * {KEY}\n"
    keys = parse_known_hosts(text.encode(), source="s")
    assert [key.marker for key in keys] == ["", "@revoked", "", "@cert-authority"]
    found = resolve_known_hosts(f"[h]:2222,!bad,b* {KEY}\n".encode())
    fingerprint = "ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert found.fingerprints("[h]:2222") == (fingerprint,)
    assert found.fingerprints("bad") == ()
    assert found.fingerprints("best") == (fingerprint,)


@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch /tmp/pwn",
        'ext::sh -c "touch /tmp/pwn"',
        "ext::sh%20-c%20touch",
        "fd::17",
        "ssh://-oProxyCommand=touch%20%2Ftmp%2Fpwn/x",
        "ssh://-oProxyCommand=touch/x",
        "-oProxyCommand=x@host:path",
        "git@-oProxyCommand:path",
        "git@host:-path",
        "git@[-oProxyCommand=x]:path",
        "git@[host:99999]:path",
        "git@[host:ssh]:path",
        "ext::x@[::1]:path",
        "[ext::x]:path",
        "ftp://host/x",
        "git://host/x",
        "https:///x",
        "https://host",
        "https://host:99999/x",
        "https://user:password@host/x",
        "https://ho st/x",
        "https://host/x\ny",
        "file://host/x",
        "file:relative",
        "/absolute/path",
        "../relative",
        "",
        " ",
    ],
)
def test_dangerous_urls_are_refused(url: str) -> None:
    """A10, Z10: no option, no transport helper, no unknown protocol, no secret passes."""
    with pytest.raises(ConfigInvalid) as caught:
        parse_repository_url(url)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "scheme", "user", "name"),
    [
        ("https://git.example.test/team/config.git", Scheme.HTTPS, "", "git.example.test"),
        ("ssh://deploy@git.example.test:2222/x", Scheme.SSH, "deploy", "[git.example.test]:2222"),
        ("git@git.example.test:team/x.git", Scheme.SSH, "git", "git.example.test"),
        ("git.example.test:team/x.git", Scheme.SSH, "", "git.example.test"),
        ("ssh://[::1]:22/x", Scheme.SSH, "", "::1"),
        ("git@[::1]:team/x.git", Scheme.SSH, "git", "::1"),
        ("git@[git.example.test:2222]:team/x.git", Scheme.SSH, "git", "[git.example.test]:2222"),
        ("file:///srv/x.git", Scheme.FILE, "", ""),
    ],
)
def test_good_urls(url: str, scheme: Scheme, user: str, name: str) -> None:
    """The four protocols and the short ssh form are understood."""
    parsed = parse_repository_url(f" {url}\n")
    assert (parsed.scheme, parsed.user, parsed.host_key_name) == (scheme, user, name)
    assert parsed.text == url


def test_a_token_as_user_name_does_not_reach_git() -> None:
    """106: userinfo of an https URL is dropped; the Secret is its place."""
    assert parse_repository_url("https://ghp_token@host/x?y=1").text == "https://host/x?y=1"


def test_equivalent_urls() -> None:
    """I7: overlap across providers: protocol, user, port, case, .git and slashes do not count."""
    same = [
        "https://GitHub.com/Org/repo.git",
        "https://github.com:443/Org/repo/",
        "http://github.com/Org//repo",
        "http://github.com:80/Org/./repo",
        "https://someone@github.com./org/REPO.git/",
        "git@github.com:Org/repo.git",
        "github.com:Org/repo",
        "git@github.com:/Org/repo.git",
        "git@github.com:~/Org/repo.git",
        "ssh://git@github.com/Org/repo",
        "ssh://github.com:22/Org/repo.git/",
        "ssh://git@github.com:2222/Org/repo.git",
        "https://github.com/Org/%72epo",
    ]
    assert {canonical_url(url) for url in same} == {"github.com/org/repo"}
    different = [
        "https://github.com/org/repo2",
        "https://github.com/other/repo",
        "https://gitlab.com/org/repo",
        "https://github.com:8443/org/repo",
        "https://github.com/org/repo/sub",
        "file:///org/repo",
        "file:///Org/repo",
    ]
    assert len({canonical_url(url) for url in [*different, same[0]]}) == len(different) + 1
    assert canonical_url("file:///srv/x.git/") == canonical_url("file://localhost//srv/x")
    assert canonical_url(" not a url ") == "not a url"
