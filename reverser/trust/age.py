"""Age recipients of a target: from public keys and from the private keys in a Secret.

Private keys serve to derive their public halves and are forgotten at once: nothing here keeps, logs or
passes one on. One bad entry fails the whole resolution, because sealing for fewer readers than somebody
asked for would show only when they need to read. Messages name entries, never values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyrage

from reverser.errors import ConfigInvalid, SecretMissing
from reverser.kinds.model import Encryption

KEY_SUFFIX = ".agekey"
RECIPIENT_ANNOTATION = "configbutler.ai/age-recipient"
BACKUP_ANNOTATION = "configbutler.ai/backup-warning"
BACKUP_VALUE = "REMOVE_AFTER_BACKUP"
_IDENTITY = "AGE-SECRET-KEY-"
_RECIPIENT = re.compile(r"age1[0-9a-z]{58}")
_KEY = re.compile(rb"AGE-SECRET-KEY-1[0-9A-Z]{58}")


def check_encryption(encryption: Encryption) -> None:
    """Raises ConfigInvalid for settings that contradict each other; reads no Secret."""
    if not encryption.enabled:
        return
    if encryption.generate_when_missing and not encryption.extract_from_secret:
        raise ConfigInvalid(
            "age.recipients.generateWhenMissing=true requires extractFromSecret=true: set it, or turn "
            "generation off"
        )
    if encryption.extract_from_secret and not encryption.secret_name:
        raise ConfigInvalid(
            "encryption.secretRef.name must be set when age.recipients.extractFromSecret=true"
        )


def resolve_recipients(
    encryption: Encryption, data: Mapping[str, bytes] | None, *, namespace: str
) -> tuple[str, ...]:
    """The recipients of an enabled encryption: unique and sorted.

    ``data`` is the decoded Secret (None = it cannot be read); it is looked at only where the settings ask
    for it. Raises ConfigInvalid (a bad entry, contradictory settings, nothing resolved) or SecretMissing
    with reason ``MissingSecret``.
    """
    check_encryption(encryption)
    found = set()
    for index, text in enumerate(encryption.public_keys):
        found.add(_checked_recipient(text.strip(), index))
    if encryption.extract_from_secret:
        name = f"{namespace}/{encryption.secret_name}"
        if data is None:
            raise SecretMissing(
                f"failed to fetch encryption secret {name}: create it, or set "
                "age.recipients.generateWhenMissing=true",
                reason="MissingSecret",
            )
        found.update(recipients_of_secret(data, name=name))
    if not found:
        raise ConfigInvalid(
            "age encryption requires at least one resolved recipient: list age.recipients.publicKeys, or "
            f"put a key into an entry of the encryption secret that ends in {KEY_SUFFIX}"
        )
    return tuple(sorted(found))


def _checked_recipient(text: str, index: int) -> str:
    problem = ConfigInvalid(
        f"invalid age recipient in age.recipients.publicKeys[{index}]; write the age1... line of an X25519 "
        "key as age-keygen prints it"
    )
    if not _RECIPIENT.fullmatch(text):
        raise problem
    try:
        return str(pyrage.x25519.Recipient.from_str(text))
    except pyrage.RecipientError:
        raise problem from None


def recipients_of_secret(data: Mapping[str, bytes], *, name: str) -> tuple[str, ...]:
    """The public halves of every ``*.agekey`` entry; other entries are ignored. Raises ConfigInvalid."""
    return tuple(
        _public_of(data[key], f"encryption secret {name}: {key}")
        for key in sorted(data)
        if key.endswith(KEY_SUFFIX)
    )


def _public_of(entry: bytes, where: str) -> str:
    try:
        lines = [line.strip() for line in entry.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{where} must contain {_IDENTITY[:-1]} identity, not binary data") from None
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise ConfigInvalid(f"{where} must contain one {_IDENTITY}... identity, but is empty")
    if len(lines) > 1:
        raise ConfigInvalid(f"{where} must contain exactly one {_IDENTITY}... identity")
    if not lines[0].startswith(f"{_IDENTITY}1"):
        raise ConfigInvalid(f"{where} must contain AGE-SECRET-KEY identity (X25519, as age-keygen prints it)")
    try:
        return str(pyrage.x25519.Identity.from_str(lines[0]).to_public())
    except pyrage.IdentityError:
        raise ConfigInvalid(
            f"{where} holds a damaged AGE-SECRET-KEY identity; put the line of age-keygen there, whole"
        ) from None


def holds_key(values: Iterable[bytes]) -> bool:
    """Whether anything that looks like a private age key stands in ``values``, whoever it belongs to."""
    return any(_KEY.search(value) for value in values)


def holds_key_of(values: Iterable[bytes], recipients: Iterable[str]) -> bool:
    """Whether a private key that belongs to one of ``recipients`` stands anywhere in ``values``."""
    wanted = set(recipients)
    for value in values:
        for found in _KEY.findall(value):
            try:
                public = str(pyrage.x25519.Identity.from_str(found.decode()).to_public())
            except pyrage.IdentityError:
                continue
            if public in wanted:
                return True
    return False


@dataclass(frozen=True, slots=True)
class GeneratedAgeKey:
    """What to add to an encryption Secret: one entry, and the annotations that ask for a backup."""

    data: Mapping[str, bytes]
    annotations: Mapping[str, str]

    def __repr__(self) -> str:
        return f"GeneratedAgeKey({', '.join(self.data)})"


def generate_age_key(existing: Iterable[str], *, now: datetime) -> GeneratedAgeKey | None:
    """A new key for a Secret that has these entry names; None when it has a ``*.agekey`` already."""
    if any(name.endswith(KEY_SUFFIX) for name in existing):
        return None
    identity = pyrage.x25519.Identity.generate()
    return GeneratedAgeKey(
        {f"{now.astimezone(UTC):%Y%m%d}{KEY_SUFFIX}": f"{identity}\n".encode()},
        {RECIPIENT_ANNOTATION: str(identity.to_public()), BACKUP_ANNOTATION: BACKUP_VALUE},
    )
