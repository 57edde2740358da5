"""Private keys in every PEM format that people store them in.

One loader serves SSH logins and commit signing: OpenSSH, PKCS#1, SEC1 and PKCS#8, with or without a
passphrase, repaired for the damage that Secrets do (CRLF, missing final newline, blanks around).
"""

from __future__ import annotations

import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey
_CURVES = {"secp256r1", "secp384r1", "secp521r1"}
_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


class KeyUnusable(ValueError):
    """Why a key cannot be used; the text is safe to show."""


def load_private_key(
    pem: bytes, passphrase: bytes | None, *, ignore_needless_passphrase: bool = False
) -> PrivateKey:
    """Load a key. Raises KeyUnusable: not PEM, encrypted without passphrase, wrong passphrase, a
    passphrase for a key that has none (unless ignored), or a type SSH does not know."""
    text = pem.replace(b"\r\n", b"\n").strip() + b"\n"
    if not _BEGIN.match(text):
        raise KeyUnusable(
            "is not a PEM private key; it is the whole file that begins with -----BEGIN, encoded once"
        )
    try:
        key = _checked(_load(text, None))
    except TypeError:  # raised for an encrypted key without a passphrase
        if not passphrase:
            raise KeyUnusable("is encrypted, and there is no passphrase; add it to the Secret") from None
    else:
        if passphrase and not ignore_needless_passphrase:
            raise KeyUnusable("is not encrypted, but a passphrase is given: remove the passphrase")
        return key
    try:
        return _checked(_load(text, passphrase))
    except (KeyUnusable, TypeError):
        raise KeyUnusable("cannot be decrypted: the passphrase is wrong, or the key is damaged") from None


def _load(text: bytes, passphrase: bytes | None) -> object:
    load = load_ssh_private_key if b"BEGIN OPENSSH" in text else load_pem_private_key
    try:
        return load(text, passphrase)
    except UnsupportedAlgorithm:
        raise KeyUnusable("uses a cipher or key type that is not supported") from None
    except ValueError:
        raise KeyUnusable("is damaged; copy the whole file again, to its last line") from None


def _checked(key: object) -> PrivateKey:
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name not in _CURVES:
        raise KeyUnusable(f"uses the curve {key.curve.name}, which SSH does not know")
    if isinstance(key, RSAPrivateKey) and key.key_size < 2048:
        raise KeyUnusable("is an RSA key of less than 2048 bits")
    if not isinstance(key, Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey):
        raise KeyUnusable("is neither ed25519, ECDSA nor RSA")
    return key


def public_line(key: PrivateKey) -> str:
    """The public half in authorized_keys form without a comment."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
