"""Every refusal is one document (RFC 9457, ``application/problem+json``), whichever part refuses.

The class of an error decides its HTTP status, here and nowhere else. Messages of the product's own errors end
with what to do and are passed on; any other error becomes a 500 without details.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db.utils import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.parsers import JSONParser
from rest_framework.response import Response
from rest_framework.views import set_rollback

from reverser.errors import (
    FieldCause,
    KubeConflict,
    KubeForbidden,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeThrottled,
    ReverserError,
    SettingsInvalid,
    StalledError,
    TransientError,
)

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"


def problem(
    status: int, detail: str, *, causes: list[dict[str, str]] | None = None, retry_after: float | None = None
) -> dict[str, Any]:
    """The document of a refusal."""
    body: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    body["detail"] = detail
    if causes:
        body["causes"] = causes
    if retry_after is not None:
        body["retryAfter"] = max(1, round(retry_after))
    return body


def answer(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """The response of a problem."""
    extra = dict(headers or {})
    if "retryAfter" in body:
        extra["Retry-After"] = str(body["retryAfter"])
    return Response(body, status=int(body["status"]), headers=extra, content_type=CONTENT_TYPE)


def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """The framework's exception handler."""
    set_rollback()
    if isinstance(error, ReverserError):
        return answer(_own(error))
    if isinstance(error, Http404):
        return answer(problem(404, "there is no such object, or no such page of a list"))
    if isinstance(error, PermissionDenied):
        return answer(problem(403, str(error) or "this is not allowed"))
    if isinstance(error, exceptions.APIException):
        return _framework(error)
    if isinstance(error, RequestDataTooBig):
        return answer(problem(413, "the body is too large"))
    if isinstance(error, SuspiciousOperation):
        return answer(problem(400, "the request cannot be read"))
    if isinstance(error, DatabaseError):
        logger.warning("the history database cannot be used", extra={"detail": type(error).__name__})
        return answer(problem(503, "the history database does not answer; try again", retry_after=5))
    logger.exception("a REST request failed; this is a bug")
    return answer(problem(500, "this is a bug; the log of web tells more"))


def _own(error: ReverserError) -> dict[str, Any]:
    if isinstance(error, KubeNotFound):
        return problem(404, str(error))
    if isinstance(error, KubeGone):
        return problem(410, "this page is no longer to be had; begin the list anew")
    if isinstance(error, KubeInvalid):
        causes = [_cause(cause) for cause in error.causes]
        return problem(422, str(error), causes=causes)
    if isinstance(error, KubeForbidden):
        return problem(403, str(error))
    if isinstance(error, KubeConflict):
        return problem(409, str(error))
    if isinstance(error, KubeThrottled):
        return problem(503, str(error), retry_after=error.retry_after or 5)
    if isinstance(error, TransientError):
        return problem(503, str(error), retry_after=error.retry_after or 5)
    if isinstance(error, StalledError | SettingsInvalid):
        return problem(503, str(error))
    logger.error("a REST request failed", extra={"detail": str(error)})
    return problem(500, str(error))


def _cause(cause: FieldCause) -> dict[str, str]:
    return {"field": cause.field, "reason": cause.reason, "message": cause.message}


def _framework(error: exceptions.APIException) -> Response:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if isinstance(error, exceptions.ValidationError):
        return answer(problem(400, "some fields cannot be used", causes=_fields(error.detail)))
    wait = getattr(error, "wait", None)
    return answer(problem(error.status_code, str(error.detail), retry_after=wait), headers)


def _fields(detail: Any, path: str = "") -> list[dict[str, str]]:
    if isinstance(detail, Mapping):
        found = [
            item for name, inner in detail.items() for item in _fields(inner, f"{path}.{name}".strip("."))
        ]
    elif isinstance(detail, list):
        found = [item for inner in detail for item in _fields(inner, path)]
    else:
        found = [{"field": path, "reason": str(getattr(detail, "code", "invalid")), "message": str(detail)}]
    return found[:50]


class BoundedJSONParser(JSONParser):
    """A JSON parser that refuses nesting beyond Python's recursion limit."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """The value. Raises ParseError."""
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise exceptions.ParseError("the body nests too deeply") from error


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/") or request.path == "/api"


def _plain(status: int, detail: str) -> HttpResponse:
    return JsonResponse(problem(status, detail), status=status, content_type=CONTENT_TYPE)


def not_found(request: HttpRequest, exception: Exception | None = None, **_rest: Any) -> HttpResponse:
    """An unknown address: a problem document below the API, a page elsewhere."""
    if _is_api(request):
        return _plain(404, f"there is no {request.path[:200]}; see /api/docs/")
    return defaults.page_not_found(request, exception or Http404())


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request refused before any view, for example for its host name."""
    if _is_api(request):
        return _plain(400, "the request cannot be read; is the host name one of REVERSER_ALLOWED_HOSTS?")
    return defaults.bad_request(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """A failure outside of any view."""
    if _is_api(request):
        return _plain(500, "this is a bug; the log of web tells more")
    return defaults.server_error(request)
