"""One attempt at writing closed windows (J15): build on exactly the tip that was seen, push, settle.

Every step with an outside effect is preceded by a check of the fence. An attempt keeps nothing: whatever goes
wrong, the next one starts over from the journal. Earlier pushes are recognised by the intents stored before
them.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

from gitwriter import metrics
from gitwriter.base import Base, arrived, fetch_base, listing, was_rewritten
from gitwriter.building import Builder, Progress
from gitwriter.edges import AttemptEdges
from gitwriter.manifests import PLACEMENT_SKIPS, Inventory, WritePlan
from gitwriter.outcomes import Built, Written, author_kind, settlement_of
from gitwriter.readmitted import write_verdict
from gitwriter.skips import follow, newly
from gitwriter.units import Work, sweep_of
from gitwriter.verdicts import contents_of, obstacle_verdict, verdict_of
from gitwriter.windows import Unit
from reverser.errors import LostRace, RemoteRejected, ReverserError
from reverser.sparing import Sparing
from reverser.store.model import Intent, IntentWindow, PathVerdict, SkippedObject, TargetRef

logger = logging.getLogger(__name__)
_LINES = Sparing(lines=10, seconds=60)


class Attempt:
    """One attempt on one branch."""

    def __init__(self, edges: AttemptEdges) -> None:
        self._edges = edges
        self._store = edges.store
        self._branch = edges.branch

    def prepare(self, units: Sequence[Unit]) -> tuple[Base, set[str]]:
        """Fetch, settle earlier pushes that arrived, detect a rewritten history.

        Returns the base and the boundary ids that are settled now. Raises the classes of ``fetch_base``.
        """
        edges, name = self._edges, self._branch.branch
        edges.lease.check()
        with listing(edges.repository, edges.remote) as refs:
            edges.repository.start_reader()
            intents = self._store.read_intents(self._branch)
            strays = self._store.read_strays(self._branch)
            known = self._store.read_base(self._branch)
            base = fetch_base(edges.repository, edges.remote, name, refs=refs())
        by_boundary = {unit.boundary.id: unit for unit in units}
        settled: set[str] = set()
        for intent in intents:
            if arrived(edges.repository, edges.remote, intent, branch=name, base=base):
                logger.info("an earlier push has reached the remote", extra={"branch": str(self._branch)})
                settled |= self._settle_arrived(intent, by_boundary, base)
        for stray in strays:
            if arrived(edges.repository, edges.remote, stray, branch=name, base=base):
                logger.warning(
                    "an abandoned push has reached the remote late; every type is replayed",
                    extra={"branch": str(self._branch)},
                )
                self._store.note_stray(self._branch, edges.lease.fence, stray.id)
        if was_rewritten(edges.repository, edges.remote, known, branch=name, base=base):
            logger.warning(
                "the remote's history no longer holds the last known tip; every type is replayed",
                extra={"branch": str(self._branch), "known": known, "tip": base.tip or ""},
            )
            self._store.note_rewrite(self._branch, edges.lease.fence, base.tip or "")
        return base, settled

    def write(self, units: Sequence[Unit], base: Base) -> int:
        """Build, push and settle; returns the number of commits that reached the remote.

        Units whose folder overlaps another's that was just written are left for the next attempt.

        Raises LostRace, RemoteRejected, RemoteUnavailable, and the errors of reading keys.
        """
        edges = self._edges
        progress = Progress(base=base.start, start=base.start)
        builder = Builder(edges, progress)
        with edges.repository.session() as session:
            for unit in units:
                if not builder.readable(unit):
                    break
                builder.build(session, unit)
        edges.lease.check()
        self._note_kept(progress.built)
        made = [built for built in progress.built if built.commit]
        opened = not made and self._opens(progress.built, base)
        arrives = bool(made) or opened
        if arrives:
            self._push(progress.built, base=base, tip=progress.start or "")
        for settlement in progress.refused:
            self._store.settle(self._branch, edges.lease.fence, settlement)
        tip = (progress.start if arrives else base.tip) or ""
        self._settle(progress.built, tip=tip, arrived=arrives, opened=opened)
        if progress.start is not None:
            for root, inventory in progress.inventories.items():
                edges.shelf.put(edges.repository, root=root, commit=progress.start, inventory=inventory)
                # our own commits hold no symbolic link, and the base was checked
                edges.shelf.note_direct(edges.repository, root=root, commit=progress.start)
        return len(made)

    def rescan(self, root: str, base: Base, *, before: PathVerdict | None = None) -> PathVerdict:
        """The verdict on a target's folder as it is on the remote now; writes nothing.

        ``before`` is the refusal that stands while the folder is as it was, though its structure is fine.
        """
        progress = Progress(base=base.start, start=base.start)
        builder = Builder(self._edges, progress)
        obstacle = builder.obstacle_on(root)
        if obstacle is not None:
            return obstacle_verdict(obstacle, now_ms=self._store.time_ms())
        inventory, now = builder.look(root).seen_from(progress.trees[root]), self._store.time_ms()
        verdict = verdict_of(inventory, now_ms=now)
        if verdict.accepted and before is not None and before.contents == contents_of(inventory):
            return replace(before, checked_ms=now)
        return verdict

    def _note_kept(self, built: Sequence[Written]) -> None:
        """Documents that the prune mode keeps, noted before the push: see ``reverser.store.kept``."""
        for item in built:
            if not item.kept:
                continue
            target = item.unit.boundary.target
            fresh = self._store.note_kept(self._branch, self._edges.lease.fence, target.uid, item.kept)
            if fresh is None:
                self._edges.lease.check()
            elif fresh:
                labels = (item.kept[0].mode, target.namespace, target.name)
                metrics.KEPT.labels(*labels).inc(fresh)

    def _opens(self, built: Sequence[Written], base: Base) -> bool:
        """Whether a missing branch is made without a commit: the default branch, where it begins, holds the
        objects already, and a branch that does not exist shows nothing of them. One that was written before
        and is gone was deleted by somebody; it waits for a change.
        """
        if base.tip is not None or base.start is None or not any(item.stands for item in built):
            return False
        return not self._store.read_branch(self._branch).last_push_ms

    def _push(self, built: Sequence[Written], *, base: Base, tip: str) -> None:
        edges = self._edges
        intent = Intent(
            id=secrets.token_hex(8),
            expected_tip=base.tip or "",
            new_tip=tip,
            windows=tuple(
                IntentWindow(
                    item.unit.boundary.id,
                    item.unit.settle_ids,
                    item.commit,
                    held=item.held,
                )
                for item in built
            ),
        )
        if not self._store.store_intent(self._branch, edges.lease.fence, intent):
            raise LostRace("the push could not be announced: its windows or the lease have changed")
        labels = metrics.branch_labels(self._branch)
        began = time.monotonic()
        try:
            edges.repository.push(edges.remote, branch=self._branch.branch, new=tip, expected=base.tip)
        except ReverserError as error:
            metrics.PUSH_ATTEMPTS.labels(*labels, type(error).__name__).inc()
            if isinstance(error, RemoteRejected):
                refused = replace(intent, refused_ms=self._store.time_ms())
                self._store.note_refusal(self._branch, edges.lease.fence, refused)
            raise
        metrics.PUSH_ATTEMPTS.labels(*labels, "pushed").inc()
        metrics.PUSH_SECONDS.labels(*labels).observe(time.monotonic() - began)
        metrics.PUSHES.inc()
        logger.info(
            "pushed",
            extra={
                "branch": str(self._branch),
                "commits": sum(1 for item in built if item.commit),
                "tip": tip[:12],
            },
        )

    def _settle(self, built: Sequence[Written], *, tip: str, arrived: bool, opened: bool) -> None:
        edges = self._edges
        for item in built:
            settlement = replace(item.settlement, new_base=tip, arrived=arrived)
            if opened and item.stands:
                settlement = replace(settlement, pushed=True)
            if not self._store.settle(self._branch, edges.lease.fence, settlement):
                edges.lease.check()
            self._account(item)

    def _account(self, item: Written) -> None:
        """Metrics, and what status shows of the folder."""
        labels = metrics.branch_labels(self._branch)
        boundary = item.unit.boundary
        metrics.WINDOWS.labels(*labels, boundary.reason.value).inc()
        if item.commit:
            metrics.COMMITS.labels(*labels, author_kind(boundary.author)).inc()
            metrics.OBJECTS_WRITTEN.inc(item.counted)
        sweep = sweep_of(item.unit)
        if sweep is not None:
            metrics.SWEPT.labels(sweep.type.group, sweep.type.version, sweep.type.resource).inc(item.swept)
        for code, count in item.codes.items():
            metrics.SKIPPED.labels(code).inc(count)
            if code in PLACEMENT_SKIPS:
                metrics.PLACEMENT_REFUSALS.labels(code).inc(count)
        target = boundary.target
        for placement, count in item.placements.items():
            metrics.PLACEMENTS.labels(*placement, target.namespace, target.name).inc(count)
        uid = boundary.target.uid
        before = self._store.read_skipped(uid)
        skipped = follow(before, item.news)
        if skipped != before:
            self._store.write_skipped(uid, skipped)
            self._tell(boundary.target, newly(before, skipped))
        verdict = verdict_of(item.after, now_ms=self._store.time_ms(), remarks=item.remarks)
        write_verdict(self._store, uid, verdict)

    def _tell(self, target: TargetRef, skipped: Sequence[SkippedObject]) -> None:
        """Log newly skipped objects, a bounded number of lines: the status lists them all."""
        for item in skipped:
            left = _LINES.left((target.uid, item.code))
            if left:
                logger.warning(
                    "an object is not written",
                    extra={
                        "branch": str(self._branch),
                        "target": f"{target.namespace}/{target.name}",
                        "object": item.title,
                        "reason": item.code,
                        "detail": item.message,
                    },
                )

    def _settle_arrived(self, intent: Intent, units: dict[str, Unit], base: Base) -> set[str]:
        """Settle the windows of a push that reached the remote, with the commits that are really there."""
        settled: set[str] = set()
        for window in intent.windows:
            unit = units.get(window.boundary_id)
            if unit is None:
                continue
            built = Built(
                unit=unit,
                work=Work(()),
                plan=WritePlan(Inventory(), held=window.held),
                commit=window.commit,
                message=unit.boundary.message,
                held=window.held > 0,
            )
            settlement = settlement_of(built, branch=self._branch, base=base.tip or "", arrived=True)
            self._store.settle(self._branch, self._edges.lease.fence, settlement)
            settled.add(window.boundary_id)
        return settled
