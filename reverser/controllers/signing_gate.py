"""The signing key of a GitProvider: found, or generated once, never replaced."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from reverser.controllers.events import Happening
from reverser.controllers.secret_door import SecretDoor
from reverser.errors import SecretMalformed, SecretMissing, TransientError
from reverser.kinds.model import GitProvider
from reverser.trust.keys import KeyUnusable, load_private_key, public_line

PRIVATE, PUBLIC, PASSPHRASE = "signing.key", "signing.pub", "passphrase"
RACES = 3


def generate_key(passphrase: bytes) -> tuple[bytes, bytes]:
    """A new ed25519 key as (OpenSSH PEM, authorized_keys line); encrypted when there is a passphrase."""
    key = Ed25519PrivateKey.generate()
    protection = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, protection)
    return pem, public_line(key).encode() + b"\n"


async def signing_key(door: SecretDoor, provider: GitProvider) -> tuple[str, tuple[Happening, ...]]:
    """The public line of the provider's key, and an Event where it was just made.

    Raises SecretMissing, SecretMalformed, KubeForbidden and transient errors. The Secret is written only
    to add a key that it lacks, and only with ``generateWhenMissing``.
    """
    namespace, name = provider.meta.namespace, provider.commit.signing_secret
    generate = provider.commit.signing_generate
    for _ in range(RACES):
        secret = await door.read(namespace, name)
        if secret is None and not generate:
            raise SecretMissing(
                f"signing secret {namespace}/{name} not found; create it, or set generateWhenMissing"
            )
        data = secret.data if secret is not None else {}
        passphrase = data.get(PASSPHRASE, b"").rstrip(b"\r\n")
        if data.get(PRIVATE, b"").strip():
            return _public(f"{namespace}/{name}", data[PRIVATE], passphrase), ()
        if not generate:
            raise SecretMissing(
                f"signing secret {namespace}/{name} is missing {PRIVATE}; add it, or set generateWhenMissing"
            )
        private, public = generate_key(passphrase)
        entries = {PRIVATE: private, PUBLIC: public}
        if secret is None:
            written = await door.create(namespace, name, entries, {})
        else:
            written = await door.add(secret, entries, {})
        if written:
            line = public.decode().strip()
            text = f"a signing key was generated in Secret '{namespace}/{name}'; register it: {line}"
            return line, (Happening("SigningKeyGenerated", text),)
    raise TransientError(f"signing secret {namespace}/{name} keeps changing while a key is added")


def _public(secret: str, pem: bytes, passphrase: bytes) -> str:
    try:
        return public_line(load_private_key(pem, passphrase or None, ignore_needless_passphrase=True))
    except KeyUnusable as error:
        raise SecretMalformed(f"signing secret {secret} is malformed: {PRIVATE} {error}") from None
