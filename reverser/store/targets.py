"""What is known of a target: marks, gate, streams, recipients, digests, verdicts, holds (J14, J20 to J23)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from reverser.store import keys
from reverser.store.calls import Call, nothing, truth
from reverser.store.codec import dumps, hash_items, loads, scope_values
from reverser.store.model import (
    BranchKey,
    DigestRecord,
    Fence,
    Gate,
    Hold,
    Kept,
    LeaseKind,
    Marks,
    PathVerdict,
    Recipients,
    Scope,
    Skipped,
    StreamRecord,
    TargetLook,
)

FORGOTTEN = (
    "marks",
    "applied",
    "holds",
    "released",
    "digests",
    "recipients",
    "streams",
    "path",
    "kept",
    "kept-objects",
    "unsealed",
    "last-push",
)


def read_marks(target_uid: str) -> Call[dict[Scope, Marks]]:
    """Needs-replay by scope (J14)."""

    return Call(
        command=("HGETALL", keys.target_part(target_uid, "marks")),
        decode=lambda reply: _marks(target_uid, reply),
    )


def _marks(target_uid: str, reply: Any) -> dict[Scope, Marks]:
    parts: dict[str, dict[str, bytes]] = {}
    for field, value in hash_items(reply).items():
        scope, _, name = field.rpartition("|")
        parts.setdefault(scope, {})[name] = value
    return {
        keys.scope_of_field(target_uid, scope): Marks(
            wanted=int(part.get("w", 0)),
            replayed=int(part.get("r", 0)),
            parked_reason=part.get("p", b"").decode(),
            parked_until_ms=int(part.get("t", 0)),
            attempts=int(part.get("a", 0)),
        )
        for scope, part in parts.items()
    }


def look_at_targets(target_uids: Sequence[str]) -> Call[list[TargetLook]]:
    """Gate, marks, skipped and kept objects of these targets in one call: they are read all the time."""

    def decode(uid: str, reply: Any) -> TargetLook:
        gate, marks, skipped, kept = reply
        return TargetLook(
            gate=None if gate is None else loads(Gate, gate),
            marks=_marks(uid, marks),
            skipped=Skipped() if skipped is None else loads(Skipped, skipped),
            kept=scope_values(uid, kept, Kept),
        )

    parts = (keys.target_part(uid, part) for uid in target_uids for part in ("marks", "path", "kept"))
    return Call(
        script="look_at_targets",
        keys=(keys.GATES, *parts),
        args=tuple(target_uids),
        decode=lambda reply: [decode(uid, one) for uid, one in zip(target_uids, reply, strict=True)],
    )


def raise_wanted(
    scopes: Scope | Iterable[Scope], *, parked_reason: str = "", parked_for_ms: int = 0
) -> Call[None]:
    """Ask for a replay of ``scopes``, of any targets (J14). Without a park an earlier park stays."""
    wishes = tuple(
        part
        for scope in ([scopes] if isinstance(scopes, Scope) else scopes)
        for part in (
            keys.target_part(scope.target_uid, "marks"),
            keys.scope_field(scope),
            parked_reason,
            parked_for_ms,
            keys.hint(f"wanted:{scope.target_uid}"),
        )
    )
    return Call(script="raise_wanted", args=wishes, decode=nothing)


def _park(scope: Scope, verb: str, reason: str, parked_for_ms: int) -> Call[None]:
    return Call(
        script="park",
        keys=(keys.target_part(scope.target_uid, "marks"),),
        args=(
            keys.hint(f"wanted:{scope.target_uid}"),
            verb,
            keys.scope_field(scope),
            reason,
            parked_for_ms,
        ),
        decode=nothing,
    )


def park(scope: Scope, reason: str, parked_for_ms: int = 0) -> Call[None]:
    """Let a wanted replay wait: for a time, or with 0 until ``unpark``."""
    return _park(scope, "park", reason, parked_for_ms)


def unpark(scope: Scope) -> Call[None]:
    """Lift a park; the watcher is hinted."""
    return _park(scope, "unpark", "", 0)


def wake_target(target_uid: str) -> Call[None]:
    """Make the branch of a target due now, as its gate names it; nothing happens without one."""
    return Call(
        script="wake_target",
        keys=(keys.GATES, keys.DUE, keys.BRANCHES),
        args=(target_uid, keys.lease(LeaseKind.BRANCH, ""), keys.journal_of(""), keys.hint("due")),
        decode=nothing,
    )


def write_gate(target_uid: str, gate: Gate) -> Call[None]:
    """Record whether a target may stream and be planned (J21). Hints ``gate`` and ``target:<uid>``."""
    return Call(
        script="write_gate",
        keys=(keys.GATES,),
        args=(target_uid, dumps(gate), keys.hint("gate"), keys.hint(f"target:{target_uid}")),
        decode=nothing,
    )


def drop_gate(target_uid: str) -> Call[None]:
    """The target is gone."""
    return Call(
        script="write_gate",
        keys=(keys.GATES,),
        args=(target_uid, "", keys.hint("gate"), keys.hint(f"target:{target_uid}")),
        decode=nothing,
    )


def read_gate(target_uid: str) -> Call[Gate | None]:
    """The gate of one target; None before its controller decided."""
    return Call(
        command=("HGET", keys.GATES, target_uid),
        decode=lambda reply: None if reply is None else loads(Gate, reply),
    )


def read_gates() -> Call[dict[str, Gate]]:
    """All gates by target UID."""
    return Call(
        command=("HGETALL", keys.GATES),
        decode=lambda reply: {uid: loads(Gate, value) for uid, value in hash_items(reply).items()},
    )


def write_stream(record: StreamRecord) -> Call[None]:
    """The state of one shard; ``target:<uid>`` is hinted when it changed."""
    uid = record.scope.target_uid
    return Call(
        script="write_record",
        keys=(keys.target_part(uid, "streams"),),
        args=(keys.scope_field(record.scope), dumps(record), keys.hint(f"target:{uid}")),
        decode=nothing,
    )


def drop_stream(scope: Scope) -> Call[None]:
    """The shard is no longer wanted."""
    return Call(
        script="write_record",
        keys=(keys.target_part(scope.target_uid, "streams"),),
        args=(keys.scope_field(scope), "", keys.hint(f"target:{scope.target_uid}")),
        decode=nothing,
    )


def read_streams(target_uid: str) -> Call[dict[Scope, StreamRecord]]:
    """The shards of a target."""
    return Call(
        command=("HGETALL", keys.target_part(target_uid, "streams")),
        decode=lambda reply: scope_values(target_uid, reply, StreamRecord),
    )


def write_path_verdict(target_uid: str, verdict: PathVerdict) -> Call[None]:
    """The writer's verdict on the folder of a target."""
    return Call(
        script="write_record",
        keys=(keys.target_part(target_uid, "path"),),
        args=("verdict", dumps(verdict), keys.hint(f"target:{target_uid}")),
        decode=nothing,
    )


def read_path_verdict(target_uid: str) -> Call[PathVerdict | None]:
    """The last verdict; None before the first."""
    return Call(
        command=("HGET", keys.target_part(target_uid, "path"), "verdict"),
        decode=lambda reply: None if reply is None else loads(PathVerdict, reply),
    )


def write_skipped(target_uid: str, skipped: Skipped) -> Call[None]:
    """The objects of a target that the writer deliberately does not write."""
    return Call(
        script="write_record",
        keys=(keys.target_part(target_uid, "path"),),
        args=("skipped", dumps(skipped), keys.hint(f"target:{target_uid}")),
        decode=nothing,
    )


def read_skipped(target_uid: str) -> Call[Skipped]:
    """The objects that are not written; none before the first skip."""
    return Call(
        command=("HGET", keys.target_part(target_uid, "path"), "skipped"),
        decode=lambda reply: Skipped() if reply is None else loads(Skipped, reply),
    )


def last_push(target_uid: str) -> Call[int]:
    """When something of the target last reached the remote (ms of the Redis clock), 0 = never."""
    return Call(
        command=("GET", keys.target_part(target_uid, "last-push")),
        decode=lambda reply: int(reply or 0),
    )


def write_recipients(target_uid: str, fence: Fence, recipients: Sequence[str]) -> Call[int | None]:
    """Set who can read the target's secrets (J20); the generation rises when it changed. None: fenced."""
    return Call(
        script="write_recipients",
        keys=(keys.target_lease(target_uid), keys.target_part(target_uid, "recipients")),
        args=(fence.token, fence.number, orjson.dumps(sorted(set(recipients)))),
        decode=lambda reply: None if reply is None else int(reply),
    )


def read_recipients(target_uid: str) -> Call[Recipients | None]:
    """The recipient set and its generation; None before the first."""

    def decode(reply: Any) -> Recipients | None:
        generation, recipients = reply
        if generation is None:
            return None
        return Recipients(int(generation), tuple(orjson.loads(recipients)))

    return Call(
        command=("HMGET", keys.target_part(target_uid, "recipients"), "generation", "recipients"),
        decode=decode,
    )


def read_digests(target_uid: str, fields: Sequence[str]) -> Call[dict[str, DigestRecord]]:
    """Known sealed objects among ``fields`` (``digest_field``); at least one field must be asked for."""

    def decode(reply: Any) -> dict[str, DigestRecord]:
        pairs = zip(fields, reply, strict=True)
        return {name: loads(DigestRecord, value) for name, value in pairs if value is not None}

    return Call(command=("HMGET", keys.target_part(target_uid, "digests"), *fields), decode=decode)


def forget_digests(branch: BranchKey, fence: Fence, scope: Scope, fields: Sequence[str]) -> Call[bool]:
    """Git holds another blob than these digests say: forget them and replay (J20). False: fenced."""
    return Call(
        script="forget_digest",
        keys=(
            keys.branch_lease(branch),
            keys.target_part(scope.target_uid, "digests"),
            keys.target_part(scope.target_uid, "marks"),
        ),
        args=(
            fence.token,
            fence.number,
            keys.scope_field(scope),
            keys.hint(f"wanted:{scope.target_uid}"),
            *fields,
        ),
        decode=truth,
    )


def read_unsealed(target_uid: str) -> Call[dict[str, str]]:
    """Objects that could not be sealed and why, by ``digest_field`` (J20)."""
    return Call(
        command=("HGETALL", keys.target_part(target_uid, "unsealed")),
        decode=lambda reply: {name: why.decode() for name, why in hash_items(reply).items()},
    )


def clear_unsealed(target_uid: str, fields: Sequence[str]) -> Call[None]:
    """These objects could be sealed after all, or are gone."""
    return Call(command=("HDEL", keys.target_part(target_uid, "unsealed"), *fields), decode=nothing)


def read_holds(target_uid: str) -> Call[dict[Scope, Hold]]:
    """Sweeps whose deletions wait for a person (J23)."""
    return Call(
        command=("HGETALL", keys.target_part(target_uid, "holds")),
        decode=lambda reply: scope_values(target_uid, reply, Hold),
    )


def release_hold(target_uid: str, outcome_id: str) -> Call[bool]:
    """A person released the held outcome (J23): its scope replays without the brake. False: no such hold."""
    return Call(
        script="release_hold",
        keys=(
            keys.target_part(target_uid, "holds"),
            keys.target_part(target_uid, "released"),
            keys.target_part(target_uid, "marks"),
        ),
        args=(outcome_id, keys.hint(f"wanted:{target_uid}")),
        decode=truth,
    )


def forget_target(target_uid: str) -> Call[None]:
    """Drop everything that is kept for a target which is gone and settled. Cursors expire on their own."""
    return Call(command=("DEL", *(keys.target_part(target_uid, part) for part in FORGOTTEN)), decode=nothing)
