"""Who made a request: a user name, and what the identity provider's claims add.

The name and the claims always come from one and the same identity: of an impersonated request, nothing of
the impersonator is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reverser.store.model import Author
from webhooks.shapes import child, first, text

DISPLAY_NAME = "configbutler.ai/claims/display-name"
EMAIL = "configbutler.ai/claims/email"


def person(user: Mapping[str, Any]) -> Author:
    """The author in a ``UserInfo``; its user name is empty when there is none."""
    extra = child(user, "extra")
    return Author(text(user.get("username")), first(extra.get(DISPLAY_NAME)), first(extra.get(EMAIL)))


def impersonated(event: Mapping[str, Any]) -> bool:
    """Whether an audit event's request was made in somebody else's name."""
    return bool(text(child(event, "impersonatedUser").get("username")))


def effective(event: Mapping[str, Any]) -> Author:
    """Who an audit event's request acted as: the impersonated user, where there is one."""
    return person(child(event, "impersonatedUser" if impersonated(event) else "user"))
