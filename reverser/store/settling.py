"""Settling: the one way out of the journal (J16), and what it leaves behind (outcomes, digests, marks)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from reverser.store import keys
from reverser.store.appends import OUTCOMES_KEPT
from reverser.store.calls import Call, truth
from reverser.store.codec import dumps, loads
from reverser.store.model import BranchKey, Fence, Outcome, Settlement

REQUEST_TTL_S = 3600


def settle(branch: BranchKey, fence: Fence, settlement: Settlement) -> Call[bool]:
    """Delete the entries and write everything that follows from them, in one step (J16).

    True when done, also when an earlier try did it. False: the fence is lost, or an entry belongs to a
    boundary that the settlement does not name; nothing was changed.
    """
    uid = settlement.outcome.target.uid
    return Call(
        script="settle",
        keys=(
            keys.branch_lease(branch),
            keys.journal(branch),
            *(
                keys.branch_part(branch, part)
                for part in ("bytes", "claimed", "sweeps", "boundaries", "intents", "record")
            ),
            keys.OUTCOMES,
            *(
                keys.target_part(uid, part)
                for part in ("holds", "released", "applied", "digests", "unsealed", "last-push")
            ),
            keys.branch_part(branch, "scopes"),
            keys.branch_part(branch, "strays"),
        ),
        args=(fence.token, fence.number, dumps(_order(branch, settlement)), dumps(settlement.outcome)),
        decode=truth,
    )


def _order(branch: BranchKey, settlement: Settlement) -> dict[str, object]:
    """What the script is to do, in the names that it uses."""
    outcome = settlement.outcome
    uid = outcome.target.uid
    requests = dict(settlement.attach_outcomes)
    if outcome.request_uid:
        requests.setdefault(outcome.request_uid, outcome)
    applied = settlement.applied_scope
    return {
        "uid": keys.escape(uid),
        "entries": settlement.entry_ids,
        "attach": settlement.attach_id,
        "event_bytes": settlement.event_bytes,
        "sensitive": settlement.sensitive,
        "boundary": settlement.boundary_id,
        "id": outcome.id,
        "kind": outcome.kind,
        "reason": outcome.reason,
        "held": outcome.swept,
        "staging_prefix": keys.staging_prefix(branch),
        "staging": [keys.staging(branch, replay_id) for replay_id in settlement.staging_ids],
        "digests": [
            [name, "" if record is None else dumps(record).decode()]
            for name, record in settlement.digests.items()
        ],
        "applied": f"{keys.scope_field(applied)}#{settlement.applied_fingerprint}" if applied else "",
        "applied_scope": keys.scope_field(applied) if applied else "",
        "applied_marks": keys.target_part(uid, "marks"),
        "wishes": [
            [
                keys.target_part(wish.scope.target_uid, "marks"),
                keys.scope_field(wish.scope),
                wish.parked_reason,
                str(wish.parked_for_ms),
                keys.hint(f"wanted:{wish.scope.target_uid}"),
            ]
            for wish in settlement.wishes
        ],
        "has_base": settlement.new_base is not None,
        "base": settlement.new_base or "",
        "pushed": settlement.pushed,
        "arrived": settlement.pushed or settlement.arrived,
        "kept": OUTCOMES_KEPT,
        "request_ttl": REQUEST_TTL_S,
        "requests": [
            [
                keys.request(request_uid),
                dumps(answer).decode(),
                keys.hint(f"request:{request_uid}"),
                answer.id != outcome.id,
                answer.id,
            ]
            for request_uid, answer in requests.items()
        ],
        "request_prefix": keys.request(""),
        "request_hint": keys.hint("request:"),
        "target_hint": keys.hint(f"target:{uid}"),
        "outcome_hint": keys.hint("outcomes"),
    }


def attach_outcome(request_uid: str) -> Call[Outcome | None]:
    """What became of a CommitRequest; None while it is pending or unknown. Kept for one hour (J7)."""

    def decode(reply: Any) -> Outcome | None:
        if reply is None or reply.startswith((b"pending ", b"withdrawn ")):
            return None
        settled, _, body = reply.partition(b" ")
        return _settled(loads(Outcome, body), int(settled))

    return Call(command=("GET", keys.request(request_uid)), decode=decode)


def attach_pending(request_uid: str) -> Call[bool]:
    """Whether the attach of a CommitRequest is in a journal and has no outcome yet."""
    return Call(
        command=("GET", keys.request(request_uid)),
        decode=lambda reply: reply is not None and reply.startswith(b"pending "),
    )


def pending_requests(cursor: int) -> Call[tuple[int, list[str]]]:
    """One step of a search for the marks (key names) of ``attach_pending``: the next cursor (0 = done), and
    the marks that this step met.
    """

    def decode(reply: Any) -> tuple[int, list[str]]:
        return int(reply[0]), [key.decode() for key in reply[1]]

    return Call(script="pending_requests", args=(f"{keys.REQUEST_PREFIX}*", cursor), decode=decode)


def withdraw_attach(request_uid: str) -> Call[bool]:
    """The CommitRequest is gone: its attach no longer binds to a window, unless its window is closed already.

    True when there was an attach without an outcome.
    """
    return withdraw_mark(keys.request(request_uid))


def withdraw_mark(mark: str) -> Call[bool]:
    """The same, by the name of its mark."""
    return Call(script="withdraw_attach", keys=(mark,), decode=truth)


def withdrawn(request_uids: Sequence[str]) -> Call[frozenset[str]]:
    """Which of these CommitRequests were withdrawn (at least one is asked for)."""

    def decode(reply: Any) -> frozenset[str]:
        pairs = zip(request_uids, reply, strict=True)
        return frozenset(uid for uid, mark in pairs if mark is not None and mark.startswith(b"withdrawn "))

    return Call(command=("MGET", *(keys.request(uid) for uid in request_uids)), decode=decode)


def _settled(outcome: Outcome, settled_ms: int, ident: str = "") -> Outcome:
    return dataclasses.replace(outcome, settled_ms=outcome.settled_ms or settled_ms, id=outcome.id or ident)


def read_outcomes(after_id: str = "", count: int = 100, block_ms: int = 0) -> Call[list[tuple[str, Outcome]]]:
    """Outcomes after a stream id, oldest first; waits up to ``block_ms`` (below the deadline) for one.

    The stream is bounded: a reader that falls behind by more than its length misses the oldest.
    """

    def decode(reply: Any) -> list[tuple[str, Outcome]]:
        if not reply:
            return []
        out = []
        for ident, data in reply[0][1]:
            outcome = _settled(loads(Outcome, data[b"o"]), int(data[b"ms"]), data[b"id"].decode())
            out.append((ident.decode(), outcome))
        return out

    block = ("BLOCK", block_ms) if block_ms > 0 else ()
    return Call(
        command=("XREAD", "COUNT", count, *block, "STREAMS", keys.OUTCOMES, after_id or "0-0"),
        decode=decode,
    )
