"""Two ways in: the cluster's bearer tokens, and a session of the admin (its writes need the CSRF token)."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from reverser.rest.access import review_token
from reverser.rest.identity import Caller, session_caller
from reverser.wiring import kube

LONGEST_TOKEN = 16_384


class KubernetesToken(BaseAuthentication):
    """``Authorization: Bearer <token>``, judged by a TokenReview."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        """The caller, or None without such a header. Raises AuthenticationFailed."""
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token.strip()
        caller = (
            review_token(kube(), token) if token and token.isascii() and len(token) <= LONGEST_TOKEN else None
        )
        if caller is None:
            raise AuthenticationFailed("the cluster does not know this token; is it valid and not expired?")
        return caller, None

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return 'Bearer realm="gitops-reverser"'


class AdminSession(SessionAuthentication):
    """A person who is logged in to the admin; RBAC knows them under a prefixed name."""

    def authenticate(self, request: Request) -> tuple[Caller, None] | None:
        """The caller, or None without a session of staff. Raises PermissionDenied without a CSRF token."""
        found = super().authenticate(request)
        if found is None or not found[0].is_staff:
            return None
        return session_caller(found[0]), None
