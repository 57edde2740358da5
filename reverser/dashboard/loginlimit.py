"""Guessing passwords is slowed down: failed logins are counted by name and by address.

The count is kept in the process's own cache: several web processes multiply the limit by their number. That
is accepted, because with a shared count in Redis an outage of Redis would lock everyone out of the dashboard.
A refused attempt does not look at the password at all.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.dispatch import receiver
from django.http import HttpRequest

from reverser.wiring import config

WINDOW_SECONDS = 600


def _keys(username: str, request: HttpRequest | None) -> list[str]:
    address = str(request.META.get("REMOTE_ADDR") or "") if request is not None else ""
    parts = [("name", username.strip().lower())] + ([("address", address)] if address else [])
    return [
        f"login-failures:{kind}:{hashlib.sha256(value.encode()).hexdigest()[:32]}" for kind, value in parts
    ]


class LimitedBackend(BaseBackend):
    """Runs before the other backends and ends the attempt after too many failures."""

    def authenticate(self, request: HttpRequest | None, username: str | None = None, **_rest: Any) -> None:
        """Raises PermissionDenied, which Django shows as a failed login, beyond the limit."""
        if username is None:
            return
        limit = config().login_rate
        # Behind a proxy all people share one address, so that count gets more room.
        for key, allowed in zip(_keys(username, request), (limit, limit * 5), strict=False):
            if int(cache.get(key, 0)) >= allowed:
                raise PermissionDenied("too many failed logins; wait ten minutes")


@receiver(user_login_failed)
def count_failure(credentials: dict[str, Any], request: HttpRequest | None = None, **_rest: Any) -> None:
    """One more failure of this name and address."""
    for key in _keys(str(credentials.get("username") or ""), request):
        cache.add(key, 0, WINDOW_SECONDS)
        try:
            cache.incr(key)
        except ValueError:
            cache.set(key, 1, WINDOW_SECONDS)


@receiver(user_logged_in)
def forget_failures(request: HttpRequest | None, user: Any, **_rest: Any) -> None:
    """A correct password clears the count of its name; the count of the address stays."""
    cache.delete(_keys(str(user.get_username()), request)[0])
