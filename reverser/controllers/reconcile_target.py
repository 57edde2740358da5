"""GitTarget: judge its gates, pass them to the data plane, report what the data plane does.

The order within a pass matters: the gate record goes to the store before any status says so, so a target that
is shown as closed has stopped being planned (J21), and a target that is shown as ready has a journal. A
target that is gone is retired through the journal (J22), also when it went while no controller was running.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reverser.controllers.decide_target import (
    HOLD_ANNOTATION,
    SHOWN_UNSEALED,
    UNREAD,
    Finding,
    NotSealed,
    Observed,
    decide_target,
    validate,
)
from reverser.controllers.events import Happening, Recorder
from reverser.controllers.overlap import Rival, elect
from reverser.controllers.projection import Projection
from reverser.controllers.reconcile_rule import resolution_of
from reverser.controllers.retention import claimed_scopes, counts_of, still_skipped
from reverser.controllers.status import StatusWriter, rfc3339, rfc3339_ms
from reverser.controllers.streams import Claimed, Streams, roll_up
from reverser.controllers.world import TARGETS, World
from reverser.errors import StoreUnavailable
from reverser.kinds.model import GitTarget
from reverser.kinds.parse import parse_git_target
from reverser.kinds.paths import path_problem
from reverser.store import AsyncStore
from reverser.store.model import BranchKey, Gate, RetireEntry, TargetRef, digest_name
from reverser.trust.urls import canonical_url
from watchers.registry import Registry

DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class EncryptionReport:
    """The verdict on the encryption gate, and Events for generated keys."""

    finding: Finding
    happenings: tuple[Happening, ...] = ()
    stands: float = math.inf
    """Seconds until the finding must be judged again."""


class TargetChecks(Protocol):
    """The checks of a GitTarget that need more than its spec."""

    async def check_encryption(self, target: GitTarget) -> EncryptionReport:
        """Judge ``spec.encryption``, generating a missing key where asked to. Raises TransientError."""
        ...

    def check_placement(self, target: GitTarget) -> str:
        """What is wrong with ``spec.placement``; empty when nothing is."""
        ...

    def keep_targets(self, uids: Set[str]) -> None:
        """Forget targets that are not among ``uids``."""
        ...


class TargetReconciler:
    """Reconciles one GitTarget, and retires those that are gone."""

    def __init__(
        self,
        world: World,
        store: AsyncStore,
        *,
        writer: StatusWriter,
        recorder: Recorder,
        checks: TargetChecks,
        registry: Callable[[], Registry],
        projection: Projection,
    ) -> None:
        self._world = world
        self._store = store
        self._writer = writer
        self._recorder = recorder
        self._checks = checks
        self._registry = registry
        self._projection = projection
        self._names: dict[str, tuple[str, str]] = {}
        self._gates: dict[str, Gate] = {}
        self._election: tuple[list[tuple[str, ...]], dict[tuple[str, str], str], dict[str, Rival]] = (
            [],
            {},
            {},
        )
        self._told: dict[str, frozenset[Happening]] = {}

    async def reconcile(self, key: str) -> float | None:
        """One pass; returns the seconds until the next one (None = the object is gone)."""
        obj = self._world.raw(TARGETS, key)
        if obj is None:
            return None
        target = parse_git_target(obj)
        uid = target.meta.uid
        self._names[uid] = (target.meta.namespace, target.meta.name)
        provider = await self._world.provider(target.meta.namespace, target.provider)
        validated = validate(
            target,
            provider,
            rival=self._rival(target),
            placement_error=self._checks.check_placement(target),
        )
        encryption, stands = None, math.inf
        if validated.ok:
            report = await self._checks.check_encryption(target)
            encryption, stands = report.finding, report.stands
            for happening in report.happenings:
                await self._recorder.record(obj, happening)
        worker_error = await self._apply_gate(target, validated, encryption)
        is_open = validated.ok and encryption is not None and encryption.ok and not worker_error
        observed = UNREAD
        if not worker_error:
            observed = await self._observe(target, streams=is_open)
            await self._tell(obj, uid, observed)
            await self._release_holds(target)
        plan = decide_target(
            target,
            validated=validated,
            encryption=encryption,
            worker_error=worker_error,
            observed=observed,
            now=rfc3339(),
        )
        await self._writer.write(TARGETS, obj, plan)
        status = self._writer.last_written(uid) or obj.get("status") or {}
        self._projection.target(target, status, url=provider.url if provider is not None else "")
        return plan.requeue if plan.requeue is None else min(plan.requeue, stands)

    async def _tell(self, obj: Mapping[str, Any], uid: str, observed: Observed) -> None:
        """One Event for each new remark on the folder, and for each object that turned out unsealable."""
        remarks = observed.path.remarks if observed.path is not None else ()
        happenings = [Happening("FolderNeedsAttention", text, warning=True) for text in remarks]
        happenings += [
            Happening("NotSealed", f"not written: {text}", warning=True)
            for text in observed.unsealed[:SHOWN_UNSEALED]
        ]
        for happening in happenings:
            if happening not in self._told.get(uid, ()):
                await self._recorder.record(obj, happening)
        self._told[uid] = frozenset(happenings)

    def _rival(self, target: GitTarget) -> Rival | None:
        """The owner that this target lost to. Elected anew only when what decides it has changed, because
        each look at each target asks.
        """
        repositories = {
            (provider.meta.namespace, provider.meta.name): canonical_url(provider.url)
            for provider in self._world.providers()
        }
        targets = self._world.targets()
        decisive: list[tuple[str, ...]] = [
            (t.meta.uid, t.meta.key, t.meta.creation_timestamp, t.provider, t.branch, t.path) for t in targets
        ]
        if self._election[:2] != (decisive, repositories):
            self._election = (decisive, repositories, elect(targets, repositories))
        return self._election[2].get(target.meta.uid)

    async def _apply_gate(self, target: GitTarget, validated: Finding, encryption: Finding | None) -> str:
        """Write the gate record where it changed; answers why that was not possible, or nothing."""
        uid = target.meta.uid
        branch = self._world.branch_of(target)
        wanted_open = validated.ok and encryption is not None and encryption.ok
        reason = "" if wanted_open else validated.reason if encryption is None else encryption.reason
        gate = Gate(
            open=wanted_open,
            generation=target.meta.generation,
            branch=branch,
            path="" if path_problem(target.path) else target.path,
            reason=reason,
        )
        try:
            stored = await self._store.read_gate(uid)
            self._writer.require_lease()
            if wanted_open:
                await self._store.open_journal(branch)
            if wanted_open or stored is not None:
                self._gates[uid] = gate
            if stored == gate or (stored is None and not wanted_open):
                return ""
            await self._store.write_gate(uid, gate)
            if wanted_open and (stored is None or not stored.open):
                await self._store.wake_branch(branch)
        except StoreUnavailable as error:
            return str(error)
        return ""

    async def _observe(self, target: GitTarget, *, streams: bool) -> Observed:
        uid = target.meta.uid
        branch = self._world.branch_of(target)
        pushed = await self._store.last_push(uid)
        holds = sorted((await self._store.read_holds(uid)).values(), key=lambda hold: hold.since_ms)
        held = sum(hold.held for hold in holds)
        unsealed = await self._store.read_unsealed(uid)
        skipped, kept = await self._store.read_skipped(uid), None
        claims = self._claims(target) if streams else None
        if claims is not None:
            watched = claimed_scopes(claims)
            skipped = still_skipped(skipped, watched)
            kept = counts_of(await self._store.read_kept(uid), watched)
        return Observed(
            streams=await self._streams(target, claims) if streams else roll_up(()),
            path=await self._store.read_path_verdict(uid),
            skipped=skipped,
            kept=kept,
            health=await self._store.read_branch_health(branch),
            last_push=rfc3339_ms(pushed) if pushed else "",
            held=tuple(hold.outcome_id for hold in holds),
            held_message=f"{held} deletion(s) by a sweep are held, because they are unusually many",
            unsealed=tuple(
                NotSealed(digest_name(field), reason) for field, reason in sorted(unsealed.items())
            ),
        )

    def _claims(self, target: GitTarget) -> list[Claimed] | None:
        """What the rules of a target select; None while the API server was not asked yet."""
        registry = self._registry()
        if not registry.ready:
            return None
        resolutions = [resolution_of(rule, registry) for rule in self._world.rules_of(target)]
        return [claim for found in resolutions if found is not None for claim in found.claims]

    async def _streams(self, target: GitTarget, claims: list[Claimed] | None) -> Streams:
        streams = roll_up((await self._store.read_streams(target.meta.uid)).values(), claims)
        if claims is None or streams.reason != "NoResolvedTypes":
            return streams
        named = self._world.rules_of(target)
        do = "ResourcesResolved of its rules says why" if named else "no rule names this target: create one"
        return replace(streams, message=f"{streams.message}; {do}")

    async def _release_holds(self, target: GitTarget) -> None:
        """Let go what the annotation names (J23); an id that holds nothing (any more) is ignored."""
        named = target.meta.annotations.get(HOLD_ANNOTATION, "").strip()
        if not named:
            return
        self._writer.require_lease()
        held = {hold.outcome_id for hold in (await self._store.read_holds(target.meta.uid)).values()}
        for outcome_id in {part.strip() for part in named.split(",")} & held:
            await self._store.release_hold(target.meta.uid, outcome_id)

    async def compare_gates(self) -> set[str]:
        """Keys of targets whose gate record is not the one that was decided here: Redis lost its memory, or
        an earlier leader that was paused wrote once more.
        """
        before = dict(self._gates)
        gates = await self._store.read_gates()
        lost = {uid for uid, gate in before.items() if gates.get(uid) != gate}
        return {target.meta.key for target in self._world.targets() if target.meta.uid in lost}

    async def retire_missing(self) -> None:
        """Retire every target that has a gate record but is gone, and forget those that are settled.

        The gate record itself is the memory: it turns to ``Deleted`` when the retire entry is in the
        journal, and goes when the journal holds nothing of the target any more.
        """
        gates = await self._store.read_gates()
        cached = {target.meta.uid for target in self._world.targets()}
        self._projection.living(cached)
        self._checks.keep_targets(cached)
        for uid in (self._names.keys() | self._told.keys()) - cached - gates.keys():
            self._names.pop(uid, None)
            self._told.pop(uid, None)
        missing = {uid: gate for uid, gate in gates.items() if uid not in cached}
        if not missing:
            return
        living = await self._world.living_targets()
        for uid, gate in missing.items():
            if uid in living:
                continue
            self._writer.forget(uid)
            self._gates.pop(uid, None)
            self._told.pop(uid, None)
            self._writer.require_lease()
            if gate.branch is None:
                await self._store.drop_gate(uid)
            elif gate.reason != DELETED:
                await self._retire(uid, gate, gate.branch)
            elif not (await self._store.read_unsettled_bytes(gate.branch)).get(uid):
                await self._store.forget_target(uid)
                await self._store.drop_gate(uid)

    async def _retire(self, uid: str, gate: Gate, branch: BranchKey) -> None:
        closed = Gate(False, gate.generation, branch, gate.path, DELETED)
        namespace, name = self._names.pop(uid, (branch.namespace, ""))
        await self._store.append_retire(branch, RetireEntry(TargetRef(uid, namespace, name)))
        await self._store.write_gate(uid, closed)
