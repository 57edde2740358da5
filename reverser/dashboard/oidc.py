"""Logging in through an OpenID Connect provider, beside local people.

The code flow (state, nonce, PKCE, the session between the two requests) is mozilla-django-oidc's. What it
leaves open is decided here: endpoints come from the issuer's discovery document; an ID token is accepted only
with an asymmetric signature, from this issuer, for this client as its audience, and before it expires; a
person is identified by issuer and subject (``OpenIdentity``), never by name or address; and their rights are
what their groups give at each login, no more: viewer, operator, or none.

A local account is never taken over: where its name is taken, the login is refused.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
import requests
from django.contrib import auth, messages
from django.contrib.auth.models import Group, User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.cache import cache
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from reverser.dashboard.readings import Shared
from reverser.history.groups import OPERATOR, VIEWER
from reverser.history.models import OpenIdentity
from reverser.wiring import config

logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 5.0
LEEWAY_SECONDS = 60
DISCOVERY_SECONDS = 600.0
SESSION_SECONDS = 3600
"""Groups are read only at login, so a session is short; the next login needs no password."""
BEGINNINGS = 30
"""Logins that one address may begin in a minute: each makes a row in the table of sessions."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class LoginRefused(Exception):
    """The login is refused; the message is shown to the person."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the discovery document of an issuer names."""

    authorization: str
    token: str
    keys: str
    userinfo: str


def enabled() -> bool:
    """Whether an issuer is configured."""
    return bool(config().oidc_issuer)


def _fetch(url: str, **more: Any) -> dict[str, Any]:
    answer = requests.get(url, timeout=DEADLINE_SECONDS, allow_redirects=False, **more)
    answer.raise_for_status()
    found = answer.json()
    if answer.status_code != 200 or not isinstance(found, dict):
        raise LoginRefused("the login service answered something that cannot be used")
    return found


def discover() -> Endpoints:
    """The issuer's endpoints. Raises LoginRefused, requests.RequestException, ValueError."""
    issuer = config().oidc_issuer
    found = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != issuer:
        raise LoginRefused(
            f"the login service calls itself {found.get('issuer')!r}; set REVERSER_OIDC_ISSUER to that"
        )
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    if not all(isinstance(found.get(name), str) for name in names):
        raise LoginRefused("the login service does not name its endpoints")
    authorization, token, keys = (str(found[name]) for name in names)
    return Endpoints(authorization, token, keys, str(found.get("userinfo_endpoint") or ""))


ENDPOINTS: Shared[Endpoints] = Shared(DISCOVERY_SECONDS)


def _setting(name: str, *default: Any) -> Any:
    """The library's settings, from ours."""
    settings = config()
    known: dict[str, Any] = {
        "OIDC_RP_CLIENT_ID": settings.oidc_client_id,
        "OIDC_RP_SCOPES": settings.oidc_scopes,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "oidc_callback",
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": DEADLINE_SECONDS,
        "LOGIN_REDIRECT_URL": "admin:index",
        "LOGIN_REDIRECT_URL_FAILURE": reverse("admin:login"),
    }
    if name == "OIDC_OP_AUTHORIZATION_ENDPOINT":
        return ENDPOINTS.get(discover).authorization
    return known[name] if name in known else import_from_settings(name, *default)


class OpenIdBackend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Verifies the issuer's response. Does nothing for a login with a password."""

    def __init__(self) -> None:
        self.UserModel = User
        self.OIDC_RP_CLIENT_ID = config().oidc_client_id
        self.OIDC_RP_CLIENT_SECRET = config().oidc_client_secret

    get_settings = staticmethod(_setting)

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> User | None:
        """The person behind a code. Raises LoginRefused, and the errors of requests to the issuer."""
        if not enabled() or not kwargs.get("code_verifier"):
            return None
        self.OIDC_OP_TOKEN_ENDPOINT = ENDPOINTS.get(discover).token
        found: User | None = super().authenticate(request, **kwargs)
        return found

    def raise_token_response_error(self, response: Any) -> None:
        """The library would put the answer's body, which may be anything, into the message."""
        response.raise_for_status()

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """The claims of a valid ID token of the issuer for this client. Raises SuspiciousOperation."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise SuspiciousOperation("the ID token is not signed with a key of the issuer")
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key(header),
                algorithms=[header["alg"]],
                audience=self.OIDC_RP_CLIENT_ID,
                issuer=config().oidc_issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise SuspiciousOperation(f"the ID token does not count: {error}") from error
        nonce = kwargs.get("nonce")
        if not nonce or not hmac.compare_digest(str(nonce), str(claims.get("nonce") or "")):
            raise SuspiciousOperation("the ID token belongs to another login")
        if claims.get("azp", self.OIDC_RP_CLIENT_ID) != self.OIDC_RP_CLIENT_ID:
            raise SuspiciousOperation("the ID token was made for another client")
        return claims

    def _key(self, header: Mapping[str, Any]) -> Any:
        keys = _fetch(ENDPOINTS.get(discover).keys).get("keys")
        fitting = [
            key
            for key in (keys if isinstance(keys, list) else ())
            if isinstance(key, dict)
            and key.get("use", "sig") == "sig"
            and key.get("alg", header["alg"]) == header["alg"]
            and ("kid" not in header or key.get("kid") == header["kid"])
        ]
        if len(fitting) != 1:
            raise SuspiciousOperation("the issuer has no one key of that name")
        return jwt.PyJWK(fitting[0], algorithm=header["alg"]).key

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        """The person's account, with their present rights. Raises LoginRefused."""
        settings, claims = config(), dict(payload)
        wanted = {settings.oidc_username_claim, settings.oidc_groups_claim}
        userinfo = ENDPOINTS.get(discover).userinfo
        if not wanted <= set(claims) and userinfo:
            more = _fetch(userinfo, headers={"Authorization": f"Bearer {access_token}"})
            if more.get("sub") != claims["sub"]:
                raise LoginRefused("the login service told of another person")
            claims = {**more, **claims}
        return admit(claims)


def roles_of(claims: Mapping[str, Any]) -> set[str]:
    """The product's groups that the issuer's groups map to."""
    settings = config()
    told = claims.get(settings.oidc_groups_claim)
    theirs = {str(name) for name in told} if isinstance(told, list) else {str(told)} if told else set()
    meant = {VIEWER: settings.oidc_viewer_groups, OPERATOR: settings.oidc_operator_groups}
    return {name for name, groups in meant.items() if theirs & set(groups)}


def admit(claims: Mapping[str, Any]) -> User:
    """The account of these claims, created or updated. Raises LoginRefused."""
    settings = config()
    name, roles = str(claims.get(settings.oidc_username_claim) or ""), roles_of(claims)
    try:
        UnicodeUsernameValidator()(name)
        if len(name) > 150:
            raise ValidationError("too long")
    except ValidationError as error:
        raise LoginRefused(
            f"the login service tells no usable name in its claim {settings.oidc_username_claim!r}; "
            "an administrator can choose another one (REVERSER_OIDC_USERNAME_CLAIM)"
        ) from error
    try:
        with transaction.atomic():
            user = _account(settings.oidc_issuer, str(claims["sub"]), name)
            user.is_staff = bool(roles) or user.is_superuser
            user.email = str(claims.get("email") or "")[:254]
            user.first_name = str(claims.get("given_name") or "")[:150]
            user.last_name = str(claims.get("family_name") or "")[:150]
            user.save()
            kept = user.groups.exclude(name__in=(VIEWER, OPERATOR))
            user.groups.set([*kept, *Group.objects.filter(name__in=roles)])
    except IntegrityError as error:
        raise LoginRefused(
            f"the name {name!r} belongs to another account here; an administrator can rename or remove it"
        ) from error
    if not user.is_active:
        raise LoginRefused("this account was closed by an administrator")
    if not user.is_staff:
        raise LoginRefused("none of your groups may see this; ask for one of those that may")
    return user


def _account(issuer: str, subject: str, name: str) -> User:
    identity = OpenIdentity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    if identity is not None:
        identity.user.username = name
        return identity.user
    user = User(username=name)
    user.set_unusable_password()
    user.save()
    OpenIdentity.objects.create(user=user, issuer=issuer, subject=subject)
    return user


def _refuse(request: HttpRequest, words: str) -> HttpResponse:
    messages.error(request, f"Login failed: {words}.")
    return HttpResponseRedirect(reverse("admin:login"))


def _unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.warning("the login service cannot be used", extra={"detail": str(error)[:500]})
    return _refuse(request, "the login service does not answer as it should; the log of web tells more")


class Begin(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """To the issuer."""

    get_settings = staticmethod(_setting)

    def __init__(self, **more: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**more)

    def get(self, request: HttpRequest) -> HttpResponse:
        """A redirect to the issuer, or back to the login page where that fails."""
        if not enabled():
            raise Http404
        key = f"oidc-beginnings:{request.META.get('REMOTE_ADDR') or ''}"
        cache.add(key, 0, 60)
        if cache.incr(key) > BEGINNINGS:
            words = "too many logins begin here; wait a minute"
            return HttpResponse(words, status=429, content_type="text/plain", headers={"Retry-After": "60"})
        try:
            self.OIDC_OP_AUTH_ENDPOINT = self.get_settings("OIDC_OP_AUTHORIZATION_ENDPOINT")
            self.OIDC_RP_CLIENT_ID = config().oidc_client_id
            found: HttpResponse = super().get(request)
            return found
        except LoginRefused as error:
            return _refuse(request, str(error))
        except (requests.RequestException, ValueError) as error:
            return _unavailable(request, error)


class Callback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """From the issuer."""

    get_settings = staticmethod(_setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Into the admin, or back to the login page with the reason."""
        if not enabled():
            raise Http404
        try:
            found: HttpResponse = super().get(request)
            return found
        except LoginRefused as error:
            return _refuse(request, str(error))
        except SuspiciousOperation as error:
            logger.warning("a login was refused", extra={"detail": str(error)})
            return _refuse(request, "the login service's answer does not belong to this login; try again")
        except (requests.RequestException, ValueError) as error:
            return _unavailable(request, error)

    def login_success(self) -> HttpResponse:
        """Start a short session."""
        goal = self.success_url
        auth.login(self.request, self.user, backend="reverser.dashboard.oidc.OpenIdBackend")
        self.request.session.pop("oidc_login_next", None)
        self.request.session.set_expiry(SESSION_SECONDS)
        return HttpResponseRedirect(goal)

    def login_failure(self) -> HttpResponse:
        """The person declined, or followed a link of another login."""
        return _refuse(self.request, "the login service did not confirm it; try again")
