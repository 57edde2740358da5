"""The ``data`` of Secrets and the ``binaryData`` of ConfigMaps: base64 on the wire, bytes here.

One function for every reader, so that a check, a writer and a sealer judge the same bytes. An API server
stores nothing that is not base64; should an entry not be, it counts as empty, and its reader reports it as
missing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any


def decode_entries(entries: Mapping[str, Any] | None) -> dict[str, bytes]:
    """All entries, decoded; none where the object has no such field."""
    return {key: decode_entry(value) for key, value in (entries or {}).items()}


def decode_entry(value: Any) -> bytes:
    """One entry; empty when it is not base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def encode_entries(entries: Mapping[str, bytes]) -> dict[str, str]:
    """The inverse of ``decode_entries``."""
    return {key: base64.b64encode(value).decode() for key, value in entries.items()}
