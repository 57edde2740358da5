"""Secret values that do not print themselves, and text with secrets redacted.

A value that reaches a log line, an exception or a status stays public forever, so secrets travel in a type
whose every textual form is a mask, and foreign text (a server's output) passes ``redact`` first.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

_MASK = "****"
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_AUTHORIZATION = re.compile(r"(?i)\b(authorization:\s*)\S+(\s+\S+)?")
_NAMED = re.compile(
    r"(?i)([?&;](?:[a-z0-9]+[-_.])*"
    r"(?:token|access[-_]?key|api[-_]?key|password|passwd|secret|sig|signature|credential)=)[^\s&;#\"'<>]+"
)
"""The value of a query parameter whose name says that it is a secret, ``private_token`` for one."""
_TOKENS = re.compile(
    r"(?:\bgh[opsur]_|\bgithub_pat_|\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-|\bAT(?:BB|CTT3|ATT3)|\bxox[a-z]-"
    r"|\bhvs\.|AGE-SECRET-KEY-)[A-Za-z0-9_=.-]{6,}"
)
"""Tokens that the host that gave them out, or age, marks as such."""
_UNBLOCK = re.compile(r"https?://\S+/unblock-secret/\S+")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class SecretValue:
    """Bytes that must not be shown. Equality takes the same time whatever differs."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves; call it only where they leave for their one destination."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretValue) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"SecretValue({_MASK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret value is not serialised")


def redact(text: str, secrets: Iterable[SecretValue] = (), *, limit: int = 1024) -> str:
    """``text`` without the given secrets (plain, percent-encoded, JSON-escaped, base64, hexadecimal), URL
    userinfo, query parameters that name a secret, tokens that are marked as such, authorization headers,
    secret-scanning bypass links and terminal control; at most ``limit`` characters."""
    forms = {form for secret in secrets for form in _forms(secret.reveal())}
    for form in sorted(forms, key=len, reverse=True):  # the longest first: one may end another
        text = text.replace(form, _MASK)
    text = _CONTROLS.sub("", _ESCAPES.sub("", text)).strip()  # before what looks for the ends of words
    text = _AUTHORIZATION.sub(rf"\1{_MASK}", text)
    text = _USERINFO.sub(f"{_MASK}@", text)
    text = _TOKENS.sub(_MASK, _NAMED.sub(rf"\1{_MASK}", text))
    text = _UNBLOCK.sub("(bypass link removed)", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _forms(raw: bytes) -> set[str]:
    """How a value may appear in text; empty for one too short to be distinguished from coincidence."""
    if len(raw) < 4:
        return set()
    plain = raw.decode("utf-8", "replace")
    return {
        plain,
        quote(plain, safe=""),
        json.dumps(plain)[1:-1],
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode(),
        raw.hex(),
    }
