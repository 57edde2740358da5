"""A server that plays GitHub's API for Apps, over real https: it checks what GitHub checks."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.git.servers import Authority
from tests.loopback import serving

KEY = rsa.generate_private_key(65537, 2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass
class GitHub:
    """The endpoints that tell an installation and give out its tokens, as GitHub documents them."""

    port: int = 0
    clock: float = field(default_factory=time.time)
    issued: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    redirect: str = ""
    limit: dict[str, str] = field(default_factory=dict)
    """Headers of a 403 that limits; empty = no limit."""
    installed: dict[str, int] = field(default_factory=dict)
    """Installation ids by what stands before ``/installation``: orgs/NAME or users/NAME."""
    base: str = ""
    """Path of the API, as GitHub Enterprise Server has it."""
    asked: list[str] = field(default_factory=list)
    lookup: tuple[int, bytes] | None = None
    """Another answer to every look-up."""
    suspended: bool = False

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def answer(self, method: str, authorization: str, path: str) -> tuple[int, bytes]:
        """Status and body for one request; what is wrong with it is kept."""
        self.asked.append(f"{method} {path}")
        try:
            self._check_jwt(authorization)
            assert path.startswith(self.base)
        except (ValueError, AssertionError, InvalidSignature) as error:
            self.complaints.append(repr(error))
            return 401, b'{"message": "A JSON web token could not be decoded"}'
        path = path.removeprefix(self.base)
        if (method, path) == ("POST", "/app/installations/34/access_tokens"):
            if self.suspended:
                return 403, b'{"message": "This installation has been suspended"}'
            self.issued.append(f"ghs_{len(self.issued)}")
            expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock + 3600))
            return 201, json.dumps({"token": self.issued[-1], "expires_at": expires}).encode()
        if self.lookup is not None:
            return self.lookup
        found = self.installed.get(path.strip("/").removesuffix("/installation"))
        if method != "GET" or not path.endswith("/installation") or found is None:
            return 404, b'{"message": "Not Found", "status": "404"}'
        return 200, json.dumps({"id": found, "app_id": 12, "repository_selection": "selected"}).encode()

    def _check_jwt(self, authorization: str) -> None:
        head, claims, signature = authorization.removeprefix("Bearer ").split(".")
        KEY.public_key().verify(_raw(signature), f"{head}.{claims}".encode(), PKCS1v15(), hashes.SHA256())
        said = json.loads(_raw(claims))
        assert json.loads(_raw(head)) == {"alg": "RS256", "typ": "JWT"}
        assert said["iss"] == "12"
        assert said["iat"] <= self.clock <= said["exp"] <= self.clock + 600


def _raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextlib.contextmanager
def github(authority: Authority) -> Iterator[GitHub]:
    state = GitHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

        def do_POST(self) -> None:
            headers: dict[str, str] = {}
            status, body = state.answer(self.command, self.headers.get("Authorization", ""), self.path)
            if state.redirect:
                status, headers, body = 302, {"Location": state.redirect}, b""
            elif state.limit:
                status, headers, body = 403, state.limit, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

    with serving(Handler, tls=authority.context()) as state.port:
        yield state
