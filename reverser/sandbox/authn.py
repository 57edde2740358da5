"""Who is asking: bearer tokens, client certificates, and impersonation headers.

As on a real server a request without credentials is `system:anonymous`, a wrong token is 401, and whoever is
known belongs to `system:authenticated`.
"""

import csv
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from reverser.errors import SettingsInvalid
from reverser.sandbox.status import ApiError

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
_EXTRA = "impersonate-extra-"


@dataclass(frozen=True, slots=True)
class User:
    """An identity as `userInfo` shows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """The `userInfo` object of audit events and admission reviews; empty parts are left out."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class Tokens:
    """The static bearer tokens; comparisons take the same time whatever the token."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def add(self, token: str, user: User) -> None:
        """Let a token stand for a user; `system:authenticated` is added to its groups."""
        groups = (*[g for g in user.groups if g != AUTHENTICATED], AUTHENTICATED)
        self._users[token] = User(user.name, user.uid, groups, user.extra)

    def load(self, path: Path) -> None:
        """Read a static token file: lines of token, user, uid and, quoted, comma-separated groups.

        Raises OSError, or SettingsInvalid where a line is not such a line.
        """
        with path.open(newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row:
                    continue
                if len(row) < 3 or not row[0] or not row[1]:
                    raise SettingsInvalid([f'{path}, line {number}: expected token,user,uid,"group,group"'])
                groups = row[3].split(",") if len(row) > 3 and row[3] else []
                self.add(row[0], User(row[1], row[2], tuple(g.strip() for g in groups)))

    def find(self, token: str) -> User | None:
        """The user of a token, or None."""
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = user
        return found


def unauthorized() -> ApiError:
    """401 as a server words it."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def authenticate(tokens: Tokens, authorization: str, client_cert: bytes | None) -> User:
    """The user of a request. `client_cert` is the DER certificate the TLS layer has verified. Raises 401."""
    if client_cert is not None:
        subject = x509.load_der_x509_certificate(client_cert).subject
        names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        groups = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        if names:
            return User(names[0], groups=(*groups, AUTHENTICATED))
    if not authorization:
        return ANONYMOUS
    scheme, _, token = authorization.partition(" ")
    user = tokens.find(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise unauthorized()
    return user


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The identity asked for, what must be allowed for it, and the constraint that audit events name."""

    user: User
    #: (group, resource, subresource, name) that the real user must be allowed to `impersonate`.
    checks: tuple[tuple[str, str, str, str], ...]
    constraint: str


def impersonation(headers: Iterable[tuple[str, str]]) -> Impersonation | None:
    """The `Impersonate-*` headers, or None where there are none. Raises 500 where the user is missing."""
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        lower = header.lower()
        if lower == "impersonate-user":
            name = value
        elif lower == "impersonate-uid":
            uid = value
        elif lower == "impersonate-group":
            groups.append(value)
        elif lower.startswith(_EXTRA):
            extra.setdefault(unquote(lower[len(_EXTRA) :]), []).append(value)
    if not name:
        if uid or groups or extra:
            raise ApiError(
                500, "InternalError", "Internal error occurred: requested impersonation without a user"
            )
        return None
    checks: list[tuple[str, str, str, str]] = []
    account = name.split(":")[2:] if name.startswith("system:serviceaccount:") else []
    if len(account) == 2:
        checks.append(("", "serviceaccounts", "", account[1]))
        constraint = "impersonate:serviceaccount"
        if not groups:
            implied = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
        else:
            implied = []
    else:
        checks.append(("", "users", "", name))
        constraint = "impersonate:user-info"
        implied = []
    checks += [("", "groups", "", group) for group in groups]
    checks += [("authentication.k8s.io", "userextras", k, v) for k, vs in extra.items() for v in vs]
    if uid:
        checks.append(("authentication.k8s.io", "uids", "", uid))
    everyone = [*groups, *implied]
    if name != ANONYMOUS.name and AUTHENTICATED not in everyone:
        everyone.append(AUTHENTICATED)
    frozen = {key: tuple(values) for key, values in extra.items()}
    return Impersonation(User(name, uid, tuple(everyone), frozen), tuple(checks), constraint)
