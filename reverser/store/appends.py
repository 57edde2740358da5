"""What watchers write: journal entries, cursors and staged replays (J1 to J8).

Every append is fenced by the target's lease and moves the shard's cursor in the same script, so the
cursor never names anything that the journal does not hold. A retry carries the append id of the first
try (or, for a sweep, its replay id) and is answered with DUPLICATE: for the caller that is success.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from reverser.store import keys
from reverser.store.calls import Argument, Call, nothing, truth
from reverser.store.codec import OVERHEAD, dumps, hash_items, pack, pack_staged, staged_field, unpack_staged
from reverser.store.model import (
    AppendId,
    AppendStatus,
    AttachEntry,
    BranchKey,
    Cursor,
    EventEntry,
    Fence,
    LeaseKind,
    Limits,
    Outcome,
    OutcomeKind,
    RetireEntry,
    Scope,
    StagedObject,
    SweepEntry,
    UnsealedEntry,
)

CURSOR_TTL_S = 3600
STAGING_TTL_S = 3600
STAGED_BYTES = 4 * 1024 * 1024
OUTCOMES_KEPT = 20_000


def _status(reply: Any) -> AppendStatus:
    return AppendStatus(reply.decode())


def open_journal(branch: BranchKey) -> Call[str]:
    """The epoch of a branch's journal, made now if there is none (J1)."""
    return Call(
        script="open_journal",
        keys=(keys.branch_part(branch, "epoch"), keys.BRANCHES),
        args=(uuid.uuid4().hex, branch.id, dumps(branch)),
        decode=lambda reply: str(reply.decode()),
    )


def read_epoch(branch: BranchKey) -> Call[str | None]:
    """The current epoch, None after a flush."""
    return Call(
        command=("GET", keys.branch_part(branch, "epoch")),
        decode=lambda reply: None if reply is None else str(reply.decode()),
    )


def read_cursor(scope: Scope) -> Call[Cursor | None]:
    """Where a shard resumes; None when it must replay. The caller compares epoch and fingerprint (J4)."""

    def decode(reply: Any) -> Cursor | None:
        if not reply:
            return None
        rv, session, sequence, epoch, fingerprint = (part.decode(errors="replace") for part in reply)
        return Cursor(rv, AppendId(session, int(sequence)), epoch, fingerprint)

    return Call(script="read_cursor", keys=(keys.cursor(scope), keys.cursor_append(scope)), decode=decode)


def touch_cursor(scope: Scope) -> Call[bool]:
    """Refresh the time to live of a paused shard's cursor (J4). False when there is none."""
    return Call(
        script="touch_cursor",
        keys=(keys.cursor(scope), keys.cursor_append(scope)),
        args=(CURSOR_TTL_S,),
        decode=truth,
    )


def _append_keys(branch: BranchKey, scope: Scope) -> tuple[str, ...]:
    return (
        keys.target_lease(scope.target_uid),
        keys.branch_part(branch, "epoch"),
        keys.cursor(scope),
        keys.cursor_append(scope),
        keys.journal(branch),
        keys.branch_part(branch, "bytes"),
        keys.DUE,
        keys.branch_lease(branch),
        keys.BRANCHES,
        keys.branch_part(branch, "scopes"),
    )


def _append_args(
    branch: BranchKey,
    scope: Scope,
    fence: Fence,
    *,
    expected: AppendId | None,
    append_id: AppendId,
    epoch: str,
    fingerprint: str,
    resource_version: str,
    limits: Limits,
) -> tuple[Argument, ...]:
    return (
        fence.token,
        fence.number,
        epoch,
        expected.session if expected else "",
        expected.sequence if expected else "",
        append_id.session,
        append_id.sequence,
        fingerprint,
        resource_version,
        CURSOR_TTL_S,
        keys.escape(scope.target_uid),
        keys.scope_field(scope),
        limits.target_bytes,
        limits.branch_bytes,
        branch.id,
        dumps(branch),
        keys.hint("due"),
    )


def append_events(
    branch: BranchKey,
    scope: Scope,
    fence: Fence,
    *,
    expected: AppendId | None,
    append_id: AppendId,
    epoch: str,
    fingerprint: str,
    events: Sequence[EventEntry | UnsealedEntry],
    resource_version: str,
    limits: Limits,
) -> Call[AppendStatus]:
    """Append ``events`` in order and move the cursor to ``resource_version`` (J2, J3).

    Without events only the cursor moves. ``expected`` is the append id that the caller believes is stored,
    None for "no cursor yet". FULL changes nothing: the same call may be sent again later (J8).
    """
    args = _append_args(
        branch,
        scope,
        fence,
        expected=expected,
        append_id=append_id,
        epoch=epoch,
        fingerprint=fingerprint,
        resource_version=resource_version,
        limits=limits,
    )
    packed = tuple(arg for event in events for arg in pack(event).args())
    return Call(
        script="append_events", keys=_append_keys(branch, scope), args=(*args, *packed), decode=_status
    )


def stage(branch: BranchKey, replay_id: str, objects: Sequence[StagedObject]) -> Call[None]:
    """Add objects of a replay; by name, so a repeated call counts once (J5)."""
    pairs = tuple(part for item in objects for part in pack_staged(item))
    return Call(
        script="stage",
        keys=(keys.staging(branch, replay_id),),
        args=(STAGING_TTL_S, *pairs),
        decode=nothing,
    )


def unstage(branch: BranchKey, replay_id: str, names: Sequence[tuple[str, str]]) -> Call[None]:
    """Take objects (namespace, name) out of a staging again; a repeated call changes nothing (J5)."""
    return Call(
        script="unstage",
        keys=(keys.staging(branch, replay_id),),
        args=tuple(staged_field(*name) for name in names),
        decode=nothing,
    )


def drop_staging(branch: BranchKey, replay_id: str) -> Call[None]:
    """Throw away a replay that was given up before its sweep was appended."""
    return Call(command=("DEL", keys.staging(branch, replay_id)), decode=nothing)


def read_staging(branch: BranchKey, replay_id: str) -> Call[list[StagedObject] | None]:
    """A replay's objects by (namespace, name), None when the staging is gone (J5: void, nothing swept)."""

    def decode(reply: Any) -> list[StagedObject] | None:
        items = hash_items(reply)
        if not items:
            return None
        items.pop("size", None)
        return [unpack_staged(items[name]) for name in sorted(items)]

    return Call(command=("HGETALL", keys.staging(branch, replay_id)), decode=decode)


def staged_names(branch: BranchKey, replay_id: str) -> Call[list[str] | None]:
    """The names of a replay's objects as ``read_staged`` takes them, in order; None when the staging is gone
    (J5: void, nothing swept).
    """

    def decode(reply: Any) -> list[str] | None:
        return sorted(name.decode() for name in reply if name != b"size") if reply else None

    return Call(command=("HKEYS", keys.staging(branch, replay_id)), decode=decode)


def read_staged(
    branch: BranchKey, replay_id: str, names: Sequence[str], max_bytes: int = STAGED_BYTES
) -> Call[list[StagedObject]]:
    """The first of these objects, about ``max_bytes`` of them and at least one; an empty list when they are
    gone."""
    return Call(
        script="read_staged",
        keys=(keys.staging(branch, replay_id),),
        args=(max_bytes, *names),
        decode=lambda reply: [unpack_staged(value) for value in reply],
    )


def append_sweep(
    branch: BranchKey,
    scope: Scope,
    fence: Fence,
    *,
    expected: AppendId | None,
    append_id: AppendId,
    epoch: str,
    fingerprint: str,
    sweep: SweepEntry,
    limits: Limits,
) -> Call[AppendStatus]:
    """Append a complete replay and move the cursor to its resourceVersion (J5, J6, J14, J23).

    ``expected`` None replaces whatever cursor is stored (the caller found it invalid). A sweep of the same
    scope that no boundary holds yet is settled as superseded in the same step. ``first``, ``count`` and
    ``released_hold`` of the stored entry are set by the script.
    """
    meta = dumps(sweep)
    superseded = Outcome(id="", kind=OutcomeKind.SUPERSEDED, branch=branch, target=sweep.target)
    uid = scope.target_uid
    return Call(
        script="append_sweep",
        keys=(
            *_append_keys(branch, scope),
            keys.staging(branch, sweep.replay_id),
            keys.branch_part(branch, "sweeps"),
            keys.branch_part(branch, "claimed"),
            keys.target_part(uid, "marks"),
            keys.target_part(uid, "applied"),
            keys.target_part(uid, "released"),
            keys.OUTCOMES,
        ),
        args=(
            *_append_args(
                branch,
                scope,
                fence,
                expected=expected,
                append_id=append_id,
                epoch=epoch,
                fingerprint=fingerprint,
                resource_version=sweep.resource_version,
                limits=limits,
            ),
            sweep.replay_id,
            sweep.count,
            sweep.wanted,
            meta,
            len(meta) + OVERHEAD,
            keys.staging_prefix(branch),
            dumps(superseded),
            OUTCOMES_KEPT,
            1 if expected is None else 0,
        ),
        decode=_status,
    )


def _append_plain(
    branch: BranchKey, uid: str, fence: Fence | None, entry: AttachEntry | RetireEntry, mark: tuple[str, ...]
) -> Call[AppendStatus]:
    return Call(
        script="append_plain",
        keys=(
            keys.lease(LeaseKind.TARGET, uid),
            keys.journal(branch),
            keys.branch_part(branch, "bytes"),
            keys.DUE,
            keys.branch_lease(branch),
            keys.BRANCHES,
            *mark,
        ),
        args=(
            fence.token if fence else "",
            fence.number if fence else 0,
            keys.escape(uid),
            branch.id,
            dumps(branch),
            keys.hint("due"),
            *pack(entry).args(),
        ),
        decode=_status,
    )


def append_attach(branch: BranchKey, fence: Fence | None, attach: AttachEntry) -> Call[AppendStatus]:
    """Hand a CommitRequest to its branch once (J7): DUPLICATE while pending, TERMINAL after its outcome."""
    return _append_plain(branch, attach.target.uid, fence, attach, (keys.request(attach.uid),))


def append_retire(branch: BranchKey, retire: RetireEntry, fence: Fence | None = None) -> Call[AppendStatus]:
    """Say that a target is gone (J22). Repeating it is harmless."""
    return _append_plain(branch, retire.target.uid, fence, retire, ())
