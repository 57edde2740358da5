"""From Secrets to credentials: dialects, precedence, and what each malformed Secret is told."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import Basic, Bearer, Credentials, GitHubApp, SshKey, parse_credentials
from reverser.trust.forge import Answer
from reverser.trust.github import TokenSource
from reverser.trust.urls import parse_repository_url
from reverser.trust.values import redact
from tests.git.servers import make_authority

HTTPS = parse_repository_url("https://git.example.test/a/b.git")
SSH = parse_repository_url("git@git.example.test:a/b.git")
ED = ed25519.Ed25519PrivateKey.generate()
PLAIN = ED.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
PLAIN_PKCS8 = ED.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
LOCKED = ED.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(b"pw-CANARY"))
RSA = rsa.generate_private_key(65537, 2048)
RSA_PEM = RSA.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def ssh(**data: bytes) -> Credentials:
    return parse_credentials(
        {key.replace("_", "-"): value for key, value in data.items()}, SSH, secret="cred"
    )


@pytest.mark.parametrize("entry", ["ssh-privatekey", "identity", "sshPrivateKey"])
def test_ssh_dialects(entry: str) -> None:
    """K2: Kubernetes, Flux and Argo CD names of the key; a needless passphrase is ignored."""
    found = parse_credentials({entry: PLAIN, "password": b"x", "known_hosts": b"h"}, SSH)
    assert isinstance(found.login, SshKey)
    assert found.known_hosts == b"h"


def test_first_non_empty_key_wins() -> None:
    """K2, K3: an empty entry does not count; an SSH key precedes basic, basic precedes bearer."""
    found = parse_credentials({"ssh-privatekey": b" \n", "identity": LOCKED, "password": b"pw-CANARY"}, SSH)
    assert isinstance(found.login, SshKey)
    found = parse_credentials({"username": b"u", "password": b"p\n", "bearerToken": b"t"}, HTTPS)
    assert isinstance(found.login, Basic)
    assert found.login.password.reveal() == b"p"
    found = parse_credentials({"password": b"p", "bearerToken": b"t\n"}, HTTPS)
    assert isinstance(found.login, Bearer)


@pytest.mark.parametrize(("entry", "other"), [("ssh-password", "password"), ("password", "ssh-password")])
def test_passphrases(entry: str, other: str) -> None:
    """K2: the passphrase comes from either entry; what leaves is a key without one."""
    found = parse_credentials({"identity": LOCKED, entry: b"pw-CANARY\n", other: b""}, SSH)
    assert isinstance(found.login, SshKey)
    assert b"BEGIN OPENSSH" in found.login.private_key.reveal()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"username": b"u"}, "contains username but no password for HTTP basic auth"),
        ({"username": b"u", "bearerToken": b"t"}, "contains username but no password for HTTP basic auth"),
        ({"password": b"p"}, "does not contain valid authentication data"),
        ({"token": b"CANARY", "user": b"u"}, "or bearerToken); it holds token, user"),
        ({}, "or bearerToken); it holds nothing"),
        ({"bearerToken": b"a\nb"}, "'bearerToken' must not contain line breaks"),
        ({"username": b"a:b", "password": b"p"}, "'username' must not contain ':'"),
        ({"username": b"\xff", "password": b"p"}, "'username' is not UTF-8"),
        ({"identity": PLAIN}, "spec.url is an https URL, but the Secret holds an SSH private key"),
        ({"ca.crt": b"nonsense", "bearerToken": b"t"}, "'ca.crt' holds no PEM certificate"),
        ({"tls.key": RSA_PEM, "bearerToken": b"t"}, "a client certificate needs key 'tls.crt' too"),
        ({"githubAppID": b"1"}, "a GitHub App needs key 'githubAppPrivateKey' too"),
        (
            {"githubAppID": b"1", "githubAppInstallationID": b"2", "githubAppPrivateKey": PLAIN_PKCS8},
            "'githubAppPrivateKey' is no RSA key",
        ),
        (
            {"githubAppID": b"1", "githubAppInstallationID": b"2", "githubAppPrivateKey": b"x"},
            "'githubAppPrivateKey' is not an unencrypted PEM private key",
        ),
    ],
)
def test_malformed_https_secrets(data: dict[str, bytes], words: str) -> None:
    """K4, Z9: each reason is exact, names the entry, and begins the way conditions show it."""
    with pytest.raises(SecretMalformed) as caught:
        parse_credentials(data, HTTPS, secret="cred")
    assert str(caught.value).startswith("Secret 'cred' malformed: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"identity": LOCKED}, "'identity': is encrypted, and there is no passphrase; add it"),
        ({"identity": LOCKED, "password": b"wrong-CANARY"}, "cannot be decrypted"),
        (
            {"ssh-privatekey": b"not a key CANARY"},
            "'ssh-privatekey': is not a PEM private key; it is the whole",
        ),
        (
            {"identity": PLAIN[:100] + b"\n-----END OPENSSH PRIVATE KEY-----\n"},
            "'identity': is damaged; copy the whole file again",
        ),
        ({"username": b"u", "password": b"p"}, "spec.url is an ssh URL, but the Secret holds no SSH"),
    ],
)
def test_malformed_ssh_secrets(data: dict[str, bytes], words: str) -> None:
    """K4: unreadable keys and wrong passphrases are told apart, and no value is repeated."""
    with pytest.raises(SecretMalformed) as caught:
        parse_credentials(data, SSH, secret="cred")
    assert words in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_weak_and_foreign_keys_are_refused() -> None:
    """K8: keys that SSH does not take are named, not tried."""
    curve = ec.generate_private_key(ec.SECP256K1())
    old = dsa.generate_private_key(2048)
    for key in (curve, old):
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with pytest.raises(SecretMalformed):
            ssh(identity=pem)


def test_authority_alone_is_anonymous(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Z9: a Secret that holds only a CA, or a client certificate, logs nobody in and is fine."""
    authority = make_authority(tmp_path_factory.mktemp("ca"))
    found = parse_credentials({"caFile": authority.ca.read_bytes()}, HTTPS)
    assert found.login is None
    cert, key = authority.client_cert.read_bytes(), authority.client_key.read_bytes()
    found = parse_credentials({"tls.crt": cert, "tls.key": key}, HTTPS)
    assert found.tls.client_cert == cert
    with pytest.raises(SecretMalformed, match="do not belong together"):
        parse_credentials({"tls.crt": cert, "tls.key": RSA_PEM}, HTTPS)


def test_a_password_is_taken_as_it_is() -> None:
    """K2: blanks belong to a password, the line end of the file that it came from does not."""
    found = parse_credentials({"username": b"u\n", "password": b" p w \r\n"}, HTTPS)
    assert isinstance(found.login, Basic)
    assert (found.login.username, found.login.password.reveal()) == ("u", b" p w ")


def test_the_header_is_masked_too() -> None:
    """106: user and password as an Authorization header holds them are no less secret."""
    found = parse_credentials({"username": b"bot", "password": b"pw-CANARY"}, HTTPS)
    header = base64.b64encode(b"bot:pw-CANARY").decode()
    assert redact(f"fatal: {header} and pw-CANARY", found.secrets) == "fatal: **** and ****"


def test_entries_for_another_protocol_are_not_judged() -> None:
    """K5: TLS entries of a Secret that serves an ssh URL mean nothing, so none of them can be wrong."""
    found = parse_credentials({"identity": PLAIN, "ca.crt": b"old", "tls.crt": b"x", "caFile": b"y"}, SSH)
    assert isinstance(found.login, SshKey)


def test_ignored_entries() -> None:
    """K5: switches that would weaken verification have no effect."""
    data = {"bearerToken": b"t", "insecure": b"true", "insecureIgnoreHostKey": b"true", "url": b"x"}
    assert isinstance(parse_credentials(data, HTTPS).login, Bearer)


def test_credentials_do_not_print_themselves() -> None:
    """No textual form of credentials holds a secret."""
    found = parse_credentials({"username": b"u", "password": b"pw-CANARY"}, HTTPS)
    for text in (repr(found), str(found), f"{found}", repr(found.secrets)):
        assert "CANARY" not in text
    with pytest.raises(TypeError):
        json.dumps(found.secrets[0])


def app() -> GitHubApp:
    data = {"githubAppID": b"1", "githubAppInstallationID": b"2", "githubAppPrivateKey": RSA_PEM}
    login = parse_credentials(data, HTTPS).login
    assert isinstance(login, GitHubApp)
    return login


def test_tokens_are_kept_until_shortly_before_they_expire() -> None:
    """107: a token with less than ten minutes left is replaced, and so is a forgotten one."""
    now, calls = [1_000_000.0], []

    def call(method: str, url: str, jwt: str, ca: bytes) -> Answer:
        calls.append(jwt)
        return Answer(201, b'{"token": "t%d", "expires_at": "1970-01-12T14:46:40Z"}' % len(calls))

    source = TokenSource(call=call, clock=lambda: now[0])
    assert [source.token(app()).reveal(), source.token(app()).reveal()] == [b"t1", b"t1"]
    now[0] = 1_003_300.0
    assert source.token(app()).reveal() == b"t2"
    source.forget(app())
    assert source.token(app()).reveal() == b"t3"


def test_a_limited_app_waits() -> None:
    """107: GitHub limits with 403 too; only without a wish to wait does it mean that the App is refused."""
    with pytest.raises(RemoteUnavailable) as caught:
        TokenSource(call=lambda method, url, jwt, ca: Answer(403, retry_after=30.0)).token(app())
    assert caught.value.retry_after == 30.0


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"token": "t", "expires_at": 5}',
        b'{"token": "t", "expires_at": "soon"}',
        b'{"token": "t", "expires_at": "2999-01-01T00:00:00"}',
        b'{"token": "a\\nb", "expires_at": "2999-01-01T00:00:00Z"}',
        b"\xff",
    ],
)
def test_garbage_is_no_token(body: bytes) -> None:
    """A server that answers anything but a token is broken, and asked again later."""
    with pytest.raises(RemoteUnavailable):
        TokenSource(call=lambda method, url, jwt, ca: Answer(201, body)).token(app())


@pytest.mark.parametrize(
    ("status", "error"), [(401, SecretMalformed), (404, SecretMalformed), (502, RemoteUnavailable)]
)
def test_refused_apps_and_broken_servers(status: int, error: type[Exception]) -> None:
    """A refused App needs a person; a broken server does not."""
    with pytest.raises(error):
        TokenSource(call=lambda method, url, jwt, ca: Answer(status)).token(app())
