"""What the API server's refusals mean: HTTP status and Status body to the error tree.

The class is decided by code, reason and field causes alone. Messages are passed on for people and never
parsed. The same mapping serves HTTP answers and ERROR events inside a watch, whose object is a Status too.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import orjson

from reverser.errors import (
    FieldCause,
    KubeConflict,
    KubeForbidden,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeThrottled,
    KubeUnauthenticated,
    KubeUnavailable,
    ReverserError,
)

MESSAGE_LIMIT = 1024
_CACHE_BEHIND = "ResourceVersionTooLarge"
"""The cause of a 504 whose message blames the resourceVersion that was asked for."""


def parse_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header (delta or HTTP date), or None when absent or unreadable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except (ValueError, TypeError):
        return None


def http_error(what: str, status: int, body: bytes, retry_after: str | None = None) -> ReverserError:
    """The error for an HTTP answer of 300 or more. ``what`` names the request, for the message."""
    return status_error(what, _status_of(body), code=status, retry_after=parse_retry_after(retry_after))


def status_error(
    what: str, status: Mapping[str, Any], *, code: int = 0, retry_after: float | None = None
) -> ReverserError:
    """The error that a Status object stands for. ``code`` is the HTTP code, 0 inside a watch."""
    code = code or _int(status.get("code"))
    reason = _text(status.get("reason"))
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    message = _message(what, code, reason, _text(status.get("message")))
    wait = _int(details.get("retryAfterSeconds"))
    retry_after = retry_after if retry_after is not None else (float(wait) if wait > 0 else None)
    if any(cause.reason == _CACHE_BEHIND for cause in _causes(details)):
        message += "; its cache is behind its etcd: it has just started, or is overloaded, and is asked again"
    if code == 410 or reason in {"Expired", "Gone"}:
        return KubeGone(message)
    if code == 401:
        return KubeUnauthenticated(message)
    if code == 403:
        return KubeForbidden(message)
    if code == 404:
        return KubeNotFound(message)
    if code == 409:
        return KubeConflict(message, exists=reason == "AlreadyExists")
    if code == 429 or (retry_after is not None and (code >= 500 or code == 0)):
        return KubeThrottled(message, retry_after=retry_after)
    if 400 <= code < 500 and code != 408:
        return KubeInvalid(message, status=code, causes=_causes(details))
    return KubeUnavailable(message, retry_after=retry_after, status=code)


def _causes(details: Mapping[str, Any]) -> tuple[FieldCause, ...]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return ()
    return tuple(
        FieldCause(
            field=_text(cause.get("field")),
            reason=_text(cause.get("reason")),
            message=_text(cause.get("message"))[:MESSAGE_LIMIT],
        )
        for cause in causes
        if isinstance(cause, Mapping)
    )


def _status_of(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {"message": body[:MESSAGE_LIMIT].decode("utf-8", "replace").strip()}
    return value if isinstance(value, dict) else {}


def _message(what: str, code: int, reason: str, text: str) -> str:
    head = " ".join(part for part in (str(code) if code else "", reason) if part) or "error"
    if code >= 500 or not code:
        # A server may quote the whole of what it could not handle, a Secret's data too: only the words before
        # it are kept.
        text, quoted, _ = text.partition("{")
        text += "..." if quoted else ""
    tail = f": {text[:MESSAGE_LIMIT]}" if text else ""
    return f"{what}: the API server answered {head}{tail}"


def _int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
