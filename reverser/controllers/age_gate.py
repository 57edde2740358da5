"""The encryption gate of a GitTarget, and the one place where age keys are made.

An existing key is never replaced: a key is only generated where a Secret holds none. Private identities
are in memory just long enough to derive their recipients; complaints name Secret and entry, never values.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from dataclasses import replace
from datetime import UTC, datetime

from reverser.controllers.conditions import FALSE, SECRET_BLOCKED, SECRET_STEADY, STEADY, TRUE
from reverser.controllers.decide_target import NOT_REQUIRED, SWITCHED_OFF, Finding
from reverser.controllers.events import Happening
from reverser.controllers.reconcile_target import EncryptionReport
from reverser.controllers.secret_door import SecretDoor, StoredSecret
from reverser.errors import ConfigInvalid, KubeForbidden, KubeInvalid, KubeNotFound, SecretMissing
from reverser.kinds.model import Encryption, GitTarget
from reverser.trust.age import (
    BACKUP_ANNOTATION,
    BACKUP_VALUE,
    RECIPIENT_ANNOTATION,
    check_encryption,
    generate_age_key,
    resolve_recipients,
)

RACES = 3

_log = logging.getLogger(__name__)


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
        self._known: dict[str, tuple[int, Finding, float]] = {}

    async def check(self, target: GitTarget) -> EncryptionReport:
        """The finding, and an Event for a key that was made. Raises TransientError.

        A finding of the same generation is reused for as long as a Secret may go unread, so that a target
        which is reconciled often (while its streams start) does not read its Secret as often.
        """
        if not target.encryption.enabled:
            switched_off = target.encryption != Encryption()
            return EncryptionReport(SWITCHED_OFF if switched_off else NOT_REQUIRED)
        uid, now = target.meta.uid, self._clock()
        generation, finding, until = self._known.get(uid, (-1, NOT_REQUIRED, now))
        if generation == target.meta.generation and now < until:
            return EncryptionReport(finding, stands=until - now)
        report = await self._judge(target)
        stands = (SECRET_STEADY if report.finding.ok else SECRET_BLOCKED) - 1.0
        self._known[uid] = (target.meta.generation, report.finding, now + stands)
        return replace(report, stands=stands)

    def keep(self, uids: Set[str]) -> None:
        """Forgets what is known of targets that are not among ``uids``."""
        for uid in self._known.keys() - uids:
            del self._known[uid]
        now = self._clock()
        self._reminded = {key: at for key, at in self._reminded.items() if now - at < STEADY}

    async def _judge(self, target: GitTarget) -> EncryptionReport:
        encryption = target.encryption
        namespace, name = target.meta.namespace, encryption.secret_name
        secret: StoredSecret | None = None
        happenings: tuple[Happening, ...] = ()
        try:
            check_encryption(encryption)
            if encryption.extract_from_secret and encryption.generate_when_missing:
                secret, happenings = await self._ensure(namespace, name)
                self._remind(secret)
            elif encryption.extract_from_secret:
                secret = await self._door.read(namespace, name)
            data = secret.data if secret is not None else None
            recipients = resolve_recipients(encryption, data, namespace=namespace)
        except ConfigInvalid as error:
            return EncryptionReport(Finding(FALSE, "InvalidConfig", str(error)), happenings)
        except SecretMissing as error:
            return EncryptionReport(Finding(FALSE, "MissingSecret", str(error)), happenings)
        except (KubeForbidden, KubeNotFound) as error:
            message = f"failed to fetch encryption secret {namespace}/{name}: {error}"
            return EncryptionReport(Finding(FALSE, "MissingSecret", message), happenings)
        except (KubeInvalid, ValueError) as error:
            message = f"encryption secret {namespace}/{name} cannot be read or written: {error}"
            return EncryptionReport(Finding(FALSE, "InvalidConfig", message), happenings)
        return EncryptionReport(Finding(TRUE, "OK", f"{len(recipients)} recipient(s)"), happenings)

    async def _ensure(self, namespace: str, name: str) -> tuple[StoredSecret | None, tuple[Happening, ...]]:
        """The Secret with a key in it, made if there was none; a lost race reads the winner's."""
        made: tuple[Happening, ...] = ()
        for _ in range(RACES):
            secret = await self._door.read(namespace, name)
            generated = generate_age_key(secret.data if secret is not None else (), now=self._today())
            if generated is None or (made and secret is not None):
                return secret, made
            if secret is None:
                written = await self._door.create(namespace, name, generated.data, generated.annotations)
            else:
                written = await self._door.add(secret, generated.data, generated.annotations)
            if written:
                recipient = generated.annotations[RECIPIENT_ANNOTATION]
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
