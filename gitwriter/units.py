"""From journal entries to what the manifest planner is asked: pure.

What a replay does not allow (operations, prune mode, another recipients generation) is decided here, before
any file is read. A deletion that the prune mode does not allow is asked for as one that keeps the document,
so that the status can say how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gitwriter.lazytext import ParsedText
from gitwriter.manifests import Change, Delete, Sweep, Upsert
from gitwriter.windows import ClosedWindow, SweepUnit, Unit
from reverser.kinds.model import PruneMode
from reverser.store.model import (
    AttachEntry,
    DigestRecord,
    EventEntry,
    ObjectRef,
    Operation,
    Presence,
    Scope,
    StagedObject,
    SweepEntry,
    TypeRef,
    digest_field,
)

OUTDATED_RECIPIENTS = "RecipientsChanged"


@dataclass(frozen=True, slots=True)
class Item:
    """One change with what it came from. ``digest`` is stored for the object once its text is in Git."""

    change: Change
    ref: ObjectRef | None
    operation: str
    scope: Scope
    digest: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """An object that is not written now; its scope is replayed."""

    ref: ObjectRef
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class Work:
    """What to ask the planner for a unit, and what was left out."""

    items: tuple[Item, ...]
    dropped: tuple[Dropped, ...] = ()

    @property
    def changes(self) -> list[Change]:
        return [item.change for item in self.items]


def sweep_of(unit: Unit) -> SweepEntry | None:
    """The sweep of a sweep unit, None for a window."""
    return unit.sweep if isinstance(unit, SweepUnit) else None


def attach_of(unit: Unit) -> AttachEntry | None:
    """The request bound to a window."""
    return unit.attach if isinstance(unit, ClosedWindow) else None


def first_ms(unit: Unit) -> int:
    """When the first entry of a unit was appended, on the Redis clock."""
    return int(unit.boundary.entry_ids[0].split("-", 1)[0])


def event_bytes(unit: Unit) -> int:
    """The journal bytes of a window's events; 0 for a sweep."""
    return 0 if isinstance(unit, SweepUnit) else unit.weight


def sensitive_fields(unit: Unit) -> tuple[str, ...]:
    """The objects of sensitive types among a window's events, as ``digest_field`` names them."""
    if isinstance(unit, SweepUnit):
        return ()
    return tuple(digest_field(folded.event.object) for folded in unit.events if folded.event.sensitive)


def window_work(events: Sequence[EventEntry], *, prune: str, generation: int) -> Work:
    """The changes of a window. ``generation`` is the target's current recipients generation (J20)."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    for event in events:
        if event.operation is Operation.DELETE:
            items.append(_item(event, _delete(event.object, keep=prune == PruneMode.NEVER)))
            continue
        if event.sealed and event.recipients_generation < generation:
            dropped.append(Dropped(event.object, event.scope, OUTDATED_RECIPIENTS))
            continue
        items.append(_item(event, _upsert_of_event(event)))
    return Work(tuple(items), tuple(dropped))


def sweep_work(
    sweep: SweepEntry,
    pages: Iterable[Sequence[StagedObject]],
    *,
    prune: str,
    digests: Callable[[Sequence[str]], Mapping[str, DigestRecord]],
    generation: int,
    known_blob: Callable[[TypeRef, StagedObject], str] | None = None,
) -> Work:
    """The changes of a replay: upserts first, then the sweep of what was not seen (J6).

    ``pages`` are its objects, ``digests`` answers what is stored for fields of sensitive ones. ``known_blob``
    answers with the blob that is known to hold a plain object as it is, or with nothing.
    """
    items: list[Item] = []
    dropped: list[Dropped] = []
    seen: set[tuple[str, str]] = set()
    for page in pages:
        seen.update((found.namespace, found.name) for found in page)
        wanted = [found for found in page if found.presence is not Presence.PRESENT]
        fields = [digest_field(_ref(sweep, found)) for found in wanted if found.sensitive]
        known = digests(fields) if fields else {}
        for found in wanted:
            ref = _ref(sweep, found)
            if found.sensitive and found.recipients_generation < generation:
                dropped.append(Dropped(ref, sweep.scope, OUTDATED_RECIPIENTS))
                continue
            blob = known_blob(sweep.type, found) if known_blob is not None else ""
            change = _upsert(
                ref,
                body=b"" if blob else found.body,
                sealed=found.sealed,
                sensitive=found.sensitive,
                optional=found.optional,
                operations=sweep.operations_for(found.namespace),
                unchanged_blob=blob or _sealed_blob(found, known.get(digest_field(ref))),
            )
            items.append(Item(change, ref, "UPDATE", sweep.scope, found.digest, found.recipients_generation))
    present = frozenset(seen)
    for namespace in _swept_namespaces(sweep):
        absent = Sweep(
            group=sweep.type.group,
            resource=sweep.type.resource,
            kind=sweep.type.kind,
            namespaced=sweep.type.namespaced,
            scope_namespace=namespace,
            present=present,
            keep=prune != PruneMode.ALWAYS,
        )
        items.append(Item(absent, None, "DELETE", sweep.scope))
    return Work(tuple(items), tuple(dropped))


def _ref(sweep: SweepEntry, found: StagedObject) -> ObjectRef:
    return ObjectRef(sweep.type, found.namespace, found.name)


def _swept_namespaces(sweep: SweepEntry) -> list[str | None]:
    """Where what a replay did not show is deleted: its whole scope, or the namespaces that say so."""
    if Operation.DELETE in sweep.operations:
        return [sweep.scope.namespace]
    return [name for name, more in sorted(sweep.namespace_operations.items()) if Operation.DELETE in more]


def _sealed_blob(found: StagedObject, record: DigestRecord | None) -> str | None:
    """The blob that holds a sensitive object as it is; where none is known, an object without text must be
    sealed again (empty), and one with text is written.

    An object comes with its text and is unchanged all the same where the change that it shows was still
    waiting when it was read: encrypting twice gives two texts, and the second would be a commit of nothing.
    """
    without_text = found.presence is Presence.DIGEST
    if (
        record is not None
        and record.digest == found.digest
        and (without_text or record.recipients_generation == found.recipients_generation)
    ):
        return record.blob
    return "" if without_text else None


def _item(event: EventEntry, change: Change) -> Item:
    return Item(
        change, event.object, event.operation.value, event.scope, event.digest, event.recipients_generation
    )


def _delete(ref: ObjectRef, *, keep: bool) -> Delete:
    return Delete(
        group=ref.type.group,
        resource=ref.type.resource,
        kind=ref.type.kind,
        namespaced=ref.type.namespaced,
        namespace=ref.namespace,
        name=ref.name,
        keep=keep,
    )


def _upsert_of_event(event: EventEntry) -> Upsert:
    return _upsert(
        event.object,
        body=event.body,
        sealed=event.sealed,
        sensitive=event.sensitive,
        optional=event.optional,
        operations=frozenset(Operation),
        unchanged_blob=None,
    )


def _upsert(
    ref: ObjectRef,
    *,
    body: bytes,
    sealed: bool,
    sensitive: bool,
    optional: tuple[str, ...],
    operations: frozenset[Operation],
    unchanged_blob: str | None,
) -> Upsert:
    return Upsert(
        group=ref.type.group,
        version=ref.type.version,
        resource=ref.type.resource,
        kind=ref.type.kind,
        namespaced=ref.type.namespaced,
        namespace=ref.namespace,
        name=ref.name,
        body=ParsedText(body) if body and not sealed else None,
        sealed=body if sealed else None,
        sensitive=sensitive,
        create=Operation.CREATE in operations,
        update=Operation.UPDATE in operations,
        optional=optional,
        unchanged_blob=unchanged_blob,
    )
