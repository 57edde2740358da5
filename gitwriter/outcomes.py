"""What became of a unit, as the values that the settling script writes (J16): pure."""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitwriter.kept import kept_news
from gitwriter.manifests import (
    ChangeResult,
    Delete,
    FieldPatch,
    Inventory,
    SkipReason,
    Sweep,
    Upsert,
    WritePlan,
    blob_id,
)
from gitwriter.manifests import Outcome as ChangeOutcome
from gitwriter.skips import News, left_out, news_of
from gitwriter.targettree import join_path
from gitwriter.units import (
    Item,
    Work,
    attach_of,
    event_bytes,
    first_ms,
    sensitive_fields,
    sweep_of,
)
from gitwriter.windows import Unit, scopes_of
from reverser.store.model import (
    AttachEntry,
    Author,
    BranchKey,
    DigestRecord,
    EventEntry,
    KeptNews,
    ObjectChange,
    Outcome,
    OutcomeKind,
    ReplayWish,
    Scope,
    Settlement,
    Stored,
    SweepEntry,
    digest_field,
)

SHOWN_CHANGES = 500
_WRITTEN = frozenset({ChangeOutcome.CREATED, ChangeOutcome.UPDATED})
PATH_REFUSED = "path-refused"
SKIP_RETRY_MS = 60_000
RETIRED_AT_ONCE = 500


Placement = tuple[str, str, str, str, str]
"""Rule, disposition, and the type by group, version and resource."""


@dataclass(frozen=True, slots=True)
class Built:
    """A unit whose files are decided. ``commit`` is empty where nothing changes."""

    unit: Unit
    work: Work
    plan: WritePlan
    commit: str = ""
    message: str = ""
    author_name: str = ""
    author_email: str = ""
    held: bool = False
    remarks: tuple[str, ...] = ()
    """What people should know of the folder as it is now."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is kept of a unit until its push has arrived: everything but its objects and files, which may take
    many times the memory.
    """

    unit: Unit
    settlement: Settlement
    commit: str
    held: int
    """Deletions that the brake holds."""
    counted: int
    stands: bool
    """A live object of the unit stands in the folder as it is."""
    swept: int
    codes: Mapping[str, int]
    """How many changes were skipped, by reason."""
    placements: Mapping[Placement, int]
    """How many documents were placed."""
    news: News
    kept: tuple[KeptNews, ...]
    after: Inventory
    remarks: tuple[str, ...]


def written_of(built: Built, *, branch: BranchKey) -> Written:
    """The part of a built unit that is still needed once its commit exists."""
    plan = built.plan
    return Written(
        unit=built.unit,
        settlement=settlement_of(built, branch=branch, base=None, arrived=False),
        commit=built.commit,
        held=plan.held if built.held else 0,
        counted=counted_changes(plan),
        stands=any(
            isinstance(result.change, Upsert) and result.outcome is ChangeOutcome.UNCHANGED
            for result in plan.results
        ),
        swept=plan.swept,
        codes=Counter(result.code for result in plan.results if result.code),
        placements=placements_of(plan),
        news=news_of(plan.results),
        kept=kept_news(built.unit, built.work, plan),
        after=plan.after(),
        remarks=built.remarks,
    )


def placements_of(plan: WritePlan) -> Counter[Placement]:
    """How many new documents each rule placed: in a file of their own, or behind others in one that was
    there.
    """
    found: Counter[Placement] = Counter()
    for result in plan.results:
        change = result.change
        if result.rule and isinstance(change, Upsert):
            disposition = "appended" if result.path in plan.inventory.files else "new_file"
            found[result.rule, disposition, change.group, change.version, change.resource] += 1
    return found


def object_changes(built: Built) -> tuple[ObjectChange, ...]:
    """The objects of a unit with what became of them, bounded; unchanged ones of a sweep are left out."""
    root = built.unit.boundary.frozen.path if built.unit.boundary.frozen else ""
    operations = {id(item.change): item.operation for item in built.work.items}
    changes = []
    for result in built.plan.results:
        if sweep_of(built.unit) is not None and result.outcome is ChangeOutcome.UNCHANGED:
            continue
        shown = _object_change(result, operations.get(id(result.change), "UPDATE"), root)
        if shown is not None:
            changes.append(shown)
    return tuple(changes)


def _object_change(result: ChangeResult, operation: str, root: str) -> ObjectChange | None:
    change = result.change
    if isinstance(change, Sweep):
        return None
    version = change.version if isinstance(change, Upsert) else ""
    if result.outcome is ChangeOutcome.CREATED:
        operation = "CREATE"
    elif result.outcome is ChangeOutcome.DELETED:
        operation = "DELETE"
    return ObjectChange(
        operation=operation,
        group=change.group,
        version=version,
        resource=change.resource,
        namespace=change.namespace,
        name=change.name,
        path=join_path(root, result.path) if result.path else "",
        outcome=result.outcome.value,
        reason=result.code,
    )


def counted_changes(plan: WritePlan) -> int:
    """created + updated + deleted: what a reconcile message counts."""
    return sum(
        plan.count(outcome) for outcome in (ChangeOutcome.CREATED, ChangeOutcome.UPDATED)
    ) + deleted_count(plan)


def deleted_count(plan: WritePlan) -> int:
    """Deleted documents: by delete events and by the sweep."""
    singles = sum(
        1
        for result in plan.results
        if result.outcome is ChangeOutcome.DELETED and isinstance(result.change, Delete | FieldPatch)
    )
    return singles + plan.swept


def settlement_of(built: Built, *, branch: BranchKey, base: str | None, arrived: bool) -> Settlement:
    """The settlement of a unit that was written, or that turned out to change nothing; ``arrived`` where the
    push that names it reached the remote.
    """
    kind = OutcomeKind.PUSHED if built.commit else OutcomeKind.NO_CHANGE
    unit = built.unit
    changes = object_changes(built)
    request, sweep = attach_of(unit), sweep_of(unit)
    outcome = Outcome(
        id=unit.boundary.id,
        kind=OutcomeKind.HELD if built.held else kind,
        branch=branch,
        target=unit.boundary.target,
        commit=built.commit,
        message=built.message,
        author=unit.boundary.author,
        author_name=built.author_name,
        author_email=built.author_email,
        detail=left_out(built.plan.results),
        close_reason=unit.boundary.reason.value,
        request_uid=unit.boundary.request_uid,
        request_namespace=request.namespace if request else "",
        request_name=request.name if request else "",
        changes=changes[:SHOWN_CHANGES],
        changes_total=len(changes),
        first_entry_ms=first_ms(unit),
        swept=built.plan.held if built.held else built.plan.swept,
        resource_version=sweep.resource_version if sweep else "",
    )
    digests, wishes = _sealed_state(built)
    return Settlement(
        outcome=outcome,
        entry_ids=unit.settle_ids,
        boundary_id=unit.boundary.id,
        attach_id=unit.boundary.attach_id,
        event_bytes=event_bytes(unit),
        sensitive=sensitive_fields(unit),
        digests=digests,
        staging_ids=(sweep.replay_id,) if sweep else (),
        applied_scope=sweep.scope if sweep else None,
        applied_fingerprint=sweep.fingerprint if sweep else "",
        wishes=wishes,
        new_base=base,
        pushed=bool(built.commit),
        arrived=arrived,
    )


def _sealed_state(built: Built) -> tuple[Mapping[str, DigestRecord | None], tuple[ReplayWish, ...]]:
    """Digests of what now stands sealed in Git, and the scopes whose objects must be sealed again (J20)."""
    by_change = {id(item.change): item for item in built.work.items}
    digests: dict[str, DigestRecord | None] = {}
    replay: dict[Scope, None] = {}
    for result in built.plan.results:
        item = by_change.get(id(result.change))
        if item is None or item.ref is None:
            continue
        field = digest_field(item.ref)
        if result.code == SkipReason.RESEAL_NEEDED:
            digests[field] = None
            replay[item.scope] = None
        elif isinstance(result.change, Delete):
            if result.code != SkipReason.KEPT:
                digests[field] = None
        elif item.digest and result.outcome in _WRITTEN:
            digests[field] = _record(item, built, result.path)
    for dropped in built.work.dropped:
        replay[dropped.scope] = None
    wishes = [ReplayWish(scope) for scope in replay]
    wishes += [
        ReplayWish(scope, parked_for_ms=SKIP_RETRY_MS) for scope in _skipped(built) if scope not in replay
    ]
    return digests, tuple(wishes)


def _skipped(built: Built) -> dict[Scope, None]:
    """Scopes with an object that only a replay of the whole scope can write, with its siblings."""
    by_change = {id(item.change): item.scope for item in built.work.items}
    return dict.fromkeys(
        by_change[id(result.change)]
        for result in built.plan.results
        if result.code == SkipReason.RENDER_MISMATCH and id(result.change) in by_change
    )


def _record(item: Item, built: Built, path: str) -> DigestRecord | None:
    content = built.plan.files.get(path)
    return None if content is None else DigestRecord(item.digest, blob_id(content), item.generation)


def refusal_of(
    unit: Unit,
    *,
    branch: BranchKey,
    reason: str,
    detail: str,
    parked_reason: str = "",
    parked_for_ms: int = 0,
) -> Settlement:
    """Nothing of a unit is written; its scopes are replayed once the cause is gone (J14, J18)."""
    request, sweep = attach_of(unit), sweep_of(unit)
    return Settlement(
        outcome=Outcome(
            id=unit.boundary.id,
            kind=OutcomeKind.REFUSED,
            branch=branch,
            target=unit.boundary.target,
            author=unit.boundary.author,
            reason=reason,
            detail=detail,
            close_reason=unit.boundary.reason.value,
            request_uid=unit.boundary.request_uid,
            request_namespace=request.namespace if request else "",
            request_name=request.name if request else "",
            changes_total=len(unit.boundary.entry_ids),
            first_entry_ms=first_ms(unit),
        ),
        entry_ids=unit.settle_ids,
        boundary_id=unit.boundary.id,
        attach_id=unit.boundary.attach_id,
        event_bytes=event_bytes(unit),
        staging_ids=(sweep.replay_id,) if sweep else (),
        wishes=tuple(
            ReplayWish(scope, parked_reason=parked_reason, parked_for_ms=parked_for_ms)
            for scope in scopes_of(unit)
        ),
    )


def retirement_of(unit: Unit, *, branch: BranchKey, reason: str, detail: str) -> Settlement:
    """The settlement of a finalized window that can no longer be written (J17, J22)."""
    settlement = refusal_of(unit, branch=branch, reason=reason, detail=detail)
    outcome = dataclasses.replace(settlement.outcome, kind=OutcomeKind.RETIRED)
    return dataclasses.replace(settlement, outcome=outcome)


def void_of(unit: Unit, *, branch: BranchKey, detail: str) -> Settlement:
    """A sweep whose staging is missing or incomplete: nothing is swept, the scope replays (J5)."""
    sweep = sweep_of(unit)
    return Settlement(
        outcome=Outcome(
            id=unit.boundary.id,
            kind=OutcomeKind.VOID,
            branch=branch,
            target=unit.boundary.target,
            reason="StagingMissing",
            detail=detail,
            first_entry_ms=first_ms(unit),
        ),
        entry_ids=unit.settle_ids,
        boundary_id=unit.boundary.id,
        staging_ids=(sweep.replay_id,) if sweep else (),
        wishes=(ReplayWish(sweep.scope),) if sweep else (),
    )


def retired_together(entries: Sequence[Stored]) -> list[list[Stored]]:
    """Entries of targets that are gone, grouped for settling: each request alone, the rest of a target by the
    hundreds, or the backlog of one deleted target would flood the history.
    """
    groups: list[list[Stored]] = []
    open_groups: dict[str, list[Stored]] = {}
    for stored in entries:
        if isinstance(stored.entry, AttachEntry):
            groups.append([stored])
            continue
        group = open_groups.get(stored.entry.target.uid)
        if group is None or len(group) >= RETIRED_AT_ONCE:
            group = open_groups[stored.entry.target.uid] = []
            groups.append(group)
        group.append(stored)
    return groups


def simple_settlement(
    stored: Sequence[Stored], *, branch: BranchKey, kind: OutcomeKind, reason: str = "", detail: str = ""
) -> Settlement:
    """The settlement of entries that never reach a window: retired, unsealed, or an attach that found none.

    Whatever is dropped is replayed should its target come back (J21).
    """
    entry = stored[0].entry
    attach = entry if isinstance(entry, AttachEntry) else None
    dropped = (item.entry for item in stored if kind is OutcomeKind.RETIRED)
    scopes = dict.fromkeys(found.scope for found in dropped if isinstance(found, EventEntry | SweepEntry))
    return Settlement(
        outcome=Outcome(
            id=f"{stored[0].id}-{secrets.token_hex(4)}",
            kind=kind,
            branch=branch,
            target=entry.target,
            reason=reason,
            detail=detail,
            request_uid=attach.uid if attach else "",
            request_namespace=attach.namespace if attach else "",
            request_name=attach.name if attach else "",
            changes_total=len(stored),
            first_entry_ms=stored[0].time_ms,
        ),
        entry_ids=tuple(item.id for item in stored),
        wishes=tuple(ReplayWish(scope) for scope in scopes),
    )


def author_kind(author: Author | None) -> str:
    """The metric label of a commit's author."""
    if author is None or not author.username:
        return "committer"
    return "serviceaccount" if author.username.startswith("system:serviceaccount:") else "user"
