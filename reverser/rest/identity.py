"""Who asks, as Kubernetes knows them.

There are two ways in and one kind of caller. A bearer token belongs to the cluster: TokenReview says whose it
is. A person logged in to the admin does not, so their name gets a prefix that keeps them apart from any
cluster user of that name; RBAC then says what ``gitops-reverser:alice``, of the groups
``gitops-reverser:viewer`` and so on, may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reverser.kube.requests import Impersonation
from reverser.wiring import config

AUTHENTICATED = "system:authenticated"
VIEWER = "viewer"
OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller of REST, or a person at the admin; stands as ``request.user`` in REST."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_authenticated: bool = True

    @property
    def pk(self) -> str:
        """The key that throttling counts by."""
        return self.username

    @property
    def impersonation(self) -> Impersonation:
        """For requests to the cluster in the caller's name. The API server adds the groups that every user
        has."""
        return Impersonation(self.username, tuple(g for g in self.groups if g != AUTHENTICATED))


def session_caller(user: Any) -> Caller:
    """The caller that a logged-in Django user is. ``groups`` costs one query."""
    prefix = config().session_user_prefix
    names = set(user.groups.values_list("name", flat=True))
    if user.is_superuser:
        names |= {VIEWER, OPERATOR}
    groups = (*(f"{prefix}{name}" for name in sorted(names)), AUTHENTICATED)
    return Caller(f"{prefix}{user.get_username()}", groups)
