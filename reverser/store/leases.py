"""Leases with fencing numbers.

A lease is a random token of its holder together with a number that only rises. Both must match, so
neither a paused holder that wakes up late nor a Redis that lost its counters lets two parties write.
Asking again with the same token extends the lease, so a timed-out call can simply be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reverser.store import keys
from reverser.store.calls import Call, truth
from reverser.store.codec import hash_items
from reverser.store.model import BranchKey, Fence, LeaseKind

COUNTER_TTL_S = 7 * 24 * 3600


def acquire_lease(kind: LeaseKind, id: str, token: str, ttl_ms: int, holder: str) -> Call[Fence | None]:
    """Take the lease of ``id`` for ``ttl_ms``; None while another token holds it.

    For branches ``id`` is ``BranchKey.id``. ``holder`` is only shown to people.
    """

    def decode(reply: Any) -> Fence | None:
        return None if reply is None else Fence(token, int(reply))

    branch = (f"{keys.journal_of(id)}:record", keys.DUE) if kind is LeaseKind.BRANCH else ()
    return Call(
        script="acquire_lease",
        keys=(keys.lease(kind, id), keys.lease_number(kind, id), keys.lease_index(kind), *branch),
        args=(token, ttl_ms, holder, id, COUNTER_TTL_S),
        decode=decode,
    )


def renew_lease(kind: LeaseKind, id: str, fence: Fence, ttl_ms: int) -> Call[bool]:
    """Extend it; False when another holds it or it ran out: stop at once."""
    return Call(
        script="renew_leases",
        keys=(keys.lease(kind, id),),
        args=(ttl_ms, fence.token, fence.number),
        decode=lambda reply: truth(reply[0]),
    )


def renew_leases(kind: LeaseKind, held: Mapping[str, Fence], ttl_ms: int) -> Call[list[str]]:
    """Extend several at once; returns the ids of those that are lost or ran out: stop those."""
    return Call(
        script="renew_leases",
        keys=tuple(keys.lease(kind, id) for id in held),
        args=(ttl_ms, *(part for fence in held.values() for part in (fence.token, fence.number))),
        decode=lambda reply: [id for id, kept in zip(held, reply, strict=True) if not truth(kept)],
    )


def release_lease(kind: LeaseKind, id: str, fence: Fence) -> Call[bool]:
    """Give it up. For a branch use ``release_branch``, which also sets its due time."""
    return Call(
        script="release_lease",
        keys=(keys.lease(kind, id), keys.lease_index(kind)),
        args=(fence.token, fence.number, id),
        decode=truth,
    )


def verify_fence(kind: LeaseKind, id: str, fence: Fence) -> Call[bool]:
    """Whether the lease is still held under this pair (J15: before and after every attempt)."""

    def decode(reply: Any) -> bool:
        return list(reply) == [fence.token.encode(), str(fence.number).encode()]

    return Call(command=("HMGET", keys.lease(kind, id), "token", "number"), decode=decode)


def verify_branch(branch: BranchKey, fence: Fence) -> Call[bool]:
    """``verify_fence`` for a branch."""
    return verify_fence(LeaseKind.BRANCH, branch.id, fence)


def lease_holders(kind: LeaseKind) -> Call[dict[str, str]]:
    """Who holds what now: id to holder."""

    def decode(reply: Any) -> dict[str, str]:
        return {key: value.decode() for key, value in hash_items(reply).items()}

    return Call(script="living", keys=(keys.lease_index(kind),), args=("holder",), decode=decode)
