"""Which SSH host keys to trust: three sources in order, and none means no connection.

Trust on first use would trust an attacker in the middle of the first connection forever, so keys are only
taken from what a person configured: the credentials Secret, ``spec.knownHostsRef``, the installation's
default ConfigMap. The first source with content wins. Content that is present but broken is an error,
whatever flag is set: someone meant to pin keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from reverser.errors import SecretMalformed

REFERENCE_KEYS = ("known_hosts", "ssh_known_hosts")
_MARKERS = {"@cert-authority": " (authority)", "@revoked": " (revoked)"}
_HASHED = re.compile(r"\|1\|[A-Za-z0-9+/]{27}=\|[A-Za-z0-9+/]{27}=")


@dataclass(frozen=True, slots=True)
class HostKey:
    """One known-hosts line: marker or empty, host patterns, key type, and the key's fingerprint."""

    marker: str
    patterns: str
    key_type: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """Trusted host keys. ``verify`` is false only under the insecure flag with no source at all."""

    content: bytes
    source: str
    verify: bool = True

    def fingerprints(self, host: str) -> tuple[str, ...]:
        """``type fingerprint`` of the keys pinned for a host, as known_hosts spells hosts; a marked one with
        what its line makes of it."""
        keys = parse_known_hosts(self.content, source=self.source)
        return tuple(
            f"{key.key_type} {key.fingerprint}{_MARKERS.get(key.marker, '')}"
            for key in keys
            if _matches(key.patterns, host)
        )


def resolve_known_hosts(
    secret: bytes,
    *,
    reference: Mapping[str, bytes] | None = None,
    reference_name: str = "spec.knownHostsRef",
    default: Mapping[str, bytes] | None = None,
    default_name: str = "the default known-hosts ConfigMap",
    allow_missing: bool = False,
) -> KnownHosts:
    """The first source with content: the Secret's ``known_hosts``, the referenced object, the default.

    ``reference`` and ``default`` are the objects' data (None = not configured, or skipped by the caller).
    Raises SecretMalformed for broken content, and for no content unless ``allow_missing``.
    """
    candidates = [(secret, "key 'known_hosts' of the credentials Secret")]
    for data, name in ((reference, reference_name), (default, default_name)):
        for key in REFERENCE_KEYS:
            candidates.append(((data or {}).get(key, b""), f"key {key!r} of {name}"))
    for content, source in candidates:
        if not content.strip():
            continue
        text = content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
        parse_known_hosts(text, source=source)
        return KnownHosts(text, source)
    if allow_missing:
        return KnownHosts(b"", "none", verify=False)
    raise SecretMalformed(
        "no SSH host keys: put known_hosts into the credentials Secret, or set spec.knownHostsRef, or name a "
        "ConfigMap with --default-known-hosts-configmap "
        "(--insecure-allow-missing-known-hosts connects without verification)"
    )


def parse_known_hosts(content: bytes, *, source: str) -> list[HostKey]:
    """Parse strictly. Raises SecretMalformed naming the source and the line; also for no entry at all."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise SecretMalformed(f"{source} is not UTF-8 text") from None
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found.append(_parse_line(line.split(), f"{source}, line {number}"))
    if not found:
        raise SecretMalformed(f"{source} holds no host key")
    return found


def _parse_line(fields: list[str], where: str) -> HostKey:
    marker = ""
    if fields[0].startswith("@"):
        marker, *fields = fields
        if marker not in _MARKERS:
            raise SecretMalformed(f"{where}: unknown marker {marker[:40]!r}")
    if len(fields) < 3:
        raise SecretMalformed(f"{where}: expected host names, key type and key")
    patterns, key_type, text = fields[:3]
    if patterns.startswith("|") and not _HASHED.fullmatch(patterns):
        raise SecretMalformed(f"{where}: malformed hashed host name")
    try:
        raw = base64.b64decode(text, validate=True)
        (length,) = struct.unpack(">I", raw[:4])
        inner = raw[4 : 4 + length].decode("ascii")
    except (binascii.Error, struct.error, ValueError):
        raise SecretMalformed(f"{where}: the key is not valid base64 of an SSH key") from None
    if inner != key_type or len(raw) <= 4 + length:
        raise SecretMalformed(f"{where}: the key is not of the type {key_type[:40]!r} that the line names")
    digest = base64.b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
    return HostKey(marker, patterns, key_type, f"SHA256:{digest}")


def _matches(patterns: str, host: str) -> bool:
    if patterns.startswith("|1|"):
        salt, want = (base64.b64decode(part) for part in patterns.split("|")[2:4])
        return hmac.compare_digest(hmac.new(salt, host.encode(), hashlib.sha1).digest(), want)
    matched = False
    for pattern in patterns.split(","):
        regex = re.escape(pattern.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(regex, host, re.IGNORECASE):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched
