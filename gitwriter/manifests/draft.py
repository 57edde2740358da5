"""One attempt at planning a batch: every change finds its document or its place, and the ledger collects the
work of each file.

A draft never writes outside what it records and never changes its inputs. Changes listed in `excluded`
are skipped with the reason found by an earlier attempt, so that one object which cannot be written does
not hold up the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reverser.kinds.sensitive import is_sensitive

from . import fields, tokens
from .changes import (
    Change,
    Delete,
    FieldPatch,
    Outcome,
    Policy,
    SkipReason,
    Sweep,
    Upsert,
)
from .fields import load_mapping
from .filework import DesiredDocument, would_change
from .guards import SEAL_AGAIN, Exclusion, escape_text, fan_in_text, undeclared_text, unfit, untouchable_text
from .identity import ObjectKey
from .ignore import IGNORE_FILE
from .inventory import Inventory, locate
from .kustomize.authoring import deletion_of
from .kustomize.outside import is_outside
from .kustomize.removing import orphaned_entries
from .kustomize.route import Routed, SourceRouter
from .ledger import Ledger
from .loading import YamlError
from .moving import Home, home_of
from .newdocuments import NewDocument, render_new, sort_key_of, split_by_sensitivity, subject_of
from .placement.resolve import Placer, Registration, registration
from .placement.room import has_bytes_left, is_full, sequels
from .placement.safety import append_refusal, path_problem
from .placement.templates import Subject
from .records import DocumentRef
from .roles import is_hidden
from .sweeping import absent_documents
from .tree import Tree


class Draft:
    """Plans a batch against one inventory; `run` once, then read the attributes without underscore."""

    def __init__(
        self,
        tree: Tree,
        inventory: Inventory,
        policy: Policy,
        *,
        router: SourceRouter,
        excluded: Mapping[int, Exclusion],
    ) -> None:
        self.ledger = Ledger(tree, inventory)
        self.rendered: dict[int, Routed] = {}
        self.registered: set[int] = set()
        self.swept = 0
        self.held = 0
        self._inventory = inventory
        self._policy = policy
        self._router = router
        self._excluded = excluded
        self._new: list[tuple[str, int, Upsert]] = []
        self._moved: dict[int, DocumentRef] = {}
        self._written: set[tuple[str, int]] = set()
        self._wanted: frozenset[str] = frozenset()
        self._refusals: dict[tuple[str, bool, str, bool], tuple[SkipReason, str] | None] = {}

    def run(self, changes: Sequence[Change]) -> None:
        """Plan every change; of several upserts and deletes of one object the last counts."""
        self.ledger.changes = changes
        last: dict[ObjectKey, int] = {}
        for number, change in enumerate(changes):
            if isinstance(change, Upsert | Delete):
                last[change.key] = number
        for number, change in enumerate(changes):
            if not self._runs(number):
                excluded = self._excluded[number]
                self.ledger.skip(number, excluded.code, excluded.message)
            elif isinstance(change, Upsert | Delete) and last[change.key] != number:
                self.ledger.note(
                    number, Outcome.UNCHANGED, message="a later change of the same object replaces this one"
                )
            elif isinstance(change, Upsert):
                self._upsert(number, change)
            elif isinstance(change, Delete):
                self._delete(number, change)
        for number, change in enumerate(changes):
            if isinstance(change, FieldPatch) and number not in self._excluded:
                self._patch(number, change)
        self._place_new()
        for number, change in enumerate(changes):
            if isinstance(change, Sweep) and self._runs(number):
                self._sweep(number, change)
        self.ledger.apply()

    def _runs(self, number: int) -> bool:
        return number not in self._excluded or self._excluded[number].builds_only

    def _undeclared(self, number: int, ref: DocumentRef) -> None:
        self.ledger.skip(number, SkipReason.NAMESPACE_UNDECLARED, undeclared_text(ref), ref.path)

    def _upsert(self, number: int, change: Upsert) -> None:
        if (problem := unfit(change, self._policy.sensitive_types)) is not None:
            self.ledger.skip(number, *problem)
            return
        ref, undeclared = locate(self._inventory, change.key, namespaced=change.namespaced)
        if ref is not None:
            if change.sensitive:
                self._reseal(number, change, ref)
            elif (untouchable := untouchable_text(ref.path, ref.fact)) is not None:
                self.ledger.skip(number, *untouchable, ref.path)
            elif change.body is not None:
                self._edit(number, change, ref)
            elif not self._is_unchanged(number, change, ref):
                self.ledger.skip(number, SkipReason.MISSING_BODY, "the object came without content", ref.path)
        elif undeclared is not None:
            self._undeclared(number, undeclared)
        elif not change.create:
            self.ledger.skip(number, SkipReason.CREATE_NOT_SELECTED, "no rule selects creations of this type")
        elif change.sensitive and change.sealed is None:
            self.ledger.skip(number, SkipReason.RESEAL_NEEDED, SEAL_AGAIN)
        elif not change.sensitive and change.body is None:
            self.ledger.skip(number, SkipReason.MISSING_BODY, "the object came without content")
        else:
            self._new.append((sort_key_of(change), number, change))

    def _is_unchanged(self, number: int, change: Upsert, ref: DocumentRef) -> bool:
        record = self._inventory.files.get(ref.path)
        same = record is not None and change.unchanged_blob == record.entry.blob
        if same:
            self.ledger.note(number, Outcome.UNCHANGED, path=ref.path)
        return same

    def _reseal(self, number: int, change: Upsert, ref: DocumentRef) -> None:
        if is_outside(ref.path):
            self._escapes(number, ref.path)
            return
        if self._is_unchanged(number, change, ref):
            return
        if change.sealed is None:
            self.ledger.skip(number, SkipReason.RESEAL_NEEDED, SEAL_AGAIN, ref.path)
            return
        home = home_of(self._inventory, ref)
        if home is Home.NOWHERE:
            text = f"{ref.path} holds several documents; give the encrypted object a file of its own"
            self.ledger.skip(number, SkipReason.MULTI_DOCUMENT_TARGET, text, ref.path)
        elif self._inventory.context.fan_in(ref.path):
            self._fan_in(number, ref)
        elif self.ledger.read(ref.path) == change.sealed:
            self.ledger.note(number, Outcome.UNCHANGED, path=ref.path)
        elif not change.update:
            self._not_updated(number, ref.path)
        elif home is Home.OWN_FILE:
            self._moved[number] = ref
            self._new.append((sort_key_of(change), number, change))
        else:
            self.ledger.work(ref.path).whole = change.sealed
            self._written.add((ref.path, ref.fact.index))
            self.ledger.own(number, ref.path)
            self.ledger.note(number, Outcome.UPDATED, path=ref.path)

    def _not_updated(self, number: int, path: str) -> None:
        self.ledger.skip(number, SkipReason.UPDATE_NOT_SELECTED, "no rule selects updates of this type", path)

    def _escapes(self, number: int, path: str) -> None:
        self.ledger.skip(number, SkipReason.WRITE_ESCAPES_SCOPE, escape_text(path), path)

    def _fan_in(self, number: int, ref: DocumentRef) -> None:
        text = fan_in_text(ref.path, self._inventory.context.fan_in(ref.path))
        self.ledger.skip(number, SkipReason.WRITE_FAN_IN, text, ref.path)

    def _edit(self, number: int, change: Upsert, ref: DocumentRef) -> None:
        assert change.body is not None
        kept = fields.kept_pointers(change.body, change.group, change.name, self._policy.ignore_fields)
        value = dict(change.body)
        if is_outside(ref.path) and self._restore_inherited(number, change, ref):
            return
        if ref.path in self._inventory.context.reaches:
            routed = self._router.route(change, ref, value, keep=kept, optional=change.optional)
            if routed.problem is not None:
                code, text = routed.problem
                self.ledger.skip(number, code, text, ref.path)
                return
            outside = next((edits.path for edits in routed.edits if is_outside(edits.path)), None)
            if outside is None and is_outside(ref.path) and routed.changes_source:
                outside = ref.path
            if outside is not None:
                self._escapes(number, outside)
                return
            self.rendered[number] = routed
            if routed.edits and not change.update:
                self._not_updated(number, ref.path)
                return
            for edits in routed.edits:
                self.ledger.merge(number, edits)
            value = routed.source
            if routed.edits:
                self.ledger.note(number, Outcome.UPDATED, path=routed.edits[-1].path)
            if is_outside(ref.path):
                if not routed.edits:
                    self.ledger.note(number, Outcome.UNCHANGED, path=ref.path)
                self._written.add((ref.path, ref.fact.index))
                return
        elif self._holds_placeholders(number, change, ref, kept):
            return
        desired = DesiredDocument(value, kept, change.optional)
        if not change.update and would_change(self.ledger.read(ref.path), ref.fact.index, desired):
            self._not_updated(number, ref.path)
            return
        self.ledger.edit(number, ref, desired)
        self._written.add((ref.path, ref.fact.index))

    def _restore_inherited(self, number: int, change: Upsert, ref: DocumentRef) -> bool:
        """Take back the patch that deleted a base's object, now that the object lives again."""
        deletion = deletion_of(self._inventory, ref)
        if deletion is None or not deletion.done:
            return False
        if not change.create:
            self.ledger.skip(number, SkipReason.CREATE_NOT_SELECTED, "no rule selects creations of this type")
            return True
        unused = {deletion.path}
        edits = replace(deletion.edits, new_patches=set(), removed_patches=unused, unused_files=unused)
        self.ledger.merge(number, edits)
        self.ledger.note(number, Outcome.CREATED, path=deletion.path)
        return True

    def _holds_placeholders(
        self, number: int, change: Upsert, ref: DocumentRef, kept: tuple[str, ...]
    ) -> bool:
        """Skip an object whose file holds placeholders that live does not show."""
        text = tokens.document_problem(
            self.ledger.read(ref.path), ref.fact.index, change.body, kept, ref.path
        )
        if text:
            self.ledger.skip(number, SkipReason.RENDER_DOES_NOT_MATCH_LIVE, text, ref.path)
        return bool(text)

    def _delete(self, number: int, change: Delete) -> None:
        ref, undeclared = locate(self._inventory, change.key, namespaced=change.namespaced)
        if ref is None and undeclared is not None:
            self._undeclared(number, undeclared)
        elif ref is None:
            self.ledger.note(number, Outcome.UNCHANGED, code=SkipReason.ALREADY_ABSENT.value)
        else:
            self._remove(number, ref)

    def _remove(self, number: int, ref: DocumentRef) -> bool:
        if is_outside(ref.path):
            return self._remove_inherited(number, ref)
        if self._inventory.context.fan_in(ref.path):
            self._fan_in(number, ref)
            return False
        self._cut(number, ref)
        self.ledger.note(number, Outcome.DELETED, path=ref.path)
        return True

    def _cut(self, number: int, ref: DocumentRef) -> None:
        self.ledger.work(ref.path).removals.add(ref.fact.index)
        self.ledger.own(number, ref.path)
        for edits in orphaned_entries(self._inventory, ref):
            self.ledger.merge(number, edits)

    def _remove_inherited(self, number: int, ref: DocumentRef) -> bool:
        """Delete an object of a base by a patch in the overlay; true when that changes something."""
        deletion = deletion_of(self._inventory, ref)
        if deletion is None:
            self._escapes(number, ref.path)
            return False
        if deletion.done:
            self.ledger.note(
                number, Outcome.UNCHANGED, path=deletion.path, code=SkipReason.ALREADY_ABSENT.value
            )
            return False
        self.ledger.work(deletion.path).append("", deletion.content)
        self.ledger.own(number, deletion.path)
        self.ledger.merge(number, deletion.edits)
        self.ledger.note(number, Outcome.DELETED, path=deletion.path)
        return True

    def _sweep(self, number: int, change: Sweep) -> None:
        for ref in absent_documents(self._inventory, change):
            if (ref.path, ref.fact.index) in self._written:
                continue
            work = self.ledger.works.get(ref.path)
            if work is not None and ref.fact.index in work.removals:
                continue
            if number in self._excluded and ref.path in self._inventory.context.reaches:
                self.ledger.skip(
                    number, self._excluded[number].code, self._excluded[number].message, ref.path
                )
                continue
            if self._policy.hold_sweep_deletes:
                self.held += 1
                self.ledger.skip(number, SkipReason.HELD, "the deletion is held by the sweep brake", ref.path)
            elif self._remove(number, ref):
                self.swept += 1
        if number not in self.ledger.results:
            self.ledger.note(number, Outcome.UNCHANGED)

    def _patch(self, number: int, change: FieldPatch) -> None:
        ref, _undeclared = locate(self._inventory, change.key, namespaced=change.namespaced)
        if ref is None:
            self.ledger.skip(number, SkipReason.PATCH_NO_PARENT, "Git holds no document for this object")
            return
        if is_outside(ref.path):
            self._escapes(number, ref.path)
            return
        work = self.ledger.work(ref.path)
        sensitive = is_sensitive(change.group, (change.resource, change.kind), self._policy.sensitive_types)
        if sensitive or ref.fact.has_sops or work.whole is not None or ref.fact.index in work.removals:
            self.ledger.skip(number, SkipReason.PATCH_UNSAFE, f"{ref.path} cannot be patched", ref.path)
            return
        if self._inventory.context.fan_in(ref.path):
            self._fan_in(number, ref)
            return
        assignments = dict(change.assignments)
        if not fields.are_disjoint(assignments):
            self.ledger.skip(
                number, SkipReason.PATCH_UNSAFE, "the fields to set are empty or contain each other", ref.path
            )
            return
        if ref.path in self._inventory.context.reaches:
            routed = self._router.route_patch(change, ref, assignments)
            for edits in routed.edits:
                self.ledger.merge(number, edits)
            assignments = dict(routed.source)
            if routed.edits:
                self.ledger.note(number, Outcome.UPDATED, path=routed.edits[-1].path)
                if not assignments:
                    return
        pending = work.edits.get(ref.fact.index)
        try:
            base = pending.value if pending is not None else self._loaded(ref)
            value = fields.without(base, ())
            for pointer, new in assignments.items():
                fields.set_pointer(value, pointer, new)
        except (YamlError, ValueError, TypeError) as error:
            self.ledger.skip(number, SkipReason.PATCH_UNSAFE, str(error), ref.path)
            return
        desired = DesiredDocument(value) if pending is None else replace(pending, value=value)
        self.ledger.edit(number, ref, desired)
        self._written.add((ref.path, ref.fact.index))

    def _loaded(self, ref: DocumentRef) -> Mapping[str, Any]:
        return load_mapping(self.ledger.read(ref.path), ref.fact.index)

    def _place_new(self) -> None:
        placer = Placer(
            self._inventory,
            by_type=self._policy.by_type,
            default=self._policy.default,
            inference=self._policy.inference,
        )
        groups: dict[str, list[NewDocument]] = {}
        for key, number, change in sorted(self._new, key=lambda item: item[:2]):
            subject = subject_of(change)
            place = placer.place(subject)
            problem = path_problem(self._inventory, place.path)
            if problem:
                self.ledger.skip(number, SkipReason.INVALID_PATH, f"{place.path}: {problem}", place.path)
                continue
            groups.setdefault(place.path, []).append(NewDocument(key, number, change, subject, place))
        self._wanted = frozenset(groups)
        for path, members in sorted(groups.items()):
            self._create(path, members)

    def _create(self, path: str, members: list[NewDocument]) -> None:
        if path not in self._inventory.files:
            members, surplus = split_by_sensitivity(members)
            for member in surplus:
                text = (
                    f"{path} is wanted by several objects of which one is encrypted; give each its own path"
                )
                self.ledger.skip(member.number, SkipReason.MIXED_SENSITIVITY, text, path)
        built = all(registration(self._inventory, member.place, member.subject) for member in members)
        for member in members:
            self._put(path, member, built=built)

    def _put(self, wanted: str, member: NewDocument, *, built: bool) -> None:
        """Write a new document into the file that it wants, or where that is full into one that follows."""
        refusal = self._append_refusal(wanted, member.subject)
        if refusal is not None:
            self.ledger.skip(member.number, refusal[0], refusal[1], wanted)
            return
        if self._settled(wanted, member, built=built, note=member.place.note):
            return
        for path in sequels(wanted):
            if path in self._wanted or self._is_full(path):
                continue
            if problem := self._sequel_problem(path):
                text = f"{wanted} is full, and {path} cannot follow it: {problem}; split the file"
                self.ledger.skip(member.number, SkipReason.LIMIT, text, wanted)
                return
            if self._append_refusal(path, member.subject) is not None:
                continue
            if self._settled(path, member, built=built, note=f"{wanted} is full"):
                return

    def _settled(self, path: str, member: NewDocument, *, built: bool, note: str) -> bool:
        """Add a new document to this file, or skip it where it cannot be written at all; False without room
        for it.
        """
        inventory, subject = self._inventory, member.subject
        if self._is_full(path):
            return False
        record, work = inventory.files.get(path), self.ledger.works.get(path)
        place = replace(member.place, path=path)
        found = registration(inventory, place, subject) if built and record is None else None
        if record is not None:
            inherits = bool(inventory.context.namespace(path)) and subject.namespaced
        else:
            inherits = found is not None and found.supplies_namespace
        rendered = self._rendered(path, member, inherits=inherits)
        if rendered is None:
            return True
        if not has_bytes_left(record, work, rendered, inventory.limits):
            return False
        if found is not None:
            self._register(member.number, found)
        self._add(path, member, rendered, note=note)
        return True

    def _is_full(self, path: str) -> bool:
        return is_full(self._inventory.files.get(path), self.ledger.works.get(path), self._inventory.limits)

    def _sequel_problem(self, path: str) -> str:
        if is_hidden(path, self._inventory.rules):
            return f"{IGNORE_FILE} hides it"
        return path_problem(self._inventory, path)

    def _append_refusal(self, path: str, subject: Subject) -> tuple[SkipReason, str] | None:
        """Why a document may not be added to a file that exists."""
        if path not in self._inventory.files:
            return None
        asked = path, subject.namespaced, subject.namespace, subject.sensitive
        if asked not in self._refusals:
            self._refusals[asked] = append_refusal(self._inventory, path, subject)
        return self._refusals[asked]

    def _register(self, number: int, found: Registration) -> None:
        kustomization = found.kustomization
        self.ledger.kustomization(kustomization.path, kustomization.directory).added.add(found.entry)
        self.ledger.own(number, kustomization.path)
        self.registered.add(number)

    def _rendered(self, path: str, member: NewDocument, *, inherits: bool) -> bytes | None:
        try:
            return render_new(member.change, self._policy.ignore_fields, inherits_namespace=inherits)
        except (YamlError, TypeError, ValueError) as error:
            self.ledger.skip(member.number, SkipReason.UNREADABLE_RESULT, str(error), path)
            return None

    def _add(self, path: str, member: NewDocument, rendered: bytes, *, note: str) -> None:
        work = self.ledger.work(path)
        if member.change.sensitive:
            work.whole = rendered
        else:
            work.append(member.key, rendered)
            self.ledger.grows(member.number, path, len(rendered))
        self.ledger.own(member.number, path)
        if member.number in self._moved:
            self._cut(member.number, self._moved[member.number])
        self.ledger.note(
            member.number, Outcome.CREATED, path=path, rule=member.place.rule.value, message=note
        )
