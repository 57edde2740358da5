"""Installation tokens of a GitHub App, minted when needed and kept until shortly before they expire.

A token lives for an hour; a push with one that expired in between fails with 401. So a token is used only
while it has ten minutes left, and is forgotten when an operation with it fails. Tokens live in
this process' memory alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import GitHubApp
from reverser.trust.values import SecretValue

_MARGIN = 600.0
_TIMEOUT = 20.0

Post = Callable[[str, str, bytes], tuple[int, bytes]]
"""Posts to a URL with a bearer token, trusting a CA (PEM, empty = the system's); status and body."""


def _post(url: str, jwt: str, ca: bytes) -> tuple[int, bytes]:
    context = ssl.create_default_context(cadata=ca.decode() if ca else None)
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked to be https
        url,
        method="POST",
        headers={"Authorization": f"Bearer {jwt}", "Accept": "application/vnd.github+json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:  # noqa: S310
            return answer.status, answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError:
        raise RemoteUnavailable("the GitHub API does not answer; no App token could be obtained") from None


class TokenSource:
    """Tokens by App installation; safe to share between threads."""

    def __init__(self, *, post: Post = _post, clock: Callable[[], float] = time.time) -> None:
        self._post = post
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[SecretValue, float]] = {}

    def token(self, app: GitHubApp) -> SecretValue:
        """A valid token.

        Raises SecretMalformed when GitHub refuses the App, RemoteUnavailable when it does not answer.
        """
        key = _cache_key(app)
        with self._lock:
            cached = self._tokens.get(key)
            if cached is not None and cached[1] - self._clock() > _MARGIN:
                return cached[0]
            minted = self._mint(app)
            self._tokens[key] = minted
            return minted[0]

    def forget(self, app: GitHubApp) -> None:
        """Mint anew next time: the token may have been refused."""
        with self._lock:
            self._tokens.pop(_cache_key(app), None)

    def _mint(self, app: GitHubApp) -> tuple[SecretValue, float]:
        url = f"{app.base_url}/app/installations/{app.installation_id}/access_tokens"
        status, body = self._post(url, app_jwt(app, now=int(self._clock())), app.ca)
        if status in (401, 403, 404):
            raise SecretMalformed(
                f"GitHub refuses the App {app.app_id} or its installation {app.installation_id} "
                f"(HTTP {status}): check githubAppID, githubAppInstallationID and githubAppPrivateKey"
            )
        if status != 201:
            raise RemoteUnavailable(f"the GitHub API answered HTTP {status} instead of an App token")
        answer = json.loads(body)
        expires = datetime.fromisoformat(answer["expires_at"].replace("Z", "+00:00")).timestamp()
        return SecretValue(answer["token"].encode()), expires


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
