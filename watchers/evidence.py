"""From the slots of the attribution index to an author: which evidence is strong enough to name somebody.

Only a fact about this very version of this very object names the author of a write, and only a fact about a
request to delete this very object names the author of a removal. Everything else (the last editor, an equal
version of an object that cannot be identified, a name) is weak, and weak evidence names nobody. Two authors
on one slot name nobody either.

The answer to a request that changes nothing carries a version that somebody else made. Where that is possible
(every request but a create or an update from a known version), a request that the API server received after
the change was already seen here cannot have made it. The event of the request that did make it may arrive
later than that of a no-op, so a name that rests on such evidence is a claim: another user's request that was
received before this one was answered contradicts it.

The object itself says when each field manager last set something, to the second. A request that can only set
fields, and whose manager has set nothing since it was received, changed nothing. What takes fields away
leaves no such mark; it is believed where the change was seen as it happened, and not in what an interrupted
watch brings later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from reverser.store.attribution import (
    CONFLICT,
    Fact,
    Slot,
    evidence_key,
    last_key,
    moment_of,
    version_key,
)
from reverser.store.model import Author, Claim
from watchers.hooks import EventFacts


class Result(StrEnum):
    """How an event was resolved; a metric label."""

    EXACT_USER = "exact_user"
    EXACT_SERVICE_ACCOUNT = "exact_serviceaccount"
    EXACT_DELETE = "exact_delete"
    EXACT_COLLECTION_ITEM = "exact_deletecollection_item"
    EXACT_VERSION = "exact_rv"
    WEAK = "weak"
    CONFLICT = "conflict"
    ABSENT = "absent"


STRONG = frozenset(
    {
        Result.EXACT_USER,
        Result.EXACT_SERVICE_ACCOUNT,
        Result.EXACT_DELETE,
        Result.EXACT_COLLECTION_ITEM,
        Result.EXACT_VERSION,
    }
)


RIVAL_SLACK = timedelta(milliseconds=50)
"""By how much the clocks of several API servers may differ."""
SECOND = len("2026-01-01T00:00:00")
NEVER = "9999"
"""After every time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evidence says: a result, and the fact that carries it."""

    result: Result
    fact: Fact | None = None

    @property
    def author(self) -> Author | None:
        """The author; None unless the evidence is strong."""
        return self.fact.who if self.result in STRONG and self.fact is not None else None

    @property
    def final(self) -> bool:
        """Whether waiting cannot change it."""
        return self.result in STRONG or self.result is Result.CONFLICT


ABSENT = Verdict(Result.ABSENT)
WEAK = Verdict(Result.WEAK)


def slot_names(event: EventFacts) -> tuple[str, ...]:
    """The keys to read for an event, in the order that ``judge`` expects; empty when nothing can join."""
    kind = event.type.group_resource
    return (
        evidence_key(kind, event.uid, event.resource_version, removal=event.removal),
        version_key(kind, event.resource_version),
        last_key(kind, event.uid) if event.uid else version_key(kind, ""),
    )


def subjects(event: EventFacts) -> tuple[str, ...]:
    """What an announcement of facts says when it concerns this event."""
    found = []
    if event.uid:
        found.append(f"u{event.uid}")
    if event.resource_version:
        found.append(f"v{event.resource_version}")
    return tuple(found)


def judge(event: EventFacts, slots: Sequence[Slot]) -> Verdict:
    """The strength table on the slots of ``slot_names(event)``."""
    own, version, last = slots
    if own is CONFLICT:
        return Verdict(Result.CONFLICT)
    if isinstance(own, Fact) and _own(own, event):
        return Verdict(_strength(own), own)
    if version is CONFLICT:
        return Verdict(Result.CONFLICT)
    if isinstance(version, Fact):
        if _same_object(version, event) and version.removal is event.removal:
            return Verdict(Result.EXACT_DELETE if event.removal else Result.EXACT_VERSION, version)
        return WEAK
    return WEAK if last is not None else ABSENT


def _own(fact: Fact, event: EventFacts) -> bool:
    """Keys are matched by the store; what the value says must still be this event's."""
    if fact.group_resource != event.type.group_resource or fact.uid != event.uid:
        return False
    if event.removal:
        return fact.removal
    return not fact.removal and fact.resource_version == event.resource_version


def _same_object(fact: Fact, event: EventFacts) -> bool:
    return (
        not fact.uid
        and fact.group_resource == event.type.group_resource
        and fact.resource_version == event.resource_version
        and (fact.namespace, fact.name) == (event.namespace, event.name)
    )


def _strength(fact: Fact) -> Result:
    if fact.verb == "deletecollection":
        return Result.EXACT_COLLECTION_ITEM
    if fact.removal:
        return Result.EXACT_DELETE
    return Result.EXACT_SERVICE_ACCOUNT if fact.is_service_account else Result.EXACT_USER


def claim_of(fact: Fact, *, ripe_ms: int) -> Claim | None:
    """What can still contradict the name that a fact gives; None if the request certainly made the change.

    If somebody else made it, that request was received before this one was answered, because this answer
    already has the version.
    """
    if fact.surely_wrote:
        return None
    answered = moment_of(fact.stage_timestamp)
    if answered is None:
        return Claim(NEVER, ripe_ms)
    whole = answered + RIVAL_SLACK
    return Claim(f"{whole:%Y-%m-%dT%H:%M:%S}.{whole.microsecond:06}000Z", ripe_ms)


def is_idle(fact: Fact, event: EventFacts) -> bool:
    """Whether the object shows that a request did not change it, or, in a backlog, does not show that it may
    have. The time in an entry of managedFields is that of the API server which also timed the request.
    """
    if event.removal or fact.surely_wrote or fact.subresource or not (fact.manager and event.marks):
        return False
    received = fact.received_timestamp[:SECOND]
    if any(manager == fact.manager and at[:SECOND] >= received for manager, at in event.marks):
        return False
    return fact.only_sets or event.backlog


def lead(fact: Fact, seen: float) -> float | None:
    """Seconds from the moment a fact's request was received to ``seen`` (Unix time), when its change showed
    up here; None = not known.
    """
    moment = moment_of(fact.received_timestamp)
    return None if moment is None else seen - moment.timestamp()
