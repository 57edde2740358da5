"""One leased GitTarget: its shards follow what rules, types, gate and recipients say, one by one.

Level-triggered: every look computes the shards that should run and changes only the difference. The
successor of a shard starts after the old one has ended, so two loops never read one scope. A closed gate
stops every shard; no rules are an empty table, which stops every shard too; an unknown type registry
changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import time

import orjson

from reverser.config import Config
from reverser.errors import LostRace, StoreUnavailable, TransientError
from reverser.kinds.model import GitTarget, WatchRule
from reverser.kube.aio import AsyncKube
from reverser.store import AsyncStore
from reverser.store.model import BranchKey, Fence, Gate, Limits, Scope, StreamState, TargetLook, TargetRef
from watchers import metrics
from watchers.appender import Appender, Position
from watchers.board import StreamBoard
from watchers.buffer import ShardBuffer
from watchers.catalog import Catalog
from watchers.hooks import AuthorResolver, Sealer, Unsealed
from watchers.intake import Intake
from watchers.kinds import OwnKinds
from watchers.looks import Looks, until_next
from watchers.noop import NoopCache
from watchers.registry import Registry
from watchers.rules import resolve
from watchers.sealing import Seals
from watchers.shard import Shard
from watchers.shardstate import ShardState, StreamingMemory
from watchers.skipped import SkippedRetry
from watchers.table import ShardSpec, Table, build_table
from watchers.tasks import end
from watchers.terminating import Terminating
from watchers.timing import Timing
from watchers.widening import Widening

log = logging.getLogger(__name__)

SANITIZER_VERSION = 2
"""Raised when the projection changes, so that every shard replays once."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What all targets of a process share."""

    kube: AsyncKube
    store: AsyncStore
    looks: Looks
    config: Config
    kinds: OwnKinds
    catalog: Catalog
    resolver: AuthorResolver | None
    sealer: Sealer
    timing: Timing
    memory: StreamingMemory


@dataclass(frozen=True, slots=True)
class _Known:
    """A table and its inputs."""

    registry: Registry
    rules: tuple[WatchRule, ...]
    running: Mapping[str, str]
    table: Table


@dataclass(frozen=True, slots=True)
class _Printed:
    """The shards of a table with their fingerprints, and the inputs of those."""

    table: Table
    under: tuple[object, ...]
    shards: Mapping[Scope, tuple[ShardSpec, str]]


@dataclass(slots=True)
class _Running:
    shard: Shard
    spec: ShardSpec
    fingerprint: str
    retained: bool = False
    """Its type was not served reliably at the last look."""


class TargetRunner:
    """Runs the shards of one target while its lease is held here."""

    def __init__(
        self,
        env: Environment,
        target: GitTarget,
        fence: Fence,
        *,
        on_lost: Callable[[str], None],
    ) -> None:
        self._env = env
        self.target = target
        self.ref = TargetRef(target.meta.uid, target.meta.namespace, target.meta.name)
        self.fence = fence
        self._on_lost = on_lost
        self._wake = asyncio.Event()
        self._shards: dict[Scope, _Running] = {}
        self._board = StreamBoard(env.store, retry=env.timing.retry_first)
        self._seals = Seals(
            env.store, env.sealer, self.ref, Unsealed("NotReady", "recipients are not known yet")
        )
        self._skips = SkippedRetry(first=env.timing.skipped_first, most=env.timing.skipped_max)
        self._widening = Widening()
        self._sealed_at, self._sealed_spec = -1e9, -1
        self._recipients_read = False
        self._recipients_awaited = False
        self._adopted = False
        self._known: _Known | None = None
        self._printed: _Printed | None = None
        self._regained = False
        self.branch: BranchKey | None = None
        """The branch while the gate is open, else None."""
        self._name = target.meta.key
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins; needs a running event loop."""
        self._tasks = [
            asyncio.create_task(self._run(), name=f"target {self._name}"),
            asyncio.create_task(self._board.run(), name=f"board {self._name}"),
        ]

    def regain(self, fence: Fence) -> None:
        """The lease was won back: shards that ended without it restart from the stored cursor."""
        self.fence = fence
        self._regained = True
        self.wake()

    def wake(self) -> None:
        """Something changed: look soon."""
        self._wake.set()

    async def stop(self, *, drain: bool) -> None:
        """Ends every shard and this runner."""
        await end(self._tasks[:1])
        await self._stop_shards(list(self._shards), drain=drain, forget=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._env.timing.retry_first):
                await self._board.flush()
        await end(self._tasks[1:])
        metrics.WATCHED_TYPES.labels(self.ref.namespace, self.ref.name).set(0)

    async def barrier(self, timeout: float) -> None:
        """Waits until everything that the shards received before now is in the journal, or for the
        timeout.
        """
        barriers = [running.shard.state.buffer.barrier() for running in self._shards.values()]
        if barriers:
            await asyncio.wait(barriers, timeout=timeout)

    async def compare(self) -> None:
        """Restarts shards whose stored cursor is not what was appended here. Raises StoreUnavailable."""
        await asyncio.gather(*(running.shard.compare() for running in self._shards.values()))

    def cursor_ages(self, now: float) -> Iterator[tuple[tuple[str, ...], float]]:
        """Metric labels of every shard, and how long ago its stored cursor last moved."""
        for running in self._shards.values():
            labels = (*metrics.type_labels(running.spec.type), metrics.scope_label(running.spec))
            yield labels, now - running.shard.state.position.moved

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._look()
            except StoreUnavailable as error:
                log.debug("%s waits: %s", self._name, error)
            except LostRace:
                self._on_lost(self.ref.uid)
            except Exception:
                log.exception("%s: a bug while comparing its watches; they continue unchanged", self._name)
            with contextlib.suppress(TimeoutError):
                pause = until_next(asyncio.get_running_loop().time(), self._env.timing.renew)
                if self._recipients_awaited:
                    pause = min(pause, self._env.timing.retry_first)
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _look(self) -> None:
        """One comparison of what should run with what runs."""
        self._recipients_awaited = False
        target = self._env.kinds.targets.get(self.ref.uid)
        if target is None:
            return
        self.target = target
        look = await self._env.looks.look(self.ref.uid)
        gate = look.gate
        if gate is None or not gate.open or gate.branch is None:
            self.branch = None
            await self._stop_shards(list(self._shards), drain=True, forget=True)
            await self._adopt(())
            return
        if not self._env.catalog.registry.ready:
            return
        self.branch = gate.branch
        table = self._table()
        # Also where nothing is sealed: the folder's first commit carries its `.sops.yaml`.
        if target.encryption.enabled or any(spec.sensitive for spec in table.shards):
            await self._recipients()
        await self._apply(table, gate)
        await self._adopt([spec.scope for spec in table.shards])
        await self._marks(look)

    async def _adopt(self, wanted: tuple[Scope, ...] | list[Scope]) -> None:
        if not self._adopted:
            await self._board.adopt(self.ref.uid, wanted)
            self._adopted = True

    def _table(self) -> Table:
        registry = self._env.catalog.registry
        running = {scope.group_resource: one.spec.type.version for scope, one in self._shards.items()}
        rules = tuple(self._env.kinds.rules_of(self.target))
        known = self._known
        # Rules and types rarely change, and every target looks every few seconds.
        if (
            known is not None
            and known.registry is registry
            and known.rules == rules
            and known.running == running
        ):
            return known.table
        claims = [claim for rule in rules for claim in resolve(rule, registry, running).claims]
        sensitive = self._env.config.additional_sensitive_resources
        table = build_table(self.ref.uid, claims, sensitive, running)
        metrics.WATCHED_TYPES.labels(self.ref.namespace, self.ref.name).set(table.types)
        self._known = _Known(registry, rules, running, table)
        return table

    async def _recipients(self) -> None:
        """Reads who may decrypt, and numbers the set; a change makes every sealed shard replay (J20).

        Where the cluster cannot be asked, what was read before stays true.
        """
        now, spec = asyncio.get_running_loop().time(), self.target.meta.generation
        if spec == self._sealed_spec and now - self._sealed_at < self._env.timing.secrets:
            return
        try:
            recipients = await self._env.sealer.recipients(self.target)
        except TransientError as error:
            log.info("%s: the recipients cannot be read now: %s", self._name, error)
            return
        generation = 0
        if not isinstance(recipients, Unsealed):
            numbered = await self._env.store.write_recipients(self.ref.uid, self.fence, recipients)
            if numbered is None:
                raise LostRace(f"{self._name}: the lease is no longer held here")
            generation = numbered
        if not self._recipients_read:
            self._seals.reported.update(await self._env.store.read_unsealed(self.ref.uid))
            self._recipients_read = True
        self._sealed_at, self._sealed_spec = now, spec
        self._seals.recipients, self._seals.generation = recipients, generation

    async def _apply(self, table: Table, gate: Gate) -> None:
        wanted = self._wanted(table, gate)
        unwanted = [scope for scope in self._shards if scope not in wanted]
        await self._stop_shards(unwanted, drain=True, forget=True)
        for scope in unwanted:
            await self._seals.forget(scope)
        changed = [
            scope
            for scope, running in self._shards.items()
            if (replace(running.spec, retained=False), running.fingerprint)
            != (replace(wanted[scope][0], retained=False), wanted[scope][1])
        ]
        await self._stop_shards(changed, drain=True, forget=False)
        await self._stop_shards(self._lost(), drain=False, forget=False)
        for scope, (spec, fingerprint) in wanted.items():
            running = self._shards.get(scope)
            if running is not None:
                if running.retained and not spec.retained:
                    running.shard.wake()
                running.retained = spec.retained
                continue
            obstacle = self._obstacle(spec)
            if obstacle:
                self._board.show(spec, StreamState.BLOCKED, "WatchError", obstacle)
            else:
                self._start_shard(spec, fingerprint)

    def _obstacle(self, spec: ShardSpec) -> str:
        """Why a shard may not start now, or an empty text."""
        kind = spec.scope.group_resource
        if spec.retained:
            return f"{kind} is not served reliably now; it is watched once it is"
        if spec.sensitive and not self._recipients_read:
            # Its cursor names the recipients: without them it would replay, and seal nothing meanwhile.
            self._recipients_awaited = True
            return f"{kind} is watched once the recipients of this target can be read"
        return ""

    def _lost(self) -> list[Scope]:
        """Shards that ended without the lease and may start again; raises LostRace while it is still not
        ours.
        """
        lost = [scope for scope, running in self._shards.items() if running.shard.lost]
        if lost and not self._regained:
            raise LostRace(f"{self._name}: the lease is no longer held here")
        self._regained = False
        return lost

    def _wanted(self, table: Table, gate: Gate) -> Mapping[Scope, tuple[ShardSpec, str]]:
        """The shards that should run, each with its fingerprint."""
        provider = self._env.kinds.provider(self.target.meta.namespace, self.target.provider)
        url = provider.url if provider is not None else ""
        under = (gate.branch, gate.path, url, self._seals.generation, self.target.ignore_fields)
        known = self._printed
        if known is None or known.table is not table or known.under != under:
            shards = {spec.scope: (spec, self._fingerprint(spec, gate, url)) for spec in table.shards}
            known = self._printed = _Printed(table, under, shards)
        return known.shards

    def _fingerprint(self, spec: ShardSpec, gate: Gate, url: str) -> str:
        """Everything under which a cursor of this shard is valid (J4)."""
        parts: Mapping[str, object] = {
            "operations": sorted(spec.operations),
            "namespaces": {name: sorted(ops) for name, ops in sorted(spec.namespace_operations.items())},
            "noise": self._env.config.noise_filter,
            "sanitizer": SANITIZER_VERSION,
            "version": spec.type.version,
            "recipients": self._seals.generation if spec.sensitive else -1,
            "sealed": spec.sensitive,
            "url": url,
            "branch": str(gate.branch),
            "path": gate.path,
        }
        kind = (spec.type.group, spec.type.kind)
        ignored = [item for item in self.target.ignore_fields if (item.group, item.kind) == kind]
        if ignored:  # what is ignored no more must be written, without a change to tell of it
            parts = {
                **parts,
                "ignored": sorted((item.name or "", *sorted(item.pointers)) for item in ignored),
            }
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]

    def _start_shard(self, spec: ShardSpec, fingerprint: str) -> None:
        env, config = self._env, self._env.config
        branch = self.branch
        if branch is None:
            return
        position = Position(
            branch=branch,
            scope=spec.scope,
            fence=lambda: self.fence,
            fingerprint=fingerprint,
            version=spec.type.version,
            limits=Limits(config.target_journal_max_size, config.branch_journal_max_size),
            moved=asyncio.get_running_loop().time(),
        )
        buffer = ShardBuffer()
        show = partial(self._board.show, spec)
        state = ShardState(
            kube=env.kube,
            store=env.store,
            spec=spec,
            target=self.ref,
            position=position,
            buffer=buffer,
            appender=Appender(env.store, position, buffer, on_full=partial(self._full, spec)),
            intake=Intake(
                spec=spec,
                target=self.ref,
                filter_noise=config.noise_filter,
                defaults=partial(env.catalog.defaults, spec.type),
                cache=NoopCache(),
                terminating=Terminating(spec.type),
                resolver=env.resolver,
                seals=self._seals,
            ),
            seals=self._seals,
            timing=env.timing,
            grace=config.author_attribution_grace if env.resolver is not None else 0.0,
            memory=env.memory,
            revision=lambda: env.catalog.registry.revision,
            show=show,
            on_missing=env.catalog.trigger,
        )
        show(StreamState.REPLAYING, "InitialReplay", "")
        shard = Shard(state, name=f"{self._name} {spec.scope.group_resource} {spec.scope.namespace or '*'}")
        self._shards[spec.scope] = _Running(shard, spec, fingerprint)
        shard.start()
        metrics.SET_CHANGES.labels(self.ref.namespace, self.ref.name, "open").inc()

    def _full(self, spec: ShardSpec, full: bool) -> None:
        if full:
            text = "the journal is at its limit; reading pauses until the branch is written"
            self._board.show(spec, StreamState.BLOCKED, "JournalFull", text)
        else:
            self._board.show(spec, StreamState.STREAMING, "AllStreamsReady", "")

    async def _stop_shards(self, scopes: list[Scope], *, drain: bool, forget: bool) -> None:
        running = [(scope, self._shards[scope]) for scope in scopes]
        if running:
            await asyncio.gather(*(item.shard.stop(drain=drain) for _, item in running))
        for scope, _ in running:
            del self._shards[scope]
            metrics.SET_CHANGES.labels(self.ref.namespace, self.ref.name, "close").inc()
            if forget:
                self._board.drop(scope)

    async def _marks(self, look: TargetLook) -> None:
        """Replays what is wanted and not parked (J14), and shows when shards last saw an event."""
        timing = self._env.timing
        again = self._seals.due(
            self._shards,
            now=asyncio.get_running_loop().time(),
            first=timing.sealing_first,
            most=timing.sealing_max,
        )
        again += self._skips.due(
            look.skipped,
            self._shards,
            generation=self.target.meta.generation,
            now=asyncio.get_running_loop().time(),
        )
        widened = self._widening.due(look.kept, self._shards, self.target.prune)
        if again or widened:
            await self._env.store.raise_wanted([*again, *widened])
            self._widening.asked(widened, look.kept)
        marks = look.marks
        now = await self._env.store.time_ms() if any(m.needs_replay for m in marks.values()) else 0
        for scope, running in self._shards.items():
            mark = marks.get(scope)
            state = running.shard.state
            self._board.seen(scope, state.last_event_ms, state.rate.hourly(time()))
            if mark is not None and mark.needs_replay and not mark.is_parked(now):
                running.shard.request_replay(mark.wanted)
