"""SSH signatures over commits, as ``git verify-commit`` reads them.

The signature format (SSHSIG) is small and fixed, so it is built here: no child process sees the key, and no
file holds it. Keys are ed25519, ECDSA or RSA; RSA signs with SHA-512 only, because every current verifier
refuses the older form of the signature.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from reverser.errors import SecretMalformed, SecretMissing
from reverser.trust.keys import KeyUnusable, PrivateKey, load_private_key, public_line

SIGNING_KEY = "signing.key"
SIGNING_PUBLIC = "signing.pub"
PASSPHRASE = "passphrase"  # noqa: S105 - the name of a Secret's entry
NAMESPACE = b"git"
_HASH = b"sha512"
_CURVE_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs commits. Its textual form shows the public half alone."""

    _key: PrivateKey

    @property
    def public(self) -> str:
        """The public half in authorized_keys form, without a comment."""
        return public_line(self._key)

    def __repr__(self) -> str:
        return f"SigningKey({self.public})"

    def sign(self, payload: bytes) -> str:
        """The armored SSHSIG over ``payload`` in namespace ``git``; no line break at the end."""
        signed = b"SSHSIG" + b"".join(
            _string(part) for part in (NAMESPACE, b"", _HASH, hashlib.sha512(payload).digest())
        )
        public_blob = base64.b64decode(self.public.split(" ")[1])
        blob = b"SSHSIG" + struct.pack(">I", 1)
        blob += b"".join(
            _string(part) for part in (public_blob, NAMESPACE, b"", _HASH, _raw_signature(self._key, signed))
        )
        text = base64.b64encode(blob).decode()
        lines = [text[start : start + 70] for start in range(0, len(text), 70)]
        return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----"])


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _mpint(value: int) -> bytes:
    return _string(value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _raw_signature(key: PrivateKey, signed: bytes) -> bytes:
    if isinstance(key, Ed25519PrivateKey):
        return _string(b"ssh-ed25519") + _string(key.sign(signed))
    if isinstance(key, RSAPrivateKey):
        return _string(b"rsa-sha2-512") + _string(key.sign(signed, PKCS1v15(), hashes.SHA512()))
    assert isinstance(key, EllipticCurvePrivateKey)
    der = key.sign(signed, ECDSA(_CURVE_HASHES[key.curve.name]))
    r, s = decode_dss_signature(der)
    return _string(public_line(key).split(" ")[0].encode()) + _string(_mpint(r) + _mpint(s))


def load_signing_key(data: Mapping[str, bytes], *, name: str) -> SigningKey:
    """The key in a Secret's decoded data; ``name`` is ``namespace/name``.

    Raises SecretMissing without ``signing.key``; SecretMalformed for an unreadable key, a wrong or missing
    passphrase, or a passphrase for a key that has none.
    """
    pem = data.get(SIGNING_KEY, b"")
    if not pem.strip():
        raise SecretMissing(f"signing secret {name} is missing {SIGNING_KEY}")
    try:
        return SigningKey(load_private_key(pem, data.get(PASSPHRASE) or None))
    except KeyUnusable as problem:
        raise SecretMalformed(f"signing secret {name} malformed: {SIGNING_KEY} {problem}") from None


def generate_signing_entries(existing: Mapping[str, bytes]) -> dict[str, bytes]:
    """The entries to add to a signing Secret (empty when it has a key): a new ed25519 key, encrypted with
    the Secret's passphrase where it has one, and its public half."""
    if existing.get(SIGNING_KEY, b"").strip():
        return {}
    key = Ed25519PrivateKey.generate()
    passphrase = existing.get(PASSPHRASE, b"")
    protection = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return {
        SIGNING_KEY: key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, protection),
        SIGNING_PUBLIC: public_line(key).encode() + b"\n",
    }
