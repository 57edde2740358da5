"""What both clients agree on: requests, list values, patch types, encoding and decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import orjson

from reverser.deepjson import loads
from reverser.errors import KubeUnavailable

DEFAULT_TIMEOUT = 30.0
"""Seconds that any call may take unless its caller says otherwise."""
PAGE_SIZE = 500
LIST_RESTARTS = 5


class CertificateRejected(KubeUnavailable):
    """No TLS connection: the server's certificate is not signed by the authority that is known here."""


class Patch(Enum):
    """Content types of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """In whose name a request is made; needs the right to ``impersonate`` that user and these groups."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One request, before identity headers are added."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    payload: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    acting_as: Impersonation | None = None

    @property
    def name(self) -> str:
        """Its name in messages; the query is left out, as it may be long."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class KubeList:
    """A list, or one page of it, with the resourceVersion at which it was true."""

    items: list[dict[str, Any]]
    resource_version: str


def encode_body(body: Any, content_type: str) -> tuple[bytes | None, dict[str, str]]:
    """The bytes to send (None without a body) and the headers that go with them."""
    if body is None:
        return None, {}
    payload = body if isinstance(body, bytes) else orjson.dumps(body)
    return payload, {"Content-Type": content_type}


def decode_object(answer: bytes) -> dict[str, Any]:
    """An answer that must be one JSON object. Raises KubeUnavailable when it is not."""
    try:
        value = loads(answer)
    except orjson.JSONDecodeError as error:
        raise KubeUnavailable("the API server's answer is not JSON; is a proxy in between?") from error
    if not isinstance(value, dict):
        raise KubeUnavailable("the API server's answer is no JSON object; is a proxy in between?")
    return value


def decode_page(answer: bytes) -> tuple[KubeList, str]:
    """One page and its continue token. Items get the apiVersion and kind that a list leaves out."""
    value = decode_object(answer)
    meta = value.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    items = [item for item in value.get("items") or () if isinstance(item, dict)]
    kind = str(value.get("kind") or "")
    if kind.endswith("List") and kind != "List":
        api_version = value.get("apiVersion")
        items = [{"apiVersion": api_version, "kind": kind.removesuffix("List"), **item} for item in items]
    return (
        KubeList(items=items, resource_version=str(meta.get("resourceVersion") or "")),
        str(meta.get("continue") or ""),
    )


def status_path(path: str) -> str:
    """The status subresource of an object's path."""
    return f"{path}/status"
