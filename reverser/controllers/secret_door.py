"""Secrets and ConfigMaps that a spec names: read by name, never listed, never kept.

What is read lives as long as the check that reads it. Writing only ever adds: a Secret is created, or gets
entries that it did not have, and a write that meets a newer version is left for the caller to decide again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reverser.errors import KubeConflict, KubeNotFound
from reverser.kube.client import AsyncKube
from reverser.kube.entries import decode_entries, encode_entries
from reverser.kube.paths import core_path


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A Secret's decoded data. Its ``repr`` shows key names alone."""

    namespace: str
    name: str
    version: str
    data: Mapping[str, bytes] = field(repr=False)
    annotations: Mapping[str, str] = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False)


class SecretDoor:
    """Reads, and adds to, Secrets by name. ``require_lease`` is called before each write, and may raise."""

    def __init__(self, kube: AsyncKube, require_lease: Callable[[], None] = lambda: None) -> None:
        self._kube = kube
        self._require_lease = require_lease

    async def read(self, namespace: str, name: str) -> StoredSecret | None:
        """A Secret, or None when it does not exist. Raises KubeForbidden and transient errors."""
        return _stored(await self._get("secrets", namespace, name), namespace, name)

    async def read_config_map(self, namespace: str, name: str) -> StoredSecret | None:
        """A ConfigMap in the same form, ``data`` and ``binaryData`` together."""
        obj = await self._get("configmaps", namespace, name)
        if obj is None:
            return None
        text = encode_entries({key: str(value).encode() for key, value in (obj.get("data") or {}).items()})
        return _stored({**obj, "data": {**(obj.get("binaryData") or {}), **text}}, namespace, name)

    async def _get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            return await self._kube.get(core_path(resource, namespace=namespace, name=name))
        except KubeNotFound:
            return None

    async def create(
        self, namespace: str, name: str, data: Mapping[str, bytes], annotations: Mapping[str, str]
    ) -> bool:
        """Create an Opaque Secret without an owner. False: it exists by now, read it again."""
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations)},
            "data": encode_entries(data),
        }
        self._require_lease()
        try:
            await self._kube.create(core_path("secrets", namespace=namespace), body)
        except KubeConflict:
            return False
        return True

    async def add(
        self, secret: StoredSecret, data: Mapping[str, bytes], annotations: Mapping[str, str]
    ) -> bool:
        """Add entries and annotations, keeping all others. False: it changed meanwhile, read it again."""
        meta = dict(secret.raw["metadata"])
        meta["annotations"] = {**secret.annotations, **annotations}
        body = {
            **secret.raw,
            "metadata": meta,
            "data": {**(secret.raw.get("data") or {}), **encode_entries(data)},
        }
        self._require_lease()
        try:
            await self._kube.update(core_path("secrets", namespace=secret.namespace, name=secret.name), body)
        except (KubeConflict, KubeNotFound):
            return False
        return True


def _stored(obj: Mapping[str, Any] | None, namespace: str, name: str) -> StoredSecret | None:
    if obj is None:
        return None
    meta = obj.get("metadata") or {}
    return StoredSecret(
        namespace=namespace,
        name=name,
        version=str(meta.get("resourceVersion") or ""),
        data=decode_entries(obj.get("data")),
        annotations=dict(meta.get("annotations") or {}),
        raw=obj,
    )
