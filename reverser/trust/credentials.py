"""From a Secret's data to credentials: three dialects, one precedence, exact complaints.

People reuse the Secrets of kubectl, Flux and Argo CD, so each field is looked up under several keys and
the first non-empty one wins. Precedence of the whole: SSH key, then basic, then GitHub App, then bearer.
SSH keys are decrypted here, in memory: git then needs no passphrase prompt, and a wrong passphrase is a
clear complaint about the Secret instead of a failed connection. Messages name keys, never values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from reverser.errors import SecretMalformed
from reverser.trust.keys import KeyUnusable, load_private_key
from reverser.trust.urls import RepositoryUrl, Scheme
from reverser.trust.values import SecretValue

SSH_KEYS = ("ssh-privatekey", "identity", "sshPrivateKey")
SSH_PASSPHRASES = ("ssh-password", "password")
CA_KEYS = ("ca.crt", "caFile")
CLIENT_CERT_KEYS = ("tls.crt", "tlsClientCertData", "certFile")
CLIENT_KEY_KEYS = ("tls.key", "tlsClientCertKey", "keyFile")
APP_ID_KEYS = ("githubAppID", "githubAppId")
APP_INSTALLATION_KEYS = ("githubAppInstallationID", "githubAppInstallationId")
APP_OWNER_KEYS = ("githubAppInstallationOwner",)
APP_PRIVATE_KEYS = ("githubAppPrivateKey",)
APP_BASE_URL_KEYS = ("githubAppBaseURL", "githubAppEnterpriseBaseUrl")
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_API = re.compile(r"https://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, slots=True)
class SshKey:
    """An SSH private key, decrypted, as OpenSSH PEM with its final newline."""

    private_key: SecretValue


@dataclass(frozen=True, slots=True)
class Basic:
    """User name and password, or a token in the password's place."""

    username: str
    password: SecretValue

    @property
    def pair(self) -> SecretValue:
        """What stands, in base64, in the header."""
        return SecretValue(self.username.encode() + b":" + self.password.reveal())


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token for ``Authorization: Bearer``."""

    token: SecretValue


@dataclass(frozen=True, slots=True)
class GitHubApp:
    """A GitHub App's key; an installation token is minted from it for each operation.

    Either ``installation_id`` is set, or ``owner``: the organization or user where the App is installed.
    """

    app_id: str
    installation_id: str
    private_key: SecretValue
    base_url: str = "https://api.github.com"
    ca: bytes = b""
    """PEM of the authority to trust for ``base_url``; empty = the system's."""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Tls:
    """What https trusts and presents: PEM, empty for the system's defaults."""

    ca: bytes = b""
    client_cert: bytes = b""
    client_key: SecretValue = field(default_factory=lambda: SecretValue(b""))


Login = SshKey | Basic | Bearer | GitHubApp | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to log in (None = anonymous), with which TLS material, and the Secret's own known hosts."""

    login: Login = None
    tls: Tls = Tls()
    known_hosts: bytes = b""

    @property
    def secrets(self) -> tuple[SecretValue, ...]:
        """Every value that must not appear in a message."""
        login = self.login
        values = [self.tls.client_key]
        if isinstance(login, SshKey | GitHubApp):
            values.append(login.private_key)
        elif isinstance(login, Basic):
            values += [login.password, login.pair]
        elif isinstance(login, Bearer):
            values.append(login.token)
        return tuple(value for value in values if value)


ANONYMOUS = Credentials()


def parse_credentials(data: Mapping[str, bytes], url: RepositoryUrl, *, secret: str = "") -> Credentials:
    """Read a Secret's decoded ``data`` for a repository. ``secret`` is its name, for messages.

    Raises SecretMalformed: no usable entry, half of a pair, an unreadable key, a wrong passphrase, or
    credentials that cannot serve the URL's protocol.
    """
    reader = _Reader(data, secret or "of spec.secretRef")
    tls = (
        _tls(reader) if url.web else Tls()
    )  # for other schemes these entries mean nothing, so none can be wrong
    known_hosts = reader.first(("known_hosts",))[1]
    login = _login(reader, tls=tls, url=url)
    _check_scheme(reader, login, url)
    return Credentials(login=login, tls=tls, known_hosts=known_hosts)


@dataclass(frozen=True, slots=True)
class _Reader:
    data: Mapping[str, bytes]
    secret: str

    def first(self, keys: tuple[str, ...]) -> tuple[str, bytes]:
        """The first key that holds more than white space, with its value."""
        for key in keys:
            value = self.data.get(key, b"")
            if value.strip():
                return key, value
        return "", b""

    def text(self, keys: tuple[str, ...], *, blanks: bool = False) -> str:
        """The first value as one line of text. Line ends around it are an editor's, and so are blanks unless
        they may be part of it."""
        key, value = self.first(keys)
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise self.malformed(f"key {key!r} is not UTF-8 text") from None
        text = text.strip("\r\n") if blanks else text.strip()
        if any(ord(char) < 32 or ord(char) == 127 for char in text):
            raise self.malformed(f"key {key!r} must not contain line breaks or control characters")
        return text

    def malformed(self, what: str) -> SecretMalformed:
        return SecretMalformed(f"Secret '{self.secret}' malformed: {what}")


def _login(reader: _Reader, *, tls: Tls, url: RepositoryUrl) -> Login:
    key_name, key = reader.first(SSH_KEYS)
    if key_name:
        return SshKey(_open_ssh_key(reader, key_name, key))
    username = reader.text(("username",))
    password = reader.text(("password",), blanks=True)
    if username and not password:
        raise reader.malformed("contains username but no password for HTTP basic auth")
    if username:
        if ":" in username:
            raise reader.malformed("key 'username' must not contain ':'")
        return Basic(username, SecretValue(password.encode()))
    if reader.first(APP_ID_KEYS)[0] or reader.first(APP_PRIVATE_KEYS)[0]:
        return _github_app(reader, tls=tls, url=url)
    token = reader.text(("bearerToken",))
    if token:
        return Bearer(SecretValue(token.encode()))
    if url.web and (tls.client_cert or (tls.ca and not password)):
        return None
    held = ", ".join(sorted(reader.data)[:10]) or "nothing"
    raise reader.malformed(
        "does not contain valid authentication data (an SSH private key, username/password, or bearerToken); "
        f"it holds {held}"
    )


def _open_ssh_key(reader: _Reader, name: str, key: bytes) -> SecretValue:
    pass_name, passphrase = reader.first(SSH_PASSPHRASES)
    try:
        private = load_private_key(key, passphrase.strip(b"\r\n") or None, ignore_needless_passphrase=True)
    except KeyUnusable as problem:
        hint = f" (passphrase taken from {pass_name!r})" if pass_name else ""
        raise reader.malformed(f"SSH private key {name!r}: {problem}{hint}") from None
    return SecretValue(private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def _github_app(reader: _Reader, *, tls: Tls, url: RepositoryUrl) -> GitHubApp:
    app_id = reader.text(APP_ID_KEYS)
    key_name, key = reader.first(APP_PRIVATE_KEYS)
    for value, keys in ((app_id, APP_ID_KEYS), (key, APP_PRIVATE_KEYS)):
        if not value:
            raise reader.malformed(f"a GitHub App needs key '{keys[0]}' too")
    installation, owner = _installation(reader, url)
    if not app_id.isalnum() or not app_id.isascii():
        raise reader.malformed(f"key '{APP_ID_KEYS[0]}' must be a plain identifier")
    try:
        private = load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise reader.malformed(f"key {key_name!r} is not an unencrypted PEM private key") from None
    if not isinstance(private, RSAPrivateKey):
        raise reader.malformed(f"key {key_name!r} is no RSA key, as GitHub gives out")
    base_name, _ = reader.first(APP_BASE_URL_KEYS)
    base = reader.text(APP_BASE_URL_KEYS).rstrip("/") or "https://api.github.com"
    if not _API.fullmatch(base):
        raise reader.malformed(
            f"key {base_name!r} must be an https URL without user and query, such as https://HOST/api/v3"
        )
    return GitHubApp(app_id, installation, SecretValue(key), base, tls.ca, owner)


def _installation(reader: _Reader, url: RepositoryUrl) -> tuple[str, str]:
    """The installation's id, or whose it is: Flux writes one or the other, and Argo CD may write neither and
    mean the owner of the repository."""
    installation, owner = reader.text(APP_INSTALLATION_KEYS), reader.text(APP_OWNER_KEYS)
    if installation and owner:
        raise reader.malformed(f"keep one of the keys '{APP_INSTALLATION_KEYS[0]}' and '{APP_OWNER_KEYS[0]}'")
    if installation:
        if not (installation.isdigit() and installation.isascii()):
            raise reader.malformed(f"key '{APP_INSTALLATION_KEYS[0]}' must be a number")
        return installation, ""
    if owner:
        if not _LOGIN.fullmatch(owner):
            raise reader.malformed(f"key '{APP_OWNER_KEYS[0]}' must be the login of an organization or user")
        return "", owner
    owner = url.path.strip("/").partition("/")[0]
    if not url.web or not _LOGIN.fullmatch(owner):
        raise reader.malformed(
            f"a GitHub App needs key '{APP_INSTALLATION_KEYS[0]}' or '{APP_OWNER_KEYS[0]}' too"
        )
    return "", owner


def _tls(reader: _Reader) -> Tls:
    ca_name, ca = reader.first(CA_KEYS)
    cert_name, cert = reader.first(CLIENT_CERT_KEYS)
    key_name, key = reader.first(CLIENT_KEY_KEYS)
    for name, pem in ((ca_name, ca), (cert_name, cert)):
        if name:
            _check_certificates(reader, name, pem)
    if bool(cert) != bool(key):
        missing = CLIENT_KEY_KEYS[0] if cert else CLIENT_CERT_KEYS[0]
        raise reader.malformed(f"a client certificate needs key '{missing}' too")
    if key:
        try:
            private = load_pem_private_key(key, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise reader.malformed(f"key {key_name!r} is not an unencrypted PEM private key") from None
        certificate = x509.load_pem_x509_certificates(cert)[0]
        if certificate.public_key() != private.public_key():
            raise reader.malformed(f"keys {cert_name!r} and {key_name!r} do not belong together")
    return Tls(ca=ca, client_cert=cert, client_key=SecretValue(key))


def _check_certificates(reader: _Reader, name: str, pem: bytes) -> None:
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise reader.malformed(f"key {name!r} holds no PEM certificate") from None
    if all(certificate.not_valid_after_utc < datetime.now(UTC) for certificate in certificates):
        raise reader.malformed(f"every certificate in key {name!r} has expired")


def _check_scheme(reader: _Reader, login: Login, url: RepositoryUrl) -> None:
    if url.scheme is Scheme.SSH and not isinstance(login, SshKey):
        raise reader.malformed(
            f"spec.url is an ssh URL, but the Secret holds no SSH private key (one of {', '.join(SSH_KEYS)})"
        )
    if url.web and isinstance(login, SshKey):
        raise reader.malformed(
            f"spec.url is an {url.scheme} URL, but the Secret holds an SSH private key; "
            "use an ssh URL, or a Secret with username/password or bearerToken"
        )
