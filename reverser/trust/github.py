"""Installation tokens of a GitHub App, minted when needed and kept until shortly before they expire.

A token lives for an hour; a push with one that expired in between fails with 401. So a token is used only
while it has ten minutes left, and is forgotten when an operation with it fails. Tokens live in
this process' memory alone. What a server answers is foreign: whatever it is, it is no bug of ours, and no
redirect carries the App's own token to another server.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.message import Message

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import GitHubApp
from reverser.trust.redirects import NoRedirect
from reverser.trust.values import SecretValue

_MARGIN = 600.0
_TIMEOUT = 20.0
_LIMITED_WAIT, _LONGEST_WAIT = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What an API said. ``retry_after`` is the wait in seconds that it asked for, None where it did not."""

    status: int
    body: bytes = b""
    retry_after: float | None = None


Post = Callable[[str, str, bytes], Answer]
"""Posts to a URL with a bearer token, trusting a CA (PEM, empty = the system's)."""


def _post(url: str, jwt: str, ca: bytes) -> Answer:
    context = ssl.create_default_context(cadata=ca.decode("ascii", "replace") if ca else None)
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked to be https
        url,
        method="POST",
        headers={"Authorization": f"Bearer {jwt}", "Accept": "application/vnd.github+json"},
    )
    opener = urllib.request.build_opener(NoRedirect(), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=_TIMEOUT) as answer:
            return Answer(answer.status, answer.read(1 << 16))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, retry_after=_asked_wait(error.headers))
    except (OSError, http.client.HTTPException, ValueError):
        raise RemoteUnavailable("the GitHub API does not answer; no App token could be obtained") from None


def _asked_wait(headers: Message) -> float | None:
    """GitHub limits with 403 or 429 and says until when in one of two headers."""
    after, left = headers.get("Retry-After", ""), headers.get("X-RateLimit-Remaining", "")
    if after.strip().isdigit():
        return min(float(after), _LONGEST_WAIT)
    if left.strip() != "0":
        return None
    reset = headers.get("X-RateLimit-Reset", "").strip()
    wait = float(reset) - time.time() if reset.isdigit() else _LIMITED_WAIT
    return min(max(wait, 1.0), _LONGEST_WAIT)


class TokenSource:
    """Tokens by App installation; safe to share between threads."""

    def __init__(self, *, post: Post = _post, clock: Callable[[], float] = time.time) -> None:
        self._post = post
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
        with minting:  # whoever waits for one App's server is in nobody else's way
            with self._lock:
                cached = self._tokens.get(key)
            if cached is not None and cached[1] - self._clock() > _MARGIN:
                return cached[0]
            minted = self._mint(app)
            with self._lock:
                self._tokens[key] = minted
            return minted[0]

    def known(self, app: GitHubApp) -> SecretValue | None:
        """The token that was minted last, without minting one."""
        with self._lock:
            cached = self._tokens.get(_cache_key(app))
        return cached[0] if cached is not None else None

    def forget(self, app: GitHubApp) -> None:
        """Mint anew next time: the token may have been refused."""
        with self._lock:
            self._tokens.pop(_cache_key(app), None)

    def _mint(self, app: GitHubApp) -> tuple[SecretValue, float]:
        url = f"{app.base_url}/app/installations/{app.installation_id}/access_tokens"
        answer = self._post(url, app_jwt(app, now=int(self._clock())), app.ca)
        if answer.status in (401, 403, 404) and answer.retry_after is None:
            raise SecretMalformed(
                f"GitHub refuses the App {app.app_id} or its installation {app.installation_id} "
                f"(HTTP {answer.status}): check githubAppID, githubAppInstallationID and githubAppPrivateKey"
            )
        if answer.status != 201:
            raise RemoteUnavailable(
                f"the GitHub API answered HTTP {answer.status} instead of an App token",
                retry_after=answer.retry_after,
            )
        return _token_of(answer.body)


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
    parts = (app.base_url.encode(), app.installation_id.encode(), app.private_key.reveal())
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
