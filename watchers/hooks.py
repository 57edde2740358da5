"""The narrow edges of ingestion: who made a change, and how a sensitive object is sealed.

Both are injected, so that ingestion knows neither audit facts nor keys. A resolver never raises: "not known"
is an answer. A sealer never returns plain text: an object that cannot be sealed is ``Unsealed``, which is
shown to people and never written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reverser.kinds.model import GitTarget
from reverser.store.model import Author, Claim, ObjectRef, TypeRef


@dataclass(frozen=True, slots=True)
class EventFacts:
    """The parts of a live event by which its author is found, read before the object is sanitised."""

    type: TypeRef
    namespace: str
    name: str
    uid: str
    resource_version: str
    removal: bool
    deadline: float
    """Time of the event loop until which the answer may be waited for."""
    marks: tuple[tuple[str, str], ...] = ()
    """Who set fields of the object, and when each did last (RFC 3339, whole seconds); empty: not known."""
    backlog: bool = False
    """The watch had been interrupted: the change may be much older than the moment at which it was seen."""


@dataclass(frozen=True, slots=True)
class Named:
    """An author, and what can contradict the name until its window closes; no claim = nothing can."""

    author: Author
    claim: Claim | None = None


class AuthorResolver(Protocol):
    """Names authors, when that is certain."""

    async def resolve(self, facts: EventFacts) -> Named | None:
        """The author of a live event, at the latest at its deadline; None when it is not certain."""
        ...

    async def submitter(self, request_uid: str) -> Author | None:
        """Who created a CommitRequest; None when that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Unsealed:
    """Why an object cannot be sealed: a condition reason and what to do. Never a value of the object."""

    reason: str
    message: str


class Sealer(Protocol):
    """Encrypts sensitive objects before they leave the process."""

    async def recipients(self, target: GitTarget) -> tuple[str, ...] | Unsealed:
        """Who can decrypt what is sealed for ``target`` now."""
        ...

    async def digest(self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any]) -> str:
        """A keyed digest of the plain projection: equal objects of one target have equal digests, and nothing
        else can be learnt from it.
        """
        ...

    async def seal(
        self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any], recipients: tuple[str, ...]
    ) -> bytes | Unsealed:
        """The encrypted YAML document of a projection, never shared between targets."""
        ...


class NullSealer:
    """No encryption in this process: sensitive objects are never written."""

    async def recipients(self, target: GitTarget) -> tuple[str, ...] | Unsealed:
        """Always unsealed, with the remedy."""
        return Unsealed(
            "EncryptionNotConfigured",
            f"GitTarget {target.meta.key} has no encryption; set spec.encryption to mirror Secrets",
        )

    async def digest(self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any]) -> str:
        """Empty: nothing was sealed, so nothing can be unchanged."""
        del target_uid, ref, projection
        return ""

    async def seal(
        self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any], recipients: tuple[str, ...]
    ) -> bytes | Unsealed:
        """Never text."""
        del target_uid, projection, recipients
        return Unsealed(
            "EncryptionNotConfigured", f"{ref.type.kind} {ref.namespace}/{ref.name}: no encryption"
        )
