"""Who did it: facts of the audit stream, and who asked for a CommitRequest.

A fact is evidence that one user made one object version, or asked for one removal. Facts are filed under
what the watch shows too: the object's uid with its resourceVersion, the uid alone for removals, and the
resourceVersion alone where no uid is known. A slot claimed by two authors is a conflict and names nobody.
Keys age out by themselves; nothing else deletes a fact. A batch is written and announced by one script, so
whoever waits for a fact never looks before it is there, and never has to look repeatedly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

from reverser.store import keys
from reverser.store.calls import Argument, Call, nothing
from reverser.store.model import Author

TOPIC = "authors"
"""The hint that carries what a batch of facts is about, see ``announced``."""
REMOVALS = frozenset({"delete", "deletecollection"})
SERVICE_ACCOUNT = "system:serviceaccount:"
SUBMITTER_TTL_S = 3600


class Conflict(Enum):
    """A slot that two authors claim."""

    CONFLICT = "conflict"


CONFLICT = Conflict.CONFLICT


@dataclass(frozen=True, slots=True)
class Fact:
    """One user's act on one object. Times are RFC 3339 with nanoseconds in UTC, or empty."""

    group_resource: str
    name: str
    author: str
    verb: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    """The version that the act made; empty where the audit event does not prove one."""
    display_name: str = ""
    email: str = ""
    subresource: str = ""
    audit_id: str = ""
    stage_timestamp: str = ""
    received_timestamp: str = ""
    """When the API server got the request: a change seen before cannot be its doing."""
    impersonator: str = ""
    """Who acted in the author's name; kept for people, it names nobody."""
    surely_wrote: bool = False
    """The request cannot have been one that changed nothing: it made the object, or named the old version."""
    manager: str = ""
    """The field manager of the request: the object's managedFields say when it last set something."""
    only_sets: bool = False
    """If the request changed anything, it set a field, and its manager's entry has the time of it; what only
    takes fields away leaves no such mark."""
    from_before: bool = False
    """It is from before the listener that took it was there: its way tells nothing of the stream's speed."""

    @property
    def removal(self) -> bool:
        """Whether it asks for the object to go."""
        return self.verb in REMOVALS

    @property
    def is_service_account(self) -> bool:
        """Whether the user is a service account."""
        return self.author.startswith(SERVICE_ACCOUNT)

    @property
    def who(self) -> Author:
        """The author it names."""
        return Author(self.author, self.display_name, self.email)


Slot = Fact | Conflict | None
"""What a slot holds; a value that cannot be read counts as nothing."""

_FIELDS = {
    "group_resource": "groupResource",
    "namespace": "namespace",
    "name": "name",
    "uid": "uid",
    "author": "author",
    "display_name": "displayName",
    "email": "email",
    "verb": "verb",
    "subresource": "subresource",
    "audit_id": "auditID",
    "stage_timestamp": "stageTimestamp",
    "received_timestamp": "requestReceivedTimestamp",
    "resource_version": "resourceVersion",
    "impersonator": "impersonator",
    "manager": "manager",
}
_FLAGS = {"surely_wrote": "surelyWrote", "only_sets": "onlySets", "from_before": "fromBefore"}


def moment_of(text: str) -> datetime | None:
    """A time of an audit event (RFC 3339 in UTC), to the microsecond; None for anything else."""
    try:
        return datetime.fromisoformat(f"{text[:26].rstrip('Z')}+00:00")
    except ValueError:
        return None


def exact_key(group_resource: str, uid: str, resource_version: str) -> str:
    """Who made this version of this object."""
    return keys.author_slot(group_resource, "object", uid, resource_version)


def last_key(group_resource: str, uid: str) -> str:
    """Who touched the object last; tells weak evidence from none, but never names an author."""
    return keys.author_slot(group_resource, "object", uid, "last")


def removal_key(group_resource: str, uid: str) -> str:
    """Who asked for the object to go."""
    return keys.author_slot(group_resource, "object", uid, "removal")


def version_key(group_resource: str, resource_version: str) -> str:
    """Who made this version of some object of the type, where the audit event has no uid."""
    return keys.author_slot(group_resource, "rv", resource_version)


def evidence_key(group_resource: str, uid: str, resource_version: str, *, removal: bool) -> str:
    """The slot that names who changed this very object; one that is never filed where uid or version are
    unknown.
    """
    if uid and removal:
        return removal_key(group_resource, uid)
    if uid and resource_version:
        return exact_key(group_resource, uid, resource_version)
    return version_key(group_resource, "")


def slots_of(fact: Fact) -> list[tuple[str, str]]:
    """Where a fact is filed: key and mode (``claim``, ``last`` or ``removal``). Empty: it joins nothing."""
    kind = fact.group_resource
    if fact.uid:
        last = (last_key(kind, fact.uid), "last")
        if fact.removal:
            return [(removal_key(kind, fact.uid), "removal"), last]
        if not fact.resource_version:
            return [last]
        return [(exact_key(kind, fact.uid, fact.resource_version), "claim"), last]
    return [(version_key(kind, fact.resource_version), "claim")] if fact.resource_version else []


def encode(fact: Fact) -> bytes:
    """The JSON of a fact; empty fields are left out."""
    value: dict[str, Any] = {name: text for field, name in _FIELDS.items() if (text := getattr(fact, field))}
    if fact.is_service_account:
        value["isServiceAccount"] = True
    value.update({name: True for field, name in _FLAGS.items() if getattr(fact, field)})
    return orjson.dumps(value)


def decode_slot(reply: bytes | None) -> Slot:
    """What a slot holds."""
    try:
        value = orjson.loads(reply) if reply is not None else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, Mapping):
        return None
    if value.get("conflict") is True:
        return CONFLICT
    texts = {field: value.get(name) for field, name in _FIELDS.items()}
    found = {field: text for field, text in texts.items() if isinstance(text, str)}
    if not all(found.get(field) for field in ("author", "group_resource", "name", "verb")):
        return None
    sure, only_sets, before = (value.get(name) is True for name in _FLAGS.values())
    return Fact(**found, surely_wrote=sure, only_sets=only_sets, from_before=before)


def write_facts(facts: Sequence[Fact], ttl_ms: int) -> Call[int]:
    """File and announce facts, in order; returns the number of slots written. Safe to repeat."""
    names: list[str] = []
    args: list[Argument] = []
    topics: dict[str, list[str]] = {}
    for fact in facts:
        value = encode(fact)
        for key, mode in slots_of(fact):
            names.append(key)
            args += (mode, fact.author, fact.stage_timestamp, value)
        subject = f"u{fact.uid}" if fact.uid else f"v{fact.resource_version}"
        topics.setdefault(fact.group_resource, []).append(subject)
    head = (ttl_ms, keys.hint(TOPIC), orjson.dumps(topics) if topics else "")
    return Call(script="write_facts", keys=(keys.AUTHOR_UNUSED, *names), args=(*head, *args), decode=int)


def mark_used(slots: Sequence[str]) -> Call[int]:
    """Mark the facts of these slots (at least one) as used; returns how many were not marked before."""
    return Call(command=("ZREM", keys.AUTHOR_UNUSED, *slots), decode=int)


def drop_expired(limit: int = 10_000) -> Call[int]:
    """Forget facts that expired without being used, up to ``limit``; returns how many."""
    return Call(script="drop_expired", keys=(keys.AUTHOR_UNUSED,), args=(limit,), decode=int)


def announced(payload: str) -> dict[str, list[str]]:
    """What a hint is about: by type, ``u<uid>`` or ``v<resourceVersion>``."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def read_slots(names: Sequence[str]) -> Call[list[Slot]]:
    """What the slots of these keys hold, in their order (at least one key)."""

    def decode(reply: Any) -> list[Slot]:
        return [decode_slot(value) for value in reply]

    return Call(command=("MGET", *names), decode=decode)


Claims = Mapping[str, str]
"""The users that claim a slot, and when the first request of each was received (empty: unknown)."""


def read_claims(names: Sequence[str]) -> Call[list[Claims]]:
    """The claims on the slots of these keys (at least one), in their order; of many, the two earliest."""

    def decode(reply: Any) -> list[Claims]:
        return [_claims(value) for value in reply]

    return Call(command=("MGET", *names), decode=decode)


def _claims(reply: bytes | None) -> Claims:
    slot = decode_slot(reply)
    if isinstance(slot, Fact):
        return {slot.author: slot.received_timestamp}
    if slot is None or reply is None:
        return {}
    found = orjson.loads(reply).get("claims")
    claims = [claim for claim in found if isinstance(claim, Mapping)] if isinstance(found, list) else []
    # A conflict without claims was written by an older version: it may be anybody's, at any time.
    return {str(claim.get("author")): str(claim.get("received") or "") for claim in claims} or {"": ""}


def write_submitter(request_uid: str, author: Author, requested_at: str) -> Call[None]:
    """Record who created a CommitRequest; the first record of a uid stays."""
    record = {
        "author": author.username,
        "displayName": author.display_name,
        "email": author.email,
        "requestedAt": requested_at,
    }
    key = keys.author_command(request_uid)
    return Call(command=("SET", key, orjson.dumps(record), "NX", "EX", SUBMITTER_TTL_S), decode=nothing)


def read_submitter(request_uid: str) -> Call[Author | None]:
    """Who created a CommitRequest; None when admission recorded nobody."""

    def decode(reply: Any) -> Author | None:
        found = _submission(reply)
        return None if found is None else found[0]

    return Call(command=("GET", keys.author_command(request_uid)), decode=decode)


def read_submission(request_uid: str) -> Call[tuple[Author, str] | None]:
    """The same, and when that was asked (RFC 3339, empty when it was not recorded)."""
    return Call(command=("GET", keys.author_command(request_uid)), decode=_submission)


def _submission(reply: Any) -> tuple[Author, str] | None:
    try:
        record = orjson.loads(reply) if reply is not None else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, Mapping) or not record.get("author"):
        return None
    author = Author(
        str(record["author"]), str(record.get("displayName") or ""), str(record.get("email") or "")
    )
    return author, str(record.get("requestedAt") or "")


def count_fact_keys(cursor: int) -> Call[tuple[int, int]]:
    """One step of counting the keys of facts: the next cursor (0 = done), and the number found."""

    def decode(reply: Any) -> tuple[int, int]:
        return int(reply[0]), int(reply[1])

    return Call(script="count_keys", args=(f"{keys.AUTHOR_FACTS}*", cursor), decode=decode)
