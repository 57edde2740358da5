"""The writer as small steps, in the manner of ``watcher``."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from gitwriter.windows import (
    ClosedWindow,
    SweepUnit,
    TargetSettings,
    Unit,
    displaced_by,
    passable,
    plan_windows,
)
from reverser.store.model import (
    AttachEntry,
    Fence,
    Intent,
    IntentWindow,
    LeaseKind,
    Operation,
    Outcome,
    OutcomeKind,
    ReplayWish,
    Settlement,
    Stored,
    TargetRef,
)
from tests.store.protocol.reality import Commit, Push, Remote, Tree
from tests.store.protocol.world import BRANCH, LEASE_MS, Steps, Stopped, World


@dataclass
class _Built:
    """A unit and what became of it on the tip that was fetched."""

    unit: Unit
    commit: Commit | None
    held: int = 0


class Writer:
    """One run of ``write_branch``, by one of the processes, which remember what they read before."""

    def __init__(self, world: World, *, now_ahead_ms: int) -> None:
        self.world = world
        self.memory = world.rng.choice(world.memories)
        self.store = world.store
        self.now_ahead_ms = now_ahead_ms
        self.fence = Fence("", 0)

    def steps(self) -> Steps:
        token = self.world.token()
        fence = self.store.acquire_lease(LeaseKind.BRANCH, BRANCH.id, token, LEASE_MS, token)
        if fence is None:
            return
        self.fence = fence
        yield
        try:
            yield from self.run()
        except Stopped:
            return

    def done(self, answer: bool) -> None:
        """False of a fenced script means: stop, and let whoever comes next begin anew."""
        if not answer:
            raise Stopped

    def run(self) -> Steps:
        entries = self.memory.read_journal(self.store, texts=True)
        yield
        boundaries = self.store.read_boundaries(BRANCH)
        yield
        ids = {stored.id for stored in entries}
        if any(ident not in ids for boundary in boundaries for ident in boundary.entry_ids):
            raise Stopped
        plan = plan_windows(
            entries,
            boundaries,
            now_ms=self.store.time_ms() + self.now_ahead_ms,
            settings=self.settings(),
            buffer_limit=1 << 20,
        )
        for boundary in plan.new_boundaries:
            self.done(self.store.store_boundary(BRANCH, self.fence, boundary))
            yield
        for due in plan.attach_due:
            self.settle_plain(due.attach.target, [Stored(due.id, due.attach)], due.kind)
            yield
        by_target: dict[str, list[Stored]] = {}
        for stored in plan.retired:
            by_target.setdefault(stored.entry.target.uid, []).append(stored)
        for gone in by_target.values():
            self.settle_plain(gone[0].entry.target, gone, OutcomeKind.RETIRED)
            yield
        left = yield from self.push_all(list(plan.closed))
        due_at = plan.due_at_ms
        if left:
            due_at = self.store.time_ms() + 5000
        self.done(self.store.release_branch(BRANCH, self.fence, plan.last_id, due_at))

    def settings(self) -> dict[str, TargetSettings]:
        gates = self.store.read_gates()
        return {
            uid: TargetSettings(
                self.world.window_ms,
                gate_open=uid in gates and gates[uid].open,
                present=target.alive,
                path=target.path,
                frozen=target.frozen(),
            )
            for uid, target in self.world.targets.items()
        }

    # -- one attempt after the other

    def push_all(self, units: list[Unit]) -> Generator[None, None, bool]:
        """Attempts until everything that may go has gone; answers whether something waits."""
        while True:
            yield
            tip = self.world.remote.tip
            base = self.store.read_base(BRANCH)
            if base is not None and not _reaches(tip, base):
                self.store.note_rewrite(BRANCH, self.fence, tip.id if tip else "")
                yield
            yield from self.recognise(tip, units)
            stored = {boundary.id for boundary in self.store.read_boundaries(BRANCH)}
            units = [unit for unit in units if unit.boundary.id in stored]
            yield from self.displace(units)
            waiting = {unit.boundary.id for unit in units if self.waits(unit)}
            going = passable(units, waiting)[: self.world.rng.choice([1, 2, 5])]
            if not going:
                return bool(units)
            refused = yield from self.attempt(tip, going)
            if refused:
                return True

    def displace(self, units: list[Unit]) -> Steps:
        """J17: what a predecessor still has waiting is pointless once its successor's first sweep may go."""
        for sweep in [u for u in units if isinstance(u, SweepUnit) and not self.waits(u)]:
            for old in displaced_by(sweep, list(units)):
                if not self.world.targets[old.boundary.target.uid].alive and self.waits(old):
                    self.settle_outcome(old, OutcomeKind.RETIRED)
                    units.remove(old)
                    yield

    def waits(self, unit: Unit) -> bool:
        target = self.world.targets[unit.boundary.target.uid]
        gate = self.store.read_gate(target.ref.uid)
        return target.stalled or (target.alive and not (gate and gate.open))

    def recognise(self, tip: Commit | None, units: list[Unit]) -> Steps:
        """J15: earlier pushes of ours that have arrived are settled, not repeated."""
        by_id = {unit.boundary.id: unit for unit in units}
        for stray in self.store.read_strays(BRANCH):
            if _reaches(tip, stray.new_tip):
                self.done(self.store.note_stray(BRANCH, self.fence, stray.id))
                yield
        for intent in self.store.read_intents(BRANCH):
            if not _reaches(tip, intent.new_tip):
                continue
            stored = {boundary.id for boundary in self.store.read_boundaries(BRANCH)}
            for window in intent.windows:
                unit = by_id.get(window.boundary_id)
                if window.boundary_id in stored and unit:
                    self.settle_unit(
                        unit, window.commit, window.held, tip.id if tip else "", intent_id=intent.id
                    )
                    yield

    def attempt(self, tip: Commit | None, going: list[Unit]) -> Generator[None, None, bool]:
        """Build and push; answers whether the remote refused."""
        built: list[_Built] = []
        head = tip
        for unit in going:
            refusal = self.refusal(unit)
            if refusal:
                self.settle_refused(unit, refusal)
                yield
                continue
            tree, held = self.apply(unit, head.tree if head else {})
            commit = None
            if tree != (head.tree if head else {}):
                commit = head = Commit(head, tree, unit.boundary.id, unit.boundary.request_uid)
            built.append(_Built(unit, commit, held))
        if not built:
            return False
        self.done(self.store.verify_branch(BRANCH, self.fence))
        yield
        if head is tip:
            for item in built:
                self.settle_unit(item.unit, "", item.held, tip.id if tip else "")
                yield
            return False
        assert head is not None
        windows = tuple(
            IntentWindow(
                item.unit.boundary.id,
                item.unit.boundary.entry_ids,
                item.commit.id if item.commit else "",
                item.held,
            )
            for item in built
        )
        intent = Intent(self.world.token(), tip.id if tip else "", head.id, windows)
        self.done(self.store.store_intent(BRANCH, self.fence, intent))
        yield
        push = Push(intent.expected_tip, head)
        self.world.pushes.append(push)
        yield
        if not self.world.remote.land(push):
            refused = self.world.remote.refuses and push.expected == self.world.remote.tip_id
            yield
            if refused:
                # An answer is final here, so it need not be remembered at all.
                told = replace(intent, refused_ms=self.store.time_ms())
                self.done(self.store.note_refusal(BRANCH, self.fence, told, kept_s=0))
                yield
            return refused
        yield
        for item in built:
            commit_id = item.commit.id if item.commit else ""
            self.settle_unit(item.unit, commit_id, item.held, head.id, intent_id=intent.id)
            yield
        return False

    def refusal(self, unit: Unit) -> OutcomeKind | None:
        target = self.world.targets[unit.boundary.target.uid]
        if target.refused:
            return OutcomeKind.REFUSED
        if isinstance(unit, SweepUnit):
            staging = self.store.read_staging(BRANCH, unit.sweep.replay_id)
            if staging is None or len(staging) != unit.sweep.count:
                return OutcomeKind.VOID
        return None

    def apply(self, unit: Unit, before: Tree) -> tuple[Tree, int]:
        """The tree with this unit on top, and how many deletions were held back."""
        target = self.world.targets[unit.boundary.target.uid]
        tree = dict(before)
        if isinstance(unit, ClosedWindow):
            for folded in unit.events:
                key = (target.path, folded.event.object.type.resource, folded.event.object.name)
                tree.pop(key, None)
                if folded.event.operation is not Operation.DELETE:
                    tree[key] = int(folded.event.body)
            return tree, 0
        kind = unit.sweep.type.resource
        staging = self.store.read_staging(BRANCH, unit.sweep.replay_id)
        wanted = {item.name: int(item.body) for item in staging or ()}
        assert wanted == target.cluster.at(kind, int(unit.sweep.resource_version))
        tree.update({(target.path, kind, name): value for name, value in wanted.items()})
        extra = [key for key in tree if key[:2] == (target.path, kind) and key[2] not in wanted]
        if target.brake and extra and not unit.sweep.released_hold:
            return tree, len(extra)
        for key in extra:
            del tree[key]
        return tree, 0

    # -- settling

    def settle_unit(self, unit: Unit, commit: str, held: int, tip: str, intent_id: str = "") -> None:
        kind = OutcomeKind.PUSHED if commit else OutcomeKind.NO_CHANGE
        applied = isinstance(unit, SweepUnit) and not held
        self._settle(
            unit.boundary.target,
            unit.settle_ids,
            OutcomeKind.HELD if held else kind,
            commit=commit,
            boundary_id=unit.boundary.id,
            request_uid=unit.boundary.request_uid,
            intent_id=intent_id,
            applied_scope=unit.sweep.scope if isinstance(unit, SweepUnit) and applied else None,
            applied_fingerprint=unit.sweep.fingerprint if isinstance(unit, SweepUnit) else "",
            new_base=tip,
            pushed=bool(commit),
            **self.weight(unit),
        )

    def settle_refused(self, unit: Unit, kind: OutcomeKind) -> None:
        """J14: what was refused or void is asked for again; a refused path waits for its repair."""
        reason = "PathRefused" if kind is OutcomeKind.REFUSED else ""
        if isinstance(unit, SweepUnit):
            scopes = {unit.sweep.scope}
        else:
            scopes = {folded.event.scope for folded in unit.events}
        wishes = tuple(ReplayWish(scope, reason) for scope in sorted(scopes, key=str))
        self.settle_outcome(unit, kind, wishes=wishes, **self.weight(unit))

    def settle_outcome(self, unit: Unit, kind: OutcomeKind, **more: object) -> None:
        """Settle the entries of a unit with one outcome."""
        self._settle(
            unit.boundary.target,
            unit.settle_ids,
            kind,
            boundary_id=unit.boundary.id,
            request_uid=unit.boundary.request_uid,
            **more,
        )

    @staticmethod
    def weight(unit: Unit) -> dict[str, object]:
        """What lets the script settle a window without reading its entries."""
        weight = unit.weight if isinstance(unit, ClosedWindow) else 0
        return {"attach_id": unit.boundary.attach_id, "event_bytes": weight}

    def settle_plain(self, target: TargetRef, entries: list[Stored], kind: OutcomeKind) -> None:
        attaches = {s.entry.uid for s in entries if isinstance(s.entry, AttachEntry)}
        answers = {
            uid: Outcome(f"r-{uid}", kind, BRANCH, target, request_uid=uid) for uid in sorted(attaches)
        }
        self._settle(target, [s.id for s in entries], kind, attach_outcomes=answers)

    def _settle(
        self, target: TargetRef, ids: Iterator[str] | object, kind: OutcomeKind, **more: object
    ) -> None:
        entry_ids = tuple(ids)  # type: ignore[arg-type]
        outcome = Outcome(
            f"o-{entry_ids[0]}",
            kind,
            BRANCH,
            target,
            commit=str(more.pop("commit", "")),
            request_uid=str(more.pop("request_uid", "")),
        )
        self.done(
            self.store.settle(BRANCH, self.fence, Settlement(outcome, entry_ids, **more))  # type: ignore[arg-type]
        )
        for ident in entry_ids:
            self.world.settled.setdefault(ident, set()).add(kind)


def _reaches(tip: Commit | None, commit_id: str) -> bool:
    return Remote(tip).reaches(commit_id)
