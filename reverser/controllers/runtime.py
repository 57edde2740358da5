"""The controllers as one running thing: caches in, work queues, hints, election around it all.

Two queues, because a GitProvider's check may wait half a minute for a remote that does not answer, and
nothing else may wait for it. What a worker does with an error is decided here and nowhere else: an error
leaves the status as it was and requeues the key with back-off; a bug is logged with its traceback and treated
alike, so that one object cannot stop the loop for the others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from gitwriter.messages import validate_templates
from reverser.backlog import Backlogs
from reverser.controllers.checks import Checks, CheckSettings
from reverser.controllers.election import Election
from reverser.controllers.events import Recorder
from reverser.controllers.metrics import LEADING, PASSES
from reverser.controllers.projection import Projection
from reverser.controllers.reconcile_provider import ProviderReconciler
from reverser.controllers.reconcile_request import RequestReconciler
from reverser.controllers.reconcile_rule import RuleReconciler
from reverser.controllers.reconcile_target import TargetReconciler
from reverser.controllers.status import StatusWriter
from reverser.controllers.wakeups import Key, hinted, rule_key, wake_ups
from reverser.controllers.workqueue import WorkQueue
from reverser.controllers.world import PROVIDERS, REQUESTS, RESOURCES, TARGETS, Cache, Object, World
from reverser.errors import KubeForbidden, KubeNotFound, ReverserError, StoreUnavailable, TransientError
from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path
from reverser.sparing import Sparing
from reverser.store import AsyncStore
from watchers.registry import Registry

WORKERS = 4
PROVIDER_WORKERS = 8
RETIRE_EVERY = 10.0
BACKLOG_EVERY = 5.0
HINT_DELAY = 0.5
"""Seconds for which hints about one target are gathered: its shards change state together."""
HOPELESS_RETRY = 60.0

_log = logging.getLogger(__name__)
_OUTAGE = Sparing(lines=2, seconds=60)
"""What repeats while Redis is away, by kind."""


class WatchedCache(Cache, Protocol):
    """A cache that reports changes."""

    def on_change(self, listener: Callable[[str, dict[str, Any] | None], None]) -> None:
        """Call with (key, object) for everything known and for each change; None = it is gone."""
        ...

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait for the first complete list; whether it is there."""
        ...


class ControllerRuntime:
    """The elected controllers of one process.

    ``caches`` holds a started cache of each of the five resources, ``registry`` answers with the served
    types; both are those of the watcher in this process (``WatcherRuntime.informers``, ``.registry``).
    """

    def __init__(
        self,
        kube: AsyncKube,
        store: AsyncStore,
        config: CheckSettings,
        *,
        caches: Mapping[str, WatchedCache],
        registry: Callable[[], Registry],
        identity: str = "",
    ) -> None:
        self._kube = kube
        self._store = store
        self._config = config
        self._caches = caches
        self._registry = registry
        self._identity = identity or f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
        self._leading = False
        self.world = World(kube, caches)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._provider_queue: WorkQueue[Key] = WorkQueue()
        self._retire_now = asyncio.Event()
        self.projection = Projection()
        """Rows for the history database; somebody must call its ``flush`` from a thread."""

    @property
    def leading(self) -> bool:
        """True while this process runs the controllers."""
        return self._leading

    async def run(self, stop: asyncio.Event) -> None:
        """Campaign, and control while elected, until ``stop``."""
        for resource in RESOURCES:
            self._caches[resource].on_change(self._listener(resource))
        for resource in RESOURCES:
            while not stop.is_set() and not await self._caches[resource].wait_synced(1.0):
                _log.debug("controllers wait for the first list of %s", resource)
        namespace = await self._lease_namespace()
        election = Election(self._kube, namespace=namespace, identity=self._identity)
        await election.run(stop, lambda lost: self._lead(election, lost))

    async def _lease_namespace(self) -> str:
        """The namespace of the Lease; ``default`` where the configured one does not exist."""
        name = self._config.command_namespace
        try:
            await self._kube.get(core_path("namespaces", name=name))
        except KubeNotFound:
            _log.warning("namespace %s does not exist; the controllers' Lease is kept in default", name)
            return "default"
        except (TransientError, KubeForbidden):
            return name
        return name

    def _listener(self, resource: str) -> Callable[[str, dict[str, Any] | None], None]:
        known: dict[str, Object] = {}

        def changed(name: str, new: dict[str, Any] | None) -> None:
            old = known.pop(name, None)
            if new is not None:
                known[name] = new
            if not self._leading:
                return
            for key in wake_ups(resource, old, new, self.world):
                self._add(key)
            if resource == TARGETS and new is None:
                self._retire_now.set()

        return changed

    def _add(self, key: Key, after: float = 0.0) -> None:
        queue = self._provider_queue if key[0] == PROVIDERS else self._queue
        queue.add(key, after)

    def _add_all(self, *resources: str) -> None:
        for resource in resources:
            for name in self.world.keys(resource):
                self._add((resource, name))

    async def _lead(self, election: Election, lost: asyncio.Event) -> None:
        """Everything that runs while this process leads; ends when ``lost`` is set."""
        recorder = Recorder(self._kube, instance=self._identity)
        writer = StatusWriter(self._kube, recorder, lambda: election.held)
        checks = Checks(
            self._kube,
            self._config,
            validate_templates=validate_templates,
            require_lease=writer.require_lease,
        )
        targets = TargetReconciler(
            self.world,
            self._store,
            writer=writer,
            recorder=recorder,
            checks=checks,
            registry=self._registry,
            projection=self.projection,
        )
        providers = ProviderReconciler(
            self.world, self._store, writer=writer, recorder=recorder, checks=checks
        )
        rules = RuleReconciler(self.world, self._store, writer=writer, registry=self._registry)
        requests = RequestReconciler(
            self.world, self._store, kube=self._kube, writer=writer, projection=self.projection
        )

        async def reconcile(key: Key) -> float | None:
            resource, name = key
            if resource == PROVIDERS:
                return await providers.reconcile(name)
            if resource == TARGETS:
                return await targets.reconcile(name)
            if resource == REQUESTS:
                return await requests.reconcile(name)
            return await rules.reconcile(resource, name)

        self._queue, self._provider_queue = WorkQueue(), WorkQueue()
        self._leading = True
        LEADING.set(1)
        self._add_all(*RESOURCES)
        loops = [self._work(self._queue, reconcile) for _ in range(WORKERS)]
        loops += [self._work(self._provider_queue, reconcile) for _ in range(PROVIDER_WORKERS)]
        loops += [self._listen(), self._follow_registry(), self._retire(targets), self._withdraw(requests)]
        loops.append(self._show_backlogs())
        tasks = [asyncio.ensure_future(loop) for loop in loops]
        over = asyncio.ensure_future(lost.wait())
        try:
            ended, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                await task
        finally:
            self._leading = False
            LEADING.set(0)
            for task in (over, *tasks):
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)

    async def _work(self, queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[float | None]]) -> None:
        while True:
            key = await queue.get()
            outcome = "retry"
            try:
                requeue = await reconcile(key)
            except TransientError as error:
                delay = queue.failed(key, error.retry_after)
                if not isinstance(error, StoreUnavailable) or _OUTAGE.left("pass"):
                    _log.info("%s %s: next pass in %.0f s: %s", *key, delay, error)
            except ReverserError as error:
                outcome = "refused"
                delay = queue.failed(key, HOPELESS_RETRY)
                _log.warning("%s %s: next pass in %.0f s: %s", *key, delay, error)
            except Exception:  # noqa: BLE001 - a bug met by one object must not stop the others
                outcome = "bug"
                _log.exception("%s %s: the pass failed; this is a bug", *key)
                queue.failed(key, HOPELESS_RETRY)
            else:
                outcome = "done"
                queue.done(key, requeue)
            PASSES.labels(key[0], outcome).inc()

    async def _listen(self) -> None:
        """Turn hints of the store into passes; while Redis is down, the regular passes suffice."""
        while True:
            try:
                async with self._store.subscribe("target:*", "branch:*", "request:*") as hints:
                    self._add_all(TARGETS, REQUESTS)  # catch up on hints that were missed
                    while True:
                        hint = await hints.get(5.0)
                        for key in hinted(hint.topic, self.world) if hint is not None else ():
                            self._add(key, 0.0 if key[0] == REQUESTS else HINT_DELAY)
            except StoreUnavailable as error:
                if _OUTAGE.left("hints"):
                    _log.info("no hints from Redis now, regular passes continue: %s", error)
                await asyncio.sleep(2.0)

    async def _follow_registry(self) -> None:
        """Reconcile all rules and targets when the served types, or the discovery failures, changed."""
        known: tuple[object, ...] = ()
        while True:
            registry = self._registry()
            if (registry.revision, registry.ready, registry.degraded) != known:
                known = (registry.revision, registry.ready, registry.degraded)
                for rule in self.world.rules():
                    self._add(rule_key(rule))
                self._add_all(TARGETS)
            await asyncio.sleep(1.0)

    async def _show_backlogs(self) -> None:
        """What waits, also where no worker is left to say it; nothing once another process leads."""
        backlogs = Backlogs()
        try:
            while True:
                try:
                    backlogs.show(await self._store.read_backlogs(await self._store.known_branches()))
                except StoreUnavailable as error:
                    _log.debug("what waits is not known now: %s", error)
                await asyncio.sleep(BACKLOG_EVERY)
        finally:
            backlogs.show({})

    async def _withdraw(self, requests: RequestReconciler) -> None:
        """Withdraw, once, the requests that were deleted before this process led."""
        while True:
            try:
                await requests.sweep()
            except ReverserError as error:
                if _OUTAGE.left("withdraw"):
                    _log.info("deleted CommitRequests could not be withdrawn, this is repeated: %s", error)
                await asyncio.sleep(RETIRE_EVERY)
            else:
                await asyncio.Event().wait()

    async def _retire(self, targets: TargetReconciler) -> None:
        """Retire targets that are gone, at once after a deletion and regularly besides; restore gates that
        Redis has lost.
        """
        while True:
            try:
                await targets.retire_missing()
                for name in await targets.compare_gates():
                    self._add((TARGETS, name))
            except ReverserError as error:
                if _OUTAGE.left("retire"):
                    _log.info("deleted targets could not be retired, this is repeated: %s", error)
            try:
                async with asyncio.timeout(RETIRE_EVERY):
                    await self._retire_now.wait()
            except TimeoutError:
                continue
            self._retire_now.clear()
