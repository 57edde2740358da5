"""From units to commits in the clone: which files change, under which message, signed or not.

A unit that cannot be written is refused alone: its entries are settled, its types are replayed once the cause
is gone, and the units after it continue. Nothing here reaches the remote or the journal.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from gitwriter import metrics
from gitwriter.commitmessage import commit_message
from gitwriter.edges import AttemptEdges
from gitwriter.freezing import policy_of
from gitwriter.git.commits import CommitSession
from gitwriter.git.objects import TreeEntry as GitEntry
from gitwriter.identity import author_ident, committer_ident
from gitwriter.manifests import Inventory, Policy, Upsert, WritePlan, plan_writes
from gitwriter.manifests.remarks import remarks
from gitwriter.manifests.tree import MODE_EXECUTABLE, TreeEntry
from gitwriter.messages import message_bytes
from gitwriter.outcomes import PATH_REFUSED, Built, Written, refusal_of, void_of, written_of
from gitwriter.targettree import CommitTree, join_path
from gitwriter.unchanged import Comparison
from gitwriter.units import Work, attach_of, sweep_of, sweep_work, window_work
from gitwriter.verdicts import contents_of, obstacle_verdict, refused_verdict
from gitwriter.windows import ClosedWindow, Unit, paths_overlap
from reverser.errors import LostRace, RefusedError, StalledError
from reverser.sparing import Sparing
from reverser.store.model import (
    DigestRecord,
    EventEntry,
    Frozen,
    PathVerdict,
    Settlement,
    StagedObject,
    SweepEntry,
)

logger = logging.getLogger(__name__)
_LINES = Sparing(lines=1, seconds=10)

RETRY_REFUSED_MS = 60_000
STAGED_AT_ONCE = 500
TEXTS_AT_ONCE = 1000
ATTEMPT_BYTES = 48 * 1024 * 1024


@dataclass(slots=True)
class Progress:
    """The commit to build on next, what was made, and what was refused."""

    base: str | None
    start: str | None
    built: list[Written] = field(default_factory=list)
    refused: list[Settlement] = field(default_factory=list)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    trees: dict[str, CommitTree] = field(default_factory=dict)
    size: int = 0
    """Bytes of the files built so far; they stay in memory until the attempt ends."""


class Builder:
    """Builds the units of one attempt, one after the other."""

    def __init__(self, edges: AttemptEdges, progress: Progress) -> None:
        self._edges = edges
        self._store = edges.store
        self._progress = progress

    def look(self, root: str) -> Inventory:
        """The inventory of a target path at the commit that the next unit builds on.

        Commits of this attempt cannot be read before it ends, so a folder is first read at the base and
        then followed in memory; ``readable`` says for which folders that holds.
        """
        edges, progress = self._edges, self._progress
        tree = progress.trees.get(root)
        if tree is None:
            tree = progress.trees[root] = CommitTree(edges.repository, progress.base, root)
        inventory = progress.inventories.get(root)
        if inventory is None:
            inventory = edges.shelf.get(edges.repository, tree, commit=progress.base, root=root)
            progress.inventories[root] = inventory
        return inventory

    def readable(self, unit: Unit) -> bool:
        """Whether this attempt can take the unit too: none of its commits touched another folder that
        overlaps the unit's, and its memory is still below the limit.
        """
        if self._progress.size >= ATTEMPT_BYTES:
            return False
        frozen = unit.boundary.frozen
        roots = self._progress.trees
        return frozen is None or not any(
            root != frozen.path and paths_overlap(root, frozen.path) for root in roots
        )

    def build(self, session: CommitSession, unit: Unit) -> None:
        """Decide a unit's files and make its commit, or settle it as refused or void."""
        frozen = unit.boundary.frozen
        if frozen is None:
            self._refuse(
                unit, reason="BoundaryIncomplete", detail="the window was stored without its settings"
            )
            return
        try:
            self._write(session, unit, frozen)
        except (RefusedError, StalledError) as error:
            self._refuse(unit, reason=error.reason, detail=str(error), parked_for_ms=RETRY_REFUSED_MS)

    def _write(self, session: CommitSession, unit: Unit, frozen: Frozen) -> None:
        edges, progress, root = self._edges, self._progress, frozen.path
        obstacle = self.obstacle_on(root)
        if obstacle is not None:
            self._refuse_path(unit, obstacle_verdict(obstacle, now_ms=self._store.time_ms()))
            return
        inventory = self.look(root)
        known = self._store.read_recipients(unit.boundary.target.uid)
        recipients, generation = (known.recipients, known.generation) if known else ((), 0)
        policy = policy_of(frozen, sensitive=edges.sensitive, recipients=recipients)
        comparison = Comparison(edges.shelf.unchanged, inventory, policy)
        work = self._work(unit, frozen, comparison, generation=generation)
        if work is None:
            detail = "the objects of the replay are gone from the store; the type is replayed"
            progress.refused.append(void_of(unit, branch=edges.branch, detail=detail))
            target = unit.boundary.target
            metrics.REPLAYS_FAILED.labels(target.namespace, target.name).inc()
            return
        plan = self._plan(unit, work, inventory, policy=policy, root=root)
        if plan.refused:
            now, contents = self._store.time_ms(), contents_of(plan.inventory)
            self._refuse_path(unit, refused_verdict(plan.issues, now_ms=now, contents=contents))
            return
        comparison.remember(plan.results, plan.after())
        if not plan.files:
            noted = remarks(progress.trees[root], inventory, policy)
            self._keep(Built(unit, work, plan, held=plan.held > 0, remarks=noted))
            return
        self._commit(session, unit, work, plan, frozen, inventory=inventory, policy=policy)

    def _commit(
        self,
        session: CommitSession,
        unit: Unit,
        work: Work,
        plan: WritePlan,
        frozen: Frozen,
        *,
        inventory: Inventory,
        policy: Policy,
    ) -> None:
        """The commit of a plan on top of those before it; what it changes is known from here on."""
        progress, root = self._progress, frozen.path
        committer = committer_ident(frozen.committer_name, frozen.committer_email)
        author = author_ident(unit.boundary.author, committer)
        message = commit_message(unit, frozen, plan, committer=committer.name)
        made = session.commit(
            parent=progress.start,
            files={join_path(root, path): content for path, content in plan.files.items()},
            author=author,
            committer=committer,
            when=int(time.time()),
            message=message_bytes(message),
            signer=self._edges.signer(frozen.signing_secret) if frozen.signing_secret else None,
            executable=[join_path(root, path) for path in plan.files if _is_executable(inventory, path)],
        )
        progress.trees[root].remember(plan.files)
        progress.start = made.commit
        progress.inventories[root] = plan.after()
        progress.size += sum(len(content) for content in plan.files.values() if content is not None)
        self._keep(
            Built(
                unit=unit,
                work=work,
                plan=plan,
                commit=made.commit,
                message=message,
                author_name=author.name,
                author_email=author.email,
                held=plan.held > 0,
                remarks=remarks(progress.trees[root], progress.inventories[root], policy),
            )
        )

    def _keep(self, built: Built) -> None:
        self._progress.built.append(written_of(built, branch=self._edges.branch))

    def obstacle_on(self, root: str) -> GitEntry | None:
        """The part of a folder's path that is no folder at the base, if any; looked up once."""
        edges, progress = self._edges, self._progress
        base = progress.base
        if base is None or root == "." or root in progress.trees:
            return None
        if edges.shelf.is_direct(edges.repository, root=root, commit=base):
            return None
        obstacle = edges.repository.obstacle_on(base, root)
        if obstacle is None:
            edges.shelf.note_direct(edges.repository, root=root, commit=base)
        return obstacle

    def _plan(self, unit: Unit, work: Work, inventory: Inventory, *, policy: Policy, root: str) -> WritePlan:
        edges, tree = self._edges, self._progress.trees[root]
        sweep = sweep_of(unit)
        with tree.read_ahead(_compared(sweep, work, inventory)):
            plan = plan_writes(tree, work.changes, policy, inventory=inventory)
        if sweep is None or not edges.brake_percent or sweep.released_hold or plan.refused:
            return plan
        documents = len(inventory.of_type(sweep.type.group, sweep.type.kind))
        if plan.swept * 100 <= edges.brake_percent * documents:
            return plan
        held = dataclasses.replace(policy, hold_sweep_deletes=True)
        return plan_writes(tree, work.changes, held, inventory=inventory)

    def _work(self, unit: Unit, frozen: Frozen, comparison: Comparison, *, generation: int) -> Work | None:
        """The changes to write; None where a replay's staging is missing or incomplete (J5)."""
        uid = unit.boundary.target.uid
        if isinstance(unit, ClosedWindow):
            return window_work(self._events(unit), prune=frozen.prune, generation=generation)
        sweep = unit.sweep
        names = self._store.staged_names(self._edges.branch, sweep.replay_id)
        if names is None or len(names) != sweep.count:
            return None
        return sweep_work(
            sweep,
            self._pages(sweep, names),
            prune=frozen.prune,
            digests=partial(self._digests, uid),
            generation=generation,
            known_blob=comparison.known_blob,
        )

    def _digests(self, uid: str, fields: Sequence[str]) -> dict[str, DigestRecord]:
        """What is known of sealed objects of a target, with what this attempt has made of them."""
        known = dict(self._store.read_digests(uid, fields))
        for written in self._progress.built:
            if written.unit.boundary.target.uid != uid:
                continue
            for name, record in written.settlement.digests.items():
                known.pop(name, None)
                if record is not None:
                    known[name] = record
        return known

    def _events(self, unit: ClosedWindow) -> list[EventEntry]:
        """A window's changes with their texts, which are in memory from here until its commit is made."""
        texts: list[bytes] = []
        ids = [folded.id for folded in unit.events]
        while len(texts) < len(ids):
            page = self._store.read_texts(self._edges.branch, ids[len(texts) : len(texts) + TEXTS_AT_ONCE])
            if not page:
                raise LostRace("a change vanished from the journal while its window was written")
            texts.extend(page)
        return [
            dataclasses.replace(folded.event, body=text)
            for folded, text in zip(unit.events, texts, strict=True)
        ]

    def _pages(self, sweep: SweepEntry, names: Sequence[str]) -> Iterator[list[StagedObject]]:
        """The objects of a replay in order, a few megabytes at a time."""
        read = 0
        while read < len(names):
            ahead = names[read : read + STAGED_AT_ONCE]
            page = self._store.read_staged(self._edges.branch, sweep.replay_id, ahead)
            if not page:
                raise LostRace("the objects of a replay vanished while they were read")
            yield page
            read += len(page)

    def _refuse_path(self, unit: Unit, verdict: PathVerdict) -> None:
        self._store.write_path_verdict(unit.boundary.target.uid, verdict)
        self._refuse(unit, reason=verdict.reason, detail=verdict.issues[0], parked_reason=PATH_REFUSED)

    def _refuse(
        self, unit: Unit, *, reason: str, detail: str, parked_reason: str = "", parked_for_ms: int = 0
    ) -> None:
        target, request = unit.boundary.target, attach_of(unit)
        if _LINES.left((target.uid, reason, detail)):
            logger.warning(
                "a window is refused",
                extra={
                    "branch": str(self._edges.branch),
                    "target": f"{target.namespace}/{target.name}",
                    "reason": reason,
                    "detail": detail,
                    "request": request.name if request else "",
                },
            )
        self._progress.refused.append(
            refusal_of(
                unit,
                branch=self._edges.branch,
                reason=reason,
                detail=detail,
                parked_reason=parked_reason,
                parked_for_ms=parked_for_ms,
            )
        )


def _compared(sweep: SweepEntry | None, work: Work, inventory: Inventory) -> list[TreeEntry]:
    """The files to read ahead for a replay; a window names few objects, whose files are read one by one."""
    if sweep is None or not any(isinstance(change, Upsert) and change.body for change in work.changes):
        return []
    known = {change.unchanged_blob for change in work.changes if isinstance(change, Upsert)}
    refs = inventory.of_type(sweep.type.group, sweep.type.kind)
    paths = {ref.path for ref in refs if ref.path in inventory.files}
    paths = {path for path in paths if inventory.files[path].entry.blob not in known}
    return [inventory.files[path].entry for path in sorted(paths)]


def _is_executable(inventory: Inventory, path: str) -> bool:
    record = inventory.files.get(path)
    return record is not None and record.entry.mode == MODE_EXECUTABLE
