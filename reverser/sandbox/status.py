"""The `Status` bodies an API server answers errors with.

Clients decide by `code`, `reason` and `details`, people read `message`; every error of the sandbox is built
here, so that the texts exist once and equal those of a real server.
"""

from collections.abc import Iterable
from typing import Any

from reverser.sandbox.causes import Cause, join

Obj = dict[str, Any]


class ApiError(Exception):
    """An answer other than success; `reason` and `details` are left out of the body where not given."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Obj | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def body(self) -> Obj:
        """The `Status` object to send."""
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class PageNotFound(Exception):
    """No such path: a real server answers plain text, not a Status."""


def details_of(name: str, group: str, resource: str) -> Obj:
    """`details` of an error about one object; empty parts are left out."""
    details: Obj = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def qualified(group: str, resource: str) -> str:
    """`deployments.apps`, or `configmaps` in the core group."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(
        404,
        "NotFound",
        f'{qualified(group, resource)} "{name}" not found',
        details=details_of(name, group, resource),
    )


def already_exists(group: str, resource: str, name: str) -> ApiError:
    """409 for a create whose name is taken."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{qualified(group, resource)} "{name}" already exists',
        details=details_of(name, group, resource),
    )


def conflict(group: str, resource: str, name: str, why: str = "") -> ApiError:
    """409 for a write against an older version, or with a precondition that does not hold."""
    text = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {text}',
        details=details_of(name, group, resource),
    )


def forbidden(group: str, resource: str, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    """403 about an object or a collection (empty name)."""
    subject = f'{qualified(group, resource)} "{name}"' if name else qualified(group, resource)
    details = details_of(name, group, resource)
    if causes:
        details["causes"] = causes
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", details=details)


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def internal(message: str) -> ApiError:
    """500 with the prefix a real server puts before it."""
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def invalid(group: str, kind: str, name: str, causes: Iterable[Cause]) -> ApiError:
    """422 with one cause per field error."""
    listed = list(causes)
    details = details_of(name, group, kind)
    details["causes"] = [cause.as_dict() for cause in listed]
    return ApiError(
        422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {join(listed)}', details=details
    )


def invalid_list_options(field: str, why: str) -> ApiError:
    """422 about a query parameter of a list or watch."""
    message = f"Forbidden: {why}"
    return ApiError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": "FieldValueForbidden", "message": message, "field": field}],
        },
    )


def expired(message: str) -> ApiError:
    """410: the version asked for is no longer known."""
    return ApiError(410, "Expired", message)


def unsupported_media(accepted: Iterable[str]) -> ApiError:
    """415: a body of a type the resource does not take."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def success(group: str, resource: str, name: str, uid: str) -> Obj:
    """The Status of a delete that took effect at once."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details_of(name, group, resource) | {"uid": uid},
    }
