"""A small OpenID Connect provider on loopback: real discovery, codes, PKCE, keys and signed tokens.

It logs in whom the test says, and lies where the test says so.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests import loopback

CLIENT = "reverser"
SECRET = "a secret of the client, long enough to sign with"


@dataclass
class Provider:
    """Who logs in, and how the answers deviate from the truth."""

    port: int = 0
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1"})
    userinfo: dict[str, Any] = field(default_factory=dict)
    """What stands in the answer of the userinfo endpoint only."""
    token: dict[str, Any] = field(default_factory=dict)
    """Claims of the ID token that differ; None leaves one out."""
    algorithm: str = "RS256"
    published: bool = True
    """Whether the signing key is the one that is published."""
    issuer: str = ""
    """What it calls itself; its address unless given."""
    broken: str = ""
    """An endpoint that answers 500."""
    error: str = ""
    """Answered instead of a code."""
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    keys: dict[str, Any] = field(
        default_factory=lambda: {
            "RS256": rsa.generate_private_key(65537, 2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
        }
    )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def discovery(self) -> dict[str, Any]:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        found = {name: f"{self.url}/{path}" for name, path in names.items()}
        return {"issuer": self.issuer or self.url, **found, "userinfo_endpoint": f"{self.url}/userinfo"}

    def jwks(self) -> dict[str, Any]:
        published = []
        for name, key in self.keys.items():
            if not self.published:
                key = rsa.generate_private_key(65537, 2048) if name == "RS256" else key
            algorithm = jwt.get_algorithm_by_name(name)
            public = json.loads(algorithm.to_jwk(key.public_key()))  # type: ignore[attr-defined]
            published.append({**public, "kid": name, "use": "sig", "alg": name})
        return {"keys": published}

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent: back, with a code."""
        if self.error:
            return f"{query['redirect_uri']}?{urlencode({'error': self.error, 'state': query['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, form: dict[str, str]) -> dict[str, Any] | None:
        """The tokens of a code, once, for the client that it was made for and that can prove itself."""
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return None
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        if asked.get("code_challenge") != challenge or asked.get("code_challenge_method") != "S256":
            return None
        if asked["redirect_uri"] != form.get("redirect_uri"):
            return None
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.person,
            **self.token,
        }
        return {"access_token": "access", "token_type": "Bearer", "id_token": self.sign(claims)}

    def sign(self, claims: dict[str, Any]) -> str:
        """An ID token."""
        key = {"HS256": SECRET, "none": None}.get(self.algorithm, self.keys.get(self.algorithm))
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, key, algorithm=self.algorithm, headers={"kid": self.algorithm})


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            pass

        def _answer(self, body: dict[str, Any] | None, status: int = 200) -> None:
            text = json.dumps(body if body is not None else {"error": "invalid_grant"}).encode()
            self.send_response(status if body is not None else 400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            provider.asked.append(parts.path)
            if provider.broken and provider.broken in parts.path:
                self._answer({"error": "broken"}, 500)
            elif parts.path == "/.well-known/openid-configuration":
                self._answer(provider.discovery())
            elif parts.path == "/keys":
                self._answer(provider.jwks())
            elif parts.path == "/userinfo" and self.headers["Authorization"] == "Bearer access":
                self._answer({"sub": provider.person["sub"], **provider.userinfo})
            elif parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", provider.authorize(query))
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._answer({"error": "no such page"}, 404)

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if provider.broken and provider.broken in self.path:
                self._answer({"error": "broken"}, 500)
            else:
                self._answer(provider.exchange({name: values[0] for name, values in parse_qs(body).items()}))

    return Handler


@contextlib.contextmanager
def serving() -> Iterator[Provider]:
    """A provider for the time of the block."""
    provider = Provider()
    with loopback.serving(_handler(provider)) as provider.port:
        yield provider
