"""The signing key of a GitProvider: found, or generated once, never replaced."""

from __future__ import annotations

from reverser.controllers.events import Happening
from reverser.controllers.secret_door import SecretDoor
from reverser.errors import SecretMissing, TransientError
from reverser.kinds.model import GitProvider
from reverser.trust.signing import SIGNING_PUBLIC, generate_signing_entries, load_signing_key

RACES = 3


async def signing_key(door: SecretDoor, provider: GitProvider) -> tuple[str, tuple[Happening, ...]]:
    """The public line of the provider's key, and an Event where it was just generated.

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
        entries = generate_signing_entries(data) if generate else {}
        if not entries:
            return load_signing_key(data, name=f"{namespace}/{name}").public, ()
        if secret is None:
            written = await door.create(namespace, name, entries, {})
        else:
            written = await door.add(secret, entries, {})
        if written:
            line = entries[SIGNING_PUBLIC].decode().strip()
            text = f"a signing key was generated in Secret '{namespace}/{name}'; register it: {line}"
            return line, (Happening("SigningKeyGenerated", text),)
    raise TransientError(f"signing secret {namespace}/{name} keeps changing while a key is added")
