"""Installation tokens of a GitHub App, minted when needed and kept until shortly before they expire.

A token lives for an hour; a push with one that expired in between fails with 401. So a token is used only
while it has ten minutes left, and is forgotten when an operation with it fails. Tokens live in this process'
memory alone. Where only the owner of an installation is known, it is looked up at each minting and not kept:
an App that is removed and installed again has another id. A server may answer anything: whatever it is, it is
handled.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import GitHubApp
from reverser.trust.forge import Answer, Call, call
from reverser.trust.values import SecretValue

_MARGIN = 600.0


class TokenSource:
    """Tokens by App installation; safe to share between threads."""

    def __init__(self, *, call: Call = call, clock: Callable[[], float] = time.time) -> None:
        self._call = call
        self._clock = clock
        self._lock = threading.Lock()
        self._minting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._tokens: dict[str, tuple[SecretValue, float]] = {}

    def token(self, app: GitHubApp) -> SecretValue:
        """A valid token.

        Raises SecretMalformed when GitHub refuses the App, RemoteUnavailable when it does not answer.
        """
        key = _cache_key(app)
        with self._lock:
            minting = self._minting[key]
        with minting:  # waiting for one App's server blocks nobody else
            with self._lock:
                cached = self._tokens.get(key)
            if cached is not None and cached[1] - self._clock() > _MARGIN:
                return cached[0]
            minted = self._mint(app)
            with self._lock:
                self._tokens[key] = minted
            return minted[0]

    def known(self, app: GitHubApp) -> SecretValue | None:
        """The token that was minted last, if any; never mints one."""
        with self._lock:
            cached = self._tokens.get(_cache_key(app))
        return cached[0] if cached is not None else None

    def forget(self, app: GitHubApp) -> None:
        """Mint a new token next time: this one may have been refused."""
        with self._lock:
            self._tokens.pop(_cache_key(app), None)

    def _mint(self, app: GitHubApp) -> tuple[SecretValue, float]:
        jwt = app_jwt(app, now=int(self._clock()))
        installation = app.installation_id or self._installation_of(app, jwt)
        url = f"{app.base_url}/app/installations/{installation}/access_tokens"
        answer = self._call("POST", url, jwt, app.ca)
        if _refuses(answer) or _is_missing(answer):
            raise SecretMalformed(
                f"GitHub refuses the App or its installation (HTTP {answer.status}): check that it is still "
                f"installed and not suspended, and keys githubAppID, {_names(app)} and githubAppPrivateKey"
            )
        if answer.status != 201:
            raise _no_answer(answer, "an App token")
        return _token_of(answer.body)

    def _installation_of(self, app: GitHubApp, jwt: str) -> str:
        """The id of the installation at ``app.owner``, which may be an organization or a user."""
        for owners in ("orgs", "users"):
            answer = self._call("GET", f"{app.base_url}/{owners}/{app.owner}/installation", jwt, app.ca)
            if _refuses(answer):
                raise SecretMalformed(
                    f"GitHub refuses the App (HTTP {answer.status}): check keys githubAppID and "
                    "githubAppPrivateKey"
                )
            if answer.status == 200:
                return _installation_in(answer.body)
            if not _is_missing(answer):
                raise _no_answer(answer, "the App's installation")
        raise SecretMalformed(
            "GitHub knows no installation of the App at its owner (HTTP 404): install the App there, or "
            f"check key {_names(app)}"
        )


def _refuses(answer: Answer) -> bool:
    return answer.status in (401, 403) and answer.retry_after is None


def _is_missing(answer: Answer) -> bool:
    return answer.status == 404 and answer.retry_after is None


def _names(app: GitHubApp) -> str:
    """What says which installation is meant, for a message."""
    return (
        "githubAppInstallationID"
        if app.installation_id
        else "githubAppInstallationOwner (without it, the owner in spec.url counts)"
    )


def _no_answer(answer: Answer, what: str) -> RemoteUnavailable:
    return RemoteUnavailable(
        f"the GitHub API answered HTTP {answer.status} instead of {what}", retry_after=answer.retry_after
    )


def _installation_in(body: bytes) -> str:
    """Raises RemoteUnavailable for anything but an installation."""
    try:
        found = json.loads(body)["id"]
    except (ValueError, LookupError, TypeError):
        found = None
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        raise RemoteUnavailable("the GitHub API answered something that is no installation")
    return str(found)


def _token_of(body: bytes) -> tuple[SecretValue, float]:
    """Token and expiry (Unix seconds). Raises RemoteUnavailable for anything else."""
    try:
        answer = json.loads(body)
        token, expires = str(answer["token"]), datetime.fromisoformat(answer["expires_at"])
    except (ValueError, LookupError, TypeError):
        raise RemoteUnavailable("the GitHub API answered something that is no App token") from None
    if not token.isascii() or not token.isprintable() or not token or expires.tzinfo is None:
        raise RemoteUnavailable("the GitHub API answered an App token that cannot be used")
    return SecretValue(token.encode()), expires.timestamp()


def _cache_key(app: GitHubApp) -> str:
    names = (app.base_url, app.app_id, app.installation_id, app.owner.lower())
    parts = [*(name.encode() for name in names), app.private_key.reveal()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def app_jwt(app: GitHubApp, *, now: int) -> str:
    """The RS256 token by which an App names itself; valid for nine minutes, back-dated for clock skew."""
    key = load_pem_private_key(app.private_key.reveal(), None)
    if not isinstance(key, RSAPrivateKey):
        raise SecretMalformed("githubAppPrivateKey must be an RSA key")
    claims = {"iat": now - 60, "exp": now + 540, "iss": app.app_id}
    head = b".".join(_b64(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return (head + b"." + _b64(key.sign(head, PKCS1v15(), hashes.SHA256()))).decode()


def _b64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
