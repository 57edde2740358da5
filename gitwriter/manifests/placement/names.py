"""File names that every checkout can hold and that the next scan reads back as what they are.

Escapes are percent-encoded, and no Kubernetes name contains a percent sign, so an escaped name never
meets a plain one.
"""

from __future__ import annotations

import hashlib
import re

from ..roles import MANIFEST_SUFFIXES, RESERVED_NAMES, SEALED_SUFFIXES

_UNSAFE = re.compile(r"[%/\\\x00-\x1f\x7f]")
_MAX_SEGMENT_BYTES = 240
_HASH_CHARS = 12


def escape_segment(value: str) -> str:
    """A value as part of one path segment: `%`, `/`, `\\` and control characters are percent-encoded."""
    return _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", value)


def safe_path(path: str, *, sensitive: bool) -> str:
    """The path with every segment short enough, and a plain file not named like a sealed or reserved one."""
    segments = path.split("/")
    segments[:-1] = [_shorten(segment, "") for segment in segments[:-1]]
    name = segments[-1]
    if name in RESERVED_NAMES:
        name = f"%{ord(name[0]):02X}{name[1:]}"
    elif not sensitive and name.endswith(SEALED_SUFFIXES):
        stem, _dot, suffix = name.rpartition(".sops.")
        name = f"{stem}%2Esops.{suffix}"
    suffix = next((end for end in (*SEALED_SUFFIXES, *MANIFEST_SUFFIXES) if name.endswith(end)), "")
    segments[-1] = _shorten(name, suffix)
    return "/".join(segments)


def _shorten(segment: str, suffix: str) -> str:
    encoded = segment.encode()
    if len(encoded) <= _MAX_SEGMENT_BYTES:
        return segment
    digest = hashlib.sha256(encoded).hexdigest()[:_HASH_CHARS]
    stem = encoded.removesuffix(suffix.encode()) if suffix else encoded
    room = _MAX_SEGMENT_BYTES - len(suffix) - _HASH_CHARS - 1
    return f"{stem[:room].decode(errors='ignore')}%{digest}{suffix}"
