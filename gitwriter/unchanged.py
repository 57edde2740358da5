"""Which documents are known to equal which objects, so that a replay need not read them again.

A replay brings every object of a type, and almost always Git holds all of them already. To find that out,
each file would be read, each object rendered and the two compared. The result depends on nothing but the
document's bytes, the object and the settings that hide fields, so it is kept: the blob, and a digest of the
rest. A different blob, object, setting or release of the product is compared again. Losing this costs time,
never a change.

Documents that a kustomization touches are left out, because other files influence them, and so are sealed
ones, whose digests are kept in Redis (J20).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from gitwriter.manifests import ChangeResult, Inventory, Outcome, Policy, Upsert, locate
from gitwriter.manifests.remembered import Remembered
from reverser.store.model import StagedObject, TypeRef

_DIGEST_BYTES = 16
_SETTLED = frozenset({Outcome.CREATED, Outcome.UPDATED, Outcome.UNCHANGED})


class Unchanged(Remembered[tuple[str, int], bytes]):
    """Digests by blob and document."""

    def holds(self, blob: str, document: int, digest: bytes) -> bool:
        """Whether the document is known to equal the object of this digest."""
        return self.get((blob, document)) == digest

    def note(self, blob: str, document: int, digest: bytes) -> None:
        """Remember that the document equals the object of this digest."""
        self.put((blob, document), digest)

    @staticmethod
    def to_row(key: tuple[str, int], value: bytes) -> list[Any]:
        """Blob id, index of the document, digest in hex."""
        return [*key, value.hex()]

    @staticmethod
    def from_row(row: list[Any]) -> tuple[tuple[str, int], bytes]:
        """Blob id and index of the document, digest."""
        blob, document, digest = row
        return (str(blob), int(document)), bytes.fromhex(digest)


class Comparison:
    """One replay's use of the memory: which objects need no comparison, and what to remember afterwards."""

    def __init__(self, memory: Unchanged, inventory: Inventory, policy: Policy) -> None:
        self._memory = memory
        self._inventory = inventory
        settings = [[item.group, item.kind, item.name, item.pointers] for item in policy.ignore_fields]
        self._seed = hashlib.blake2b(orjson.dumps(settings), digest_size=_DIGEST_BYTES)
        self._digests: dict[tuple[str, str], bytes] = {}

    def known_blob(self, kind: TypeRef, found: StagedObject) -> str:
        """The blob that is known to hold the object as it is; empty where it has to be compared."""
        if found.sealed or found.sensitive or not found.body:
            return ""
        digest = self._digests[(found.namespace, found.name)] = self._digest(found)
        if not len(self._memory):
            return ""
        upsert = Upsert(
            group=kind.group,
            version=kind.version,
            resource=kind.resource,
            kind=kind.kind,
            namespaced=kind.namespaced,
            namespace=found.namespace,
            name=found.name,
        )
        place = _place(self._inventory, upsert)
        if place is None or not self._memory.holds(*place, digest):
            return ""
        return place[0]

    def remember(self, results: Sequence[ChangeResult], after: Inventory) -> None:
        """Remember which objects the folder now holds as they are, given the results of all changes."""
        doubtful = {id(result.change) for result in results if not _clean(result)}
        for result in results:
            change = result.change
            if not isinstance(change, Upsert) or change.body is None or id(change) in doubtful:
                continue
            digest = self._digests.get((change.namespace, change.name))
            place = _place(after, change, path=result.path)
            if digest is not None and place is not None:
                self._memory.note(*place, digest)

    def _digest(self, found: StagedObject) -> bytes:
        digest = self._seed.copy()
        digest.update(orjson.dumps(found.optional))
        digest.update(found.body)
        return digest.digest()


def _clean(result: ChangeResult) -> bool:
    return result.outcome in _SETTLED and not result.code and not result.message


def _place(inventory: Inventory, change: Upsert, *, path: str | None = None) -> tuple[str, int] | None:
    """Blob and index of the object's document (at ``path``, if given), where nothing but that document says
    what it means.
    """
    ref, _undeclared = locate(inventory, change.key, namespaced=change.namespaced)
    if ref is None or ref.fact.has_sops or ref.path in inventory.context.reaches:
        return None
    if path is not None and ref.path != path:
        return None
    record = inventory.files.get(ref.path)
    if record is None or (change.namespaced and ref.fact.namespace != change.namespace):
        return None
    return record.entry.blob, ref.fact.index
