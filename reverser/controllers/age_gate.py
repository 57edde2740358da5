"""The encryption gate of a GitTarget, and the one place where age keys are made.

An existing key is never replaced: a key is only generated where a Secret holds none. Private identities
are in memory just long enough to derive their recipients; complaints name Secret and entry, never values.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pyrage

from reverser.controllers.conditions import FALSE, STEADY, TRUE
from reverser.controllers.decide_target import NOT_REQUIRED, Finding
from reverser.controllers.events import Happening
from reverser.controllers.reconcile_target import EncryptionReport
from reverser.controllers.secret_door import SecretDoor, StoredSecret
from reverser.errors import ConfigInvalid, KubeForbidden, KubeInvalid, KubeNotFound
from reverser.kinds.model import Encryption, GitTarget

SUFFIX = ".agekey"
RECIPIENT_ANNOTATION = "configbutler.ai/age-recipient"
BACKUP_ANNOTATION = "configbutler.ai/backup-warning"
BACKUP_VALUE = "REMOVE_AFTER_BACKUP"
RACES = 3

_log = logging.getLogger(__name__)


def options_problem(encryption: Encryption) -> str:
    """What is contradictory in the options themselves; empty when nothing is."""
    if encryption.generate_when_missing and not encryption.extract_from_secret:
        return "encryption.age.recipients.generateWhenMissing requires extractFromSecret=true"
    if encryption.extract_from_secret and not encryption.secret_name:
        return "encryption.secretRef.name must be set when recipients come from a Secret"
    return ""


def has_key(data: Mapping[str, bytes]) -> bool:
    """True when a Secret has any ``*.agekey`` entry."""
    return any(key.endswith(SUFFIX) for key in data)


def resolve_recipients(encryption: Encryption, secret: StoredSecret | None) -> tuple[str, ...]:
    """The sorted union of both sources without duplicates. Raises ConfigInvalid naming what is wrong."""
    found: set[str] = set()
    for index, text in enumerate(encryption.public_keys):
        try:
            found.add(str(pyrage.x25519.Recipient.from_str(text.strip())))
        except pyrage.RecipientError:
            raise ConfigInvalid(
                f"encryption.age.recipients.publicKeys[{index}] is not an X25519 recipient (age1...)"
            ) from None
    if encryption.extract_from_secret and secret is not None:
        for key in sorted(key for key in secret.data if key.endswith(SUFFIX)):
            found.add(_recipient_of(secret, key))
    if not found:
        raise ConfigInvalid(
            "at least one recipient is required: set encryption.age.recipients.publicKeys, or put an age "
            f"key into an entry of the Secret that ends in {SUFFIX}, or set generateWhenMissing"
        )
    return tuple(sorted(found))


def _recipient_of(secret: StoredSecret, key: str) -> str:
    where = f"Secret '{secret.namespace}/{secret.name}', data key '{key}'"
    try:
        lines = [line.strip() for line in secret.data[key].decode().splitlines()]
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{where}: is not text") from None
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1 or not lines[0].startswith("AGE-SECRET-KEY-"):
        raise ConfigInvalid(f"{where}: must hold exactly one AGE-SECRET-KEY-... line")
    try:
        return str(pyrage.x25519.Identity.from_str(lines[0]).to_public())
    except pyrage.IdentityError:
        raise ConfigInvalid(f"{where}: is not a valid X25519 identity") from None


class AgeGate:
    """Judges ``spec.encryption`` and generates what it asks for."""

    def __init__(
        self,
        door: SecretDoor,
        *,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door = door
        self._today = today
        self._clock = clock
        self._reminded: dict[tuple[str, str], float] = {}

    async def check(self, target: GitTarget) -> EncryptionReport:
        """The finding, and an Event for a key that was made. Raises TransientError."""
        encryption = target.encryption
        if not encryption.enabled:
            return EncryptionReport(NOT_REQUIRED)
        if problem := options_problem(encryption):
            return EncryptionReport(Finding(FALSE, "InvalidConfig", problem))
        namespace, name = target.meta.namespace, encryption.secret_name
        secret: StoredSecret | None = None
        happenings: tuple[Happening, ...] = ()
        try:
            if encryption.extract_from_secret and encryption.generate_when_missing:
                secret, happenings = await self._ensure(namespace, name)
                self._remind(secret)
            elif encryption.extract_from_secret:
                secret = await self._door.read(namespace, name)
        except KubeForbidden as error:
            return _missing(namespace, name, str(error))
        except (KubeInvalid, ValueError) as error:
            message = f"Secret '{namespace}/{name}' cannot exist or be written: {error}"
            return EncryptionReport(Finding(FALSE, "InvalidConfig", message))
        except KubeNotFound:
            return _missing(namespace, name, "its namespace does not exist")
        if encryption.extract_from_secret and secret is None:
            return _missing(namespace, name, "not found; create it, or set generateWhenMissing")
        try:
            recipients = resolve_recipients(encryption, secret)
        except ConfigInvalid as error:
            return EncryptionReport(Finding(FALSE, "InvalidConfig", str(error)), happenings)
        return EncryptionReport(Finding(TRUE, "OK", f"{len(recipients)} recipient(s)"), happenings)

    async def _ensure(self, namespace: str, name: str) -> tuple[StoredSecret | None, tuple[Happening, ...]]:
        """The Secret with a key in it, made if there was none; a lost race reads the winner's."""
        made: tuple[Happening, ...] = ()
        for _ in range(RACES):
            secret = await self._door.read(namespace, name)
            if secret is not None and (made or has_key(secret.data)):
                return secret, made
            identity = pyrage.x25519.Identity.generate()
            recipient = str(identity.to_public())
            entry = {f"{self._today():%Y%m%d}{SUFFIX}": f"{identity}\n".encode()}
            notes = {RECIPIENT_ANNOTATION: recipient, BACKUP_ANNOTATION: BACKUP_VALUE}
            if secret is None:
                written = await self._door.create(namespace, name, entry, notes)
            else:
                written = await self._door.add(secret, entry, notes)
            if written:
                text = (
                    f"an age key was generated in Secret '{namespace}/{name}' (recipient {recipient}); back "
                    f"it up, what is encrypted is lost without it, then remove annotation {BACKUP_ANNOTATION}"
                )
                made = (Happening("AgeKeyGenerated", text, warning=True),)
        return await self._door.read(namespace, name), made

    def _remind(self, secret: StoredSecret | None) -> None:
        if secret is None or secret.annotations.get(BACKUP_ANNOTATION) != BACKUP_VALUE:
            return
        key, now = (secret.namespace, secret.name), self._clock()
        if now - self._reminded.get(key, float("-inf")) < STEADY:
            return
        self._reminded[key] = now
        _log.warning(
            "back up the age key in Secret '%s/%s', then remove its annotation %s",
            secret.namespace,
            secret.name,
            BACKUP_ANNOTATION,
        )


def _missing(namespace: str, name: str, why: str) -> EncryptionReport:
    message = f"failed to fetch encryption secret '{namespace}/{name}': {why}"
    return EncryptionReport(Finding(FALSE, "MissingSecret", message))
