"""Keyed digests: recognising an unchanged sensitive object without storing it.

Ciphertext is random, so two sealings of one object differ, and re-sealing everything after each restart would
rewrite every Secret in Git. A digest of the plain text shows that nothing changed; it is keyed, so that a
reader of the store cannot test guesses against it. The key itself never enters the store: it is a generated
Secret in the command namespace, or a file that the owner alone can read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from reverser.errors import SecretMalformed
from reverser.trust.values import SecretValue

DIGEST_SECRET = "gitops-reverser-digest-key"  # noqa: S105 - the Secret's name
DIGEST_ENTRY = "digest.key"
_LENGTH = 32


class Digester:
    """Digests of sensitive objects under one key."""

    def __init__(self, key: SecretValue) -> None:
        if len(key.reveal()) < _LENGTH:
            raise SecretMalformed(
                f"the digest key is shorter than {_LENGTH} bytes; delete it to have a new one"
            )
        self._key = key

    def digest(self, plain: bytes, *, scope: str) -> str:
        """Hex digest of an object's plain text. ``scope`` names the target and the object: equal texts in
        different places have different digests."""
        mac = hmac.new(self._key.reveal(), digestmod=hashlib.sha256)
        raw = scope.encode()
        mac.update(len(raw).to_bytes(8, "big") + raw + plain)
        return mac.hexdigest()


def new_key_entries() -> dict[str, bytes]:
    """The decoded data of a new digest Secret."""
    return {DIGEST_ENTRY: base64.b64encode(secrets.token_bytes(_LENGTH)) + b"\n"}


def key_of_entries(data: Mapping[str, bytes], *, name: str) -> SecretValue:
    """The key in the digest Secret's decoded data. Raises SecretMalformed."""
    try:
        key = base64.b64decode(data.get(DIGEST_ENTRY, b"").strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < _LENGTH:
        raise SecretMalformed(
            f"Secret {name} holds no usable {DIGEST_ENTRY}; delete the Secret to have a new key "
            "(every sealed Secret is then written once more)"
        )
    return SecretValue(key)


def key_of_file(path: Path) -> SecretValue:
    """The key in a file of mode 0600, made if it is absent; processes that start together agree on one.

    Raises SecretMalformed for a damaged file.
    """
    if path.exists():
        return _read_key(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, new_key_entries()[DIGEST_ENTRY])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)  # atomic: the file appears whole, for the first process alone
    finally:
        fresh.unlink()
    return _read_key(path)


def _read_key(path: Path) -> SecretValue:
    try:
        key = base64.b64decode(path.read_bytes().strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) < _LENGTH:
        raise SecretMalformed(f"the digest key in {path} is damaged; delete the file to have a new one")
    return SecretValue(key)
