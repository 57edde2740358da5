"""Secrets as kubectl, Flux and Argo CD make them, read as they are; and what is told of those that fail."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from reverser.errors import SecretMalformed
from reverser.trust.credentials import Basic, Bearer, GitHubApp, Login, SshKey, parse_credentials
from reverser.trust.urls import parse_repository_url
from tests.git.servers import make_authority

HTTPS = "https://git.example.test/team/x.git"
SSH = "ssh://git@git.example.test:2222/team/x.git"
ED = ed25519.Ed25519PrivateKey.generate()
PLAIN = ED.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
LOCKED = ED.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, BestAvailableEncryption(b"open sesame"))
RSA = rsa.generate_private_key(65537, 2048)
RSA_PEM = RSA.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
HOSTS = b"git.example.test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"
ARGO = {
    "type": b"git",
    "project": b"default",
    "insecure": b"true",
    "enableLfs": b"true",
    "proxy": b"http://p:1",
}

GOOD: dict[str, tuple[str, dict[str, bytes], type[Login] | None]] = {
    "kubernetes.io/basic-auth": (HTTPS, {"username": b"bot", "password": b"pw"}, Basic),
    "kubernetes.io/ssh-auth": (SSH, {"ssh-privatekey": PLAIN, "known_hosts": HOSTS}, SshKey),
    "flux ssh": (SSH, {"identity": PLAIN, "identity.pub": b"ssh-ed25519 A", "known_hosts": HOSTS}, SshKey),
    "flux ssh, locked": (SSH, {"identity": LOCKED, "password": b"open sesame", "known_hosts": HOSTS}, SshKey),
    "flux basic": (HTTPS, {"username": b"bot", "password": b"pw"}, Basic),
    "flux bearer": (HTTPS, {"bearerToken": b"tok"}, Bearer),
    "flux app": (
        HTTPS,
        {"githubAppID": b"1", "githubAppInstallationID": b"2", "githubAppPrivateKey": RSA_PEM},
        GitHubApp,
    ),
    "flux app by owner": (
        HTTPS,
        {"githubAppID": b"1", "githubAppInstallationOwner": b"acme", "githubAppPrivateKey": RSA_PEM},
        GitHubApp,
    ),
    "argo ssh": (SSH, {**ARGO, "url": SSH.encode(), "sshPrivateKey": PLAIN}, SshKey),
    "argo basic": (HTTPS, {**ARGO, "url": HTTPS.encode(), "username": b"bot", "password": b"pw"}, Basic),
    "argo bearer": (HTTPS, {**ARGO, "url": HTTPS.encode(), "bearerToken": b"tok"}, Bearer),
    "argo app": (
        HTTPS,
        {
            **ARGO,
            "url": HTTPS.encode(),
            "githubAppID": b"1",
            "githubAppInstallationID": b"2",
            "githubAppPrivateKey": RSA_PEM,
            "githubAppEnterpriseBaseUrl": b"https://ghe.example.test/api/v3/",
        },
        GitHubApp,
    ),
    "argo app of the repository's owner": (
        HTTPS,
        {
            **ARGO,
            "url": HTTPS.encode(),
            "githubAppID": b"1",
            "githubAppPrivateKey": RSA_PEM,
            "githubAppEnterpriseBaseUrl": b"https://ghe.example.test/api/v3",
        },
        GitHubApp,
    ),
}


@pytest.mark.parametrize("name", list(GOOD))
def test_secrets_of_others_work_as_they_are(name: str) -> None:
    """A05, K2, K5: every dialect gives its login; entries with another meaning are passed over."""
    url, data, login = GOOD[name]
    found = parse_credentials(data, parse_repository_url(url), secret="cred")
    assert type(found.login) is login
    if isinstance(found.login, GitHubApp) and "argo" in name:
        assert found.login.base_url == "https://ghe.example.test/api/v3"


@pytest.mark.parametrize(
    ("ca", "cert", "key"),
    [
        ("ca.crt", "tls.crt", "tls.key"),
        ("caFile", "certFile", "keyFile"),
        ("ca.crt", "tlsClientCertData", "tlsClientCertKey"),
    ],
)
def test_tls_entries_of_each_dialect(
    tmp_path_factory: pytest.TempPathFactory, ca: str, cert: str, key: str
) -> None:
    """Z9: authority and client certificate under the names of Kubernetes, early Flux and Argo CD."""
    made = make_authority(tmp_path_factory.mktemp("ca"))
    data = {
        ca: made.ca.read_bytes(),
        cert: made.client_cert.read_bytes(),
        key: made.client_key.read_bytes(),
        "username": b"bot",
        "password": b"pw",
    }
    tls = parse_credentials(data, parse_repository_url(HTTPS)).tls
    assert (tls.ca, tls.client_cert) == (data[ca], data[cert])
    assert tls.client_key.reveal() == data[key]


WRONG: dict[str, tuple[str, dict[str, bytes], str]] = {
    "ssh for https": (HTTPS, {"sshPrivateKey": PLAIN}, "spec.url is an https URL"),
    "basic for ssh": (SSH, {"username": b"bot", "password": b"CANARY"}, "spec.url is an ssh URL"),
    "bearer for ssh": (SSH, {"bearerToken": b"CANARY"}, "spec.url is an ssh URL"),
    "no password": (HTTPS, {"username": b"CANARY"}, "contains username but no password"),
    "no password but a token": (
        HTTPS,
        {"username": b"CANARY", "bearerToken": b"CANARY"},
        "contains username but no password",
    ),
    "password alone": (HTTPS, {"password": b"CANARY"}, "does not contain valid authentication data"),
    "nothing": (SSH, {"known_hosts": HOSTS}, "does not contain valid authentication data"),
    "blank": (HTTPS, {"bearerToken": b" \n"}, "does not contain valid authentication data"),
    "public half": (SSH, {"identity": b"ssh-ed25519 CANARY bot"}, "is not a PEM private key"),
    "locked": (SSH, {"identity": LOCKED}, "is encrypted, and there is no passphrase"),
    "wrong passphrase": (SSH, {"identity": LOCKED, "ssh-password": b"CANARY"}, "taken from 'ssh-password'"),
    "token of two lines": (HTTPS, {"bearerToken": b"CANARY\nX: y"}, "'bearerToken' must not contain line"),
    "binary": (HTTPS, {"username": b"bot", "password": b"\xff\xfeCANARY"}, "'password' is not UTF-8"),
    "app without key": (
        HTTPS,
        {"githubAppID": b"7", "githubAppInstallationID": b"8"},
        "needs key 'githubAppPrivateKey'",
    ),
    "app without id": (HTTPS, {"githubAppPrivateKey": RSA_PEM}, "needs key 'githubAppID'"),
    "app by id and owner": (
        HTTPS,
        {
            "githubAppID": b"7",
            "githubAppInstallationID": b"8",
            "githubAppInstallationOwner": b"CANARY",
            "githubAppPrivateKey": RSA_PEM,
        },
        "keep one of the keys 'githubAppInstallationID' and 'githubAppInstallationOwner'",
    ),
    "app by a path": (
        HTTPS,
        {"githubAppID": b"7", "githubAppInstallationOwner": b"../CANARY", "githubAppPrivateKey": RSA_PEM},
        "'githubAppInstallationOwner' must be the login",
    ),
    "app of nobody": (
        SSH,
        {"githubAppID": b"7", "githubAppPrivateKey": RSA_PEM},
        "needs key 'githubAppInstallationID' or 'githubAppInstallationOwner'",
    ),
    "app id of words": (
        HTTPS,
        {"githubAppID": b"7/CANARY", "githubAppInstallationID": b"8", "githubAppPrivateKey": RSA_PEM},
        "'githubAppID' must be a plain identifier",
    ),
    "app at an address with a user": (
        HTTPS,
        {
            "githubAppID": b"7",
            "githubAppInstallationID": b"8",
            "githubAppPrivateKey": RSA_PEM,
            "githubAppEnterpriseBaseUrl": b"https://CANARY:x@ghe.example.test/api/v3",
        },
        "'githubAppEnterpriseBaseUrl' must be an https URL without user",
    ),
    "app id with a path": (
        HTTPS,
        {"githubAppID": b"7", "githubAppInstallationID": b"../CANARY", "githubAppPrivateKey": RSA_PEM},
        "'githubAppInstallationID' must be a number",
    ),
    "app over http": (
        HTTPS,
        {
            "githubAppID": b"7",
            "githubAppInstallationID": b"8",
            "githubAppPrivateKey": RSA_PEM,
            "githubAppBaseURL": b"http://CANARY",
        },
        "'githubAppBaseURL' must be an https URL",
    ),
    "authority": (HTTPS, {"ca.crt": b"CANARY", "bearerToken": b"t"}, "'ca.crt' holds no PEM certificate"),
    "half a pair": (HTTPS, {"tls.key": RSA_PEM, "bearerToken": b"t"}, "needs key 'tls.crt' too"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_each_malformed_secret_is_told_without_its_value(name: str) -> None:
    """K4: the message begins as conditions show it, names the entry or what lacks, and echoes nothing."""
    url, data, words = WRONG[name]
    with pytest.raises(SecretMalformed) as caught:
        parse_credentials(data, parse_repository_url(url), secret="cred")
    message = str(caught.value)
    assert message.startswith("Secret 'cred' malformed: ")
    assert words in message
    assert "CANARY" not in message
