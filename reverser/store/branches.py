"""What the branch writer reads and writes: due set, entries, boundaries, intents (J9 to J19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reverser.store import keys
from reverser.store.calls import Call, nothing, truth
from reverser.store.codec import dumps, hash_items, loads, unpack
from reverser.store.model import (
    Backlog,
    Boundary,
    BranchHealth,
    BranchKey,
    BranchRecord,
    Fence,
    Intent,
    LeaseKind,
    Scope,
    Stored,
)

STRAY_TTL_S = 3600
"""How long a push is remembered that should not arrive any more."""
READ_BYTES = 8 * 1024 * 1024
IDS_AT_ONCE = 2_000
"""Redis serves nobody else during a read, so each read is small."""
BESIDE = (
    "epoch",
    "bytes",
    "boundaries",
    "claimed",
    "intents",
    "strays",
    "sweeps",
    "scopes",
    "record",
    "health",
)


def _branches(reply: Any) -> list[BranchKey]:
    return [loads(BranchKey, item) for item in reply]


def claim_due(limit: int, lease_ms: int) -> Call[list[BranchKey]]:
    """Branches that are due now; each is handed out once per ``lease_ms`` (J10). Where the clock of Redis was
    put back, all are due: their writers know how long they have waited.
    """
    return Call(
        script="claim_due",
        keys=(keys.DUE, keys.BRANCHES, keys.DUE_CLOCK),
        args=(limit, lease_ms),
        decode=_branches,
    )


def wake_branch(branch: BranchKey) -> Call[None]:
    """Make a branch due now. While it is leased, its holder finds the wake at release (J9)."""
    return Call(
        script="wake_branch",
        keys=(keys.DUE, keys.branch_lease(branch), keys.BRANCHES, keys.branch_part(branch, "record")),
        args=(branch.id, dumps(branch), keys.hint("due")),
        decode=nothing,
    )


def read_due() -> Call[dict[str, int]]:
    """When each branch with something to do is due: by ``BranchKey.id``, milliseconds of the Redis clock."""

    def decode(reply: Any) -> dict[str, int]:
        # Pairs in the third version of the protocol, one flat row in the second.
        flat = [part for item in reply for part in (item if isinstance(item, list | tuple) else (item,))]
        return {
            member.decode(): int(float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)
        }

    return Call(command=("ZRANGE", keys.DUE, "0", "-1", "WITHSCORES"), decode=decode)


def sweep_journals() -> Call[int]:
    """Give every branch with unsettled entries a due time if it has none; returns how many got one."""
    lease_prefix = keys.lease(LeaseKind.BRANCH, "")
    return Call(
        script="sweep_journals",
        keys=(keys.DUE, keys.BRANCHES),
        args=(keys.journal_of(""), lease_prefix, keys.hint("due")),
        decode=int,
    )


def known_branches() -> Call[list[BranchKey]]:
    """Every branch that has, or had, a journal."""
    return Call(
        command=("HVALS", keys.BRANCHES),
        decode=lambda reply: sorted(_branches(reply), key=lambda branch: (str(branch), branch.id)),
    )


def forget_branch(branch: BranchKey, fence: Fence) -> Call[bool]:
    """Remove a branch whose journal is empty, lease included. False: it is not empty, or not ours."""
    return Call(
        script="forget_branch",
        keys=(
            keys.branch_lease(branch),
            keys.lease_index(LeaseKind.BRANCH),
            keys.journal(branch),
            keys.DUE,
            keys.BRANCHES,
            *(keys.branch_part(branch, part) for part in BESIDE),
        ),
        args=(fence.token, fence.number, branch.id),
        decode=truth,
    )


def read_entries(
    branch: BranchKey, after_id: str = "", max_bytes: int = READ_BYTES, *, texts: bool = True
) -> Call[list[Stored]]:
    """Unsettled entries after ``after_id`` in order, at least one if any, about ``max_bytes`` of them.

    Without ``texts`` events come with an empty body: a plan needs their lengths alone (``Stored.text``).
    """
    return Call(
        script="read_entries",
        keys=(keys.journal(branch),),
        args=(after_id, max_bytes, int(texts)),
        decode=lambda reply: [unpack(ident, fields) for ident, fields in reply],
    )


def read_texts(branch: BranchKey, ids: Sequence[str], max_bytes: int = READ_BYTES) -> Call[list[bytes]]:
    """The bodies of these events in order, at least one, about ``max_bytes`` of them; fewer too where one of
    the entries is gone.
    """
    return Call(
        script="read_texts",
        keys=(keys.journal(branch),),
        args=(max_bytes, *ids),
        decode=list,
    )


def entry_ids(branch: BranchKey, after_id: str = "", count: int = IDS_AT_ONCE) -> Call[list[str]]:
    """The ids alone, in order; fewer than ``count`` means that there are no more."""
    return Call(
        script="entry_ids",
        keys=(keys.journal(branch),),
        args=(f"({after_id}" if after_id else "-", count),
        decode=lambda reply: [ident.decode() for ident in reply],
    )


def _ordered(reply: Any) -> list[bytes]:
    numbered = [value.partition(b" ") for value in hash_items(reply).values()]
    return [body for _, _, body in sorted(numbered, key=lambda part: int(part[0]))]


def read_boundaries(branch: BranchKey) -> Call[list[Boundary]]:
    """Finalized windows that are not settled, in the order in which they closed (J13)."""
    return Call(
        command=("HGETALL", keys.branch_part(branch, "boundaries")),
        decode=lambda reply: [loads(Boundary, body) for body in _ordered(reply)],
    )


def store_boundary(branch: BranchKey, fence: Fence, boundary: Boundary) -> Call[bool]:
    """Finalize a window (J13). False: the fence is lost, an entry is gone or in another boundary: plan anew.

    Storing the same boundary again is True.
    """
    return Call(
        script="store_boundary",
        keys=(
            keys.branch_lease(branch),
            keys.journal(branch),
            keys.branch_part(branch, "boundaries"),
            keys.branch_part(branch, "claimed"),
            keys.branch_part(branch, "record"),
            keys.branch_part(branch, "sweeps"),
        ),
        args=(
            fence.token,
            fence.number,
            boundary.id,
            dumps(boundary),
            boundary.attach_id,
            *boundary.entry_ids,
        ),
        decode=truth,
    )


def read_intents(branch: BranchKey) -> Call[list[Intent]]:
    """Pushes that may have happened, oldest first (J15)."""
    return Call(
        command=("HGETALL", keys.branch_part(branch, "intents")),
        decode=lambda reply: [loads(Intent, body) for body in _ordered(reply)],
    )


def store_intent(branch: BranchKey, fence: Fence, intent: Intent) -> Call[bool]:
    """Record what a push is about to do (J15). False: the fence is lost or a window is settled already."""
    return Call(
        script="store_intent",
        keys=(
            keys.branch_lease(branch),
            keys.branch_part(branch, "intents"),
            keys.branch_part(branch, "boundaries"),
            keys.branch_part(branch, "record"),
        ),
        args=(
            fence.token,
            fence.number,
            intent.id,
            dumps(intent),
            *(window.boundary_id for window in intent.windows),
        ),
        decode=truth,
    )


def note_refusal(branch: BranchKey, fence: Fence, intent: Intent, *, kept_s: int = STRAY_TTL_S) -> Call[bool]:
    """The remote refused a push (``intent.refused_ms``); those that it refused ``kept_s`` ago or earlier are
    forgotten (J15). False: fenced.
    """
    return Call(
        script="note_refusal",
        keys=(keys.branch_lease(branch), keys.branch_part(branch, "intents")),
        args=(fence.token, fence.number, intent.id, dumps(intent), kept_s),
        decode=truth,
    )


def read_strays(branch: BranchKey) -> Call[list[Intent]]:
    """Prepared pushes whose windows were settled without one (J15). They may land late, for an hour."""
    return Call(
        command=("HGETALL", keys.branch_part(branch, "strays")),
        decode=lambda reply: [loads(Intent, body) for body in _ordered(reply)],
    )


def note_stray(branch: BranchKey, fence: Fence, intent_id: str) -> Call[bool]:
    """A stray push was found in the fetched history: every scope replays, once. False: fenced."""
    return Call(
        script="note_stray",
        keys=(
            keys.branch_lease(branch),
            keys.branch_part(branch, "strays"),
            keys.branch_part(branch, "scopes"),
        ),
        args=(fence.token, fence.number, intent_id, keys.TARGET_PREFIX, keys.hint("wanted:")),
        decode=truth,
    )


def release_branch(
    branch: BranchKey, fence: Fence, planned_last_id: str, due_at_ms: int | None
) -> Call[bool]:
    """Give up the lease and set the due time (J9).

    ``planned_last_id`` is the id of the last entry that the plan saw ("" for none): anything newer
    makes the branch due at once. ``due_at_ms`` is on the Redis clock; None = nothing is pending.
    """
    return Call(
        script="release_branch",
        keys=(
            keys.branch_lease(branch),
            keys.lease_index(LeaseKind.BRANCH),
            keys.journal(branch),
            keys.DUE,
            keys.branch_part(branch, "record"),
        ),
        args=(
            fence.token,
            fence.number,
            branch.id,
            planned_last_id,
            "" if due_at_ms is None else due_at_ms,
            keys.hint("due"),
        ),
        decode=truth,
    )


def read_branch(branch: BranchKey) -> Call[BranchRecord]:
    """Base, last push, unsettled entries and bytes."""

    def decode(reply: Any) -> BranchRecord:
        base, last_push, unsettled, entries = reply
        return BranchRecord(
            base=None if base is None else base.decode(),
            last_push_ms=int(last_push or 0),
            unsettled_bytes=int(unsettled or 0),
            entries=int(entries),
        )

    return Call(
        script="read_branch",
        keys=(keys.branch_part(branch, "record"), keys.branch_part(branch, "bytes"), keys.journal(branch)),
        decode=decode,
    )


def read_base(branch: BranchKey) -> Call[str | None]:
    """The tip last known; None before the first settlement, "" when the branch did not exist."""
    return Call(
        command=("HGET", keys.branch_part(branch, "record"), "base"),
        decode=lambda reply: None if reply is None else str(reply.decode()),
    )


def read_bases(branches: Sequence[BranchKey]) -> Call[dict[BranchKey, str]]:
    """``read_base`` of many branches at once; those without a settlement are left out."""

    def decode(reply: Any) -> dict[BranchKey, str]:
        found = zip(branches, reply, strict=True)
        return {branch: str(base.decode()) for branch, base in found if base is not None}

    records = tuple(keys.branch_part(branch, "record") for branch in branches)
    return Call(script="read_bases", keys=records, decode=decode)


def read_backlogs(branches: Sequence[BranchKey]) -> Call[dict[BranchKey, Backlog]]:
    """What waits on each of these branches, by the clock of Redis."""

    def decode(reply: Any) -> dict[BranchKey, Backlog]:
        pairs = zip(reply[::2], reply[1::2], strict=True)
        return {
            branch: Backlog(int(entries), int(age))
            for branch, (entries, age) in zip(branches, pairs, strict=True)
        }

    return Call(
        script="read_backlogs", keys=tuple(keys.journal(branch) for branch in branches), decode=decode
    )


def read_unsettled_bytes(branch: BranchKey) -> Call[dict[str, int]]:
    """Unsettled bytes by target UID, and under "" in all (J8)."""

    def decode(reply: Any) -> dict[str, int]:
        return {
            key.removeprefix("t:") if key != "all" else "": int(n) for key, n in hash_items(reply).items()
        }

    return Call(command=("HGETALL", keys.branch_part(branch, "bytes")), decode=decode)


def note_rewrite(branch: BranchKey, fence: Fence | None, observed_tip: str) -> Call[bool]:
    """The remote's history was rewritten (J19). False: this tip is noted already, or the fence is lost."""
    return Call(
        script="note_rewrite",
        keys=(
            keys.branch_lease(branch),
            keys.branch_part(branch, "record"),
            keys.branch_part(branch, "scopes"),
        ),
        args=(
            fence.token if fence else "",
            fence.number if fence else 0,
            observed_tip,
            keys.TARGET_PREFIX,
            keys.hint("wanted:"),
        ),
        decode=lambda reply: int(reply) == 1,
    )


def branch_scopes(branch: BranchKey) -> Call[set[Scope]]:
    """Every scope that ever appended to the branch."""

    def decode(reply: Any) -> set[Scope]:
        parts = (member.decode().partition("|") for member in reply)
        return {keys.scope_of_field(uid, rest) for uid, _, rest in parts}

    return Call(command=("SMEMBERS", keys.branch_part(branch, "scopes")), decode=decode)


def write_branch_health(branch: BranchKey, health: BranchHealth) -> Call[None]:
    """Whether the last attempt worked. Readers get a hint when it changed (topic ``branch:<id>``)."""
    return Call(
        script="write_record",
        keys=(keys.branch_part(branch, "health"),),
        args=("health", dumps(health), keys.hint(f"branch:{branch.id}")),
        decode=nothing,
    )


def read_branch_health(branch: BranchKey) -> Call[BranchHealth | None]:
    """Whether the last attempt worked; None before the first attempt."""
    return Call(
        command=("HGET", keys.branch_part(branch, "health"), "health"),
        decode=lambda reply: None if reply is None else loads(BranchHealth, reply),
    )
