"""Sealing with what the cluster holds: recipients from age Secrets, the digest key from a Secret or a file.

Secrets are read by name. What is kept between reads is public (recipients) or the digest key; private age
identities are in memory just long enough to derive their recipients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from reverser.errors import KubeConflict, KubeNotFound, ReverserError, StalledError
from reverser.kinds.model import GitTarget
from reverser.kube.aio import AsyncKube
from reverser.kube.entries import decode_entries, decode_entry, encode_entries
from reverser.kube.paths import core_path
from reverser.store.model import ObjectRef
from reverser.trust.age import check_encryption, holds_key, holds_key_of, resolve_recipients
from reverser.trust.digests import DIGEST_SECRET, Digester, key_of_entries, key_of_file, new_key_entries
from reverser.trust.sealing import Sealer as Sops
from reverser.trust.sealing import sealing_regex
from watchers.hooks import Unsealed

log = logging.getLogger(__name__)

RECIPIENTS_SECONDS = 15.0
OWN_KEY = "OwnAgeKey"
_FIRST = ("apiVersion", "kind", "metadata")


class ClusterSealer:
    """The ``Sealer`` of a watcher process."""

    def __init__(
        self, kube: AsyncKube, *, namespace: str, key_file: Path | None = None, sops: Sops | None = None
    ) -> None:
        """``namespace`` holds the digest Secret unless ``key_file`` keeps the key."""
        self._kube = kube
        self._namespace = namespace
        self._key_file = key_file
        self._sops = sops or Sops()
        self._digester: Digester | None = None
        self._key_lock = asyncio.Lock()
        self._known: dict[str, tuple[float, int, tuple[str, ...]]] = {}
        self._key_secrets: dict[str, tuple[str, str]] = {}
        """Namespace and name of the age Secret that a target names."""

    async def recipients(self, target: GitTarget) -> tuple[str, ...] | Unsealed:
        """Who can decrypt what is sealed for ``target`` now.

        Raises TransientError where the cluster cannot be asked: nothing is decided then.
        """
        encryption = target.encryption
        if not encryption.enabled:
            return Unsealed(
                "EncryptionNotConfigured",
                f"GitTarget {target.meta.key} has no encryption; set spec.encryption to mirror Secrets",
            )
        self._key_secrets[target.meta.uid] = (target.meta.namespace, encryption.secret_name)
        known = self._known.get(target.meta.uid)
        if known is not None and known[1] == target.meta.generation and known[0] > time.monotonic():
            return known[2]
        try:
            check_encryption(encryption)
            data = None
            if encryption.extract_from_secret:
                data = await self._secret(target.meta.namespace, encryption.secret_name)
            found = resolve_recipients(encryption, data, namespace=target.meta.namespace)
        except StalledError as error:
            self._known.pop(target.meta.uid, None)
            return Unsealed(error.reason, str(error))
        self._known[target.meta.uid] = (
            time.monotonic() + RECIPIENTS_SECONDS,
            target.meta.generation,
            found,
        )
        return found

    async def digest(self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any]) -> str:
        """A keyed digest of the plain projection. Raises TransientError or StalledError without a key."""
        digester = self._digester or await self._load_key()
        plain = orjson.dumps(projection, option=orjson.OPT_SORT_KEYS)
        return digester.digest(plain, scope=_scope(target_uid, ref))

    async def seal(
        self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any], recipients: tuple[str, ...]
    ) -> bytes | Unsealed:
        """The encrypted YAML document of a projection. Raises TransientError when sops does not answer.

        A Secret that holds a key to this very target is not written: the copy would be no use to whoever lost
        the key, and a reader with one recipient's key would gain another's. The Secret that the target names
        stays out with any key: one that was put there a moment ago is no recipient yet, and would be sealed
        for the very key that it replaces.
        """
        if ref.type.group_resource == "secrets" and self._is_own_key(target_uid, ref, projection, recipients):
            return Unsealed(
                OWN_KEY,
                f"Secret {ref.namespace}/{ref.name} holds an age key that opens this target, so it is not "
                "written there; keep a copy of it elsewhere",
            )
        ordered = {key: projection[key] for key in _FIRST if key in projection}
        ordered |= {key: projection[key] for key in sorted(projection) if key not in ordered}
        # JSON is YAML; sops writes it in block style, keys in this order.
        plain = orjson.dumps(ordered)
        regex = sealing_regex(list(ordered), core_secret=ref.type.group_resource == "secrets")
        scope = _scope(target_uid, ref)
        try:
            return await asyncio.to_thread(self._sops.seal, plain, recipients, regex=regex, scope=scope)
        except StalledError as error:
            return Unsealed(error.reason, str(error))
        except ReverserError as error:
            if reason := getattr(error, "reason", ""):
                return Unsealed(reason, str(error))
            raise

    def _is_own_key(
        self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any], recipients: tuple[str, ...]
    ) -> bool:
        data = projection.get("data")
        values = [decode_entry(value) for value in data.values()] if isinstance(data, Mapping) else []
        named = self._key_secrets.get(target_uid) == (ref.namespace, ref.name)
        return (named and holds_key(values)) or holds_key_of(values, recipients)

    async def _load_key(self) -> Digester:
        async with self._key_lock:
            if self._digester is None:
                if self._key_file is not None:
                    key = await asyncio.to_thread(key_of_file, self._key_file)
                else:
                    data = await self._key_secret()
                    key = key_of_entries(data, name=f"{self._namespace}/{DIGEST_SECRET}")
                self._digester = Digester(key)
            return self._digester

    async def _key_secret(self) -> Mapping[str, bytes]:
        """The digest Secret's data, created where missing; replicas that start together agree on one."""
        found = await self._secret(self._namespace, DIGEST_SECRET)
        if found is not None:
            return found
        entries = encode_entries(new_key_entries())
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": DIGEST_SECRET, "namespace": self._namespace},
            "data": entries,
        }
        try:
            await self._kube.create(core_path("secrets", namespace=self._namespace), body)
            log.info("created the digest key in Secret %s/%s", self._namespace, DIGEST_SECRET)
        except KubeConflict:
            log.debug("another replica created the digest key first")
        return await self._secret(self._namespace, DIGEST_SECRET) or {}

    async def _secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """A Secret's decoded entries (not base64 = empty), None when it does not exist."""
        try:
            raw = await self._kube.get(core_path("secrets", namespace=namespace, name=name))
        except KubeNotFound:
            return None
        return decode_entries(raw.get("data"))


def _scope(target_uid: str, ref: ObjectRef) -> str:
    """Keeps equal objects of different targets apart: neither text nor digest is ever shared."""
    return f"{target_uid}|{ref.type.group_resource}|{ref.namespace}|{ref.name}"
