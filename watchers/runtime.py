"""The watcher process: caches, discovery, leases, and one runner per target that is held here.

Start-up order: the five kinds and the API catalog are known before the first lease is requested, so that no
table is built from half of the rules. Shutdown order: runners drain into the journal, leases are released,
caches stop; what could not be appended in time comes again from the stored cursors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any

from reverser.config import Config
from reverser.errors import StoreUnavailable
from reverser.kinds.model import CommitRequest
from reverser.kinds.sensitive import unmatched
from reverser.kube.aio import AsyncKube
from reverser.kube.paths import resource_path
from reverser.store import AsyncStore
from reverser.store.model import Fence
from watchers.ages import CursorAges
from watchers.attach import Attacher
from watchers.catalog import Catalog
from watchers.defaults import Node, schema_tables
from watchers.facts import read_facts
from watchers.hooks import AuthorResolver, NullSealer, Sealer
from watchers.informers import Informer
from watchers.kinds import OwnKinds
from watchers.leasing import LeaseManager
from watchers.looks import Looks
from watchers.registry import Registry
from watchers.serverwatch import ServerWatch
from watchers.shardstate import StreamingMemory
from watchers.target import Environment, TargetRunner
from watchers.tasks import end
from watchers.timing import Timing

log = logging.getLogger(__name__)

_CRDS = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
DEFINITIONS_WITHIN = 5.0
"""Seconds that start-up waits for the definitions, which hold the defaults of custom types."""
_API_SERVICES = resource_path("apiregistration.k8s.io", "v1", "apiservices")


class WatcherRuntime:
    """``await runtime.run(stop)`` is the whole life of a watcher.

    ``resolver`` None means that attribution is off; ``sealer`` None that nothing can be sealed.
    """

    def __init__(
        self,
        kube: AsyncKube,
        store: AsyncStore,
        config: Config,
        resolver: AuthorResolver | None = None,
        sealer: Sealer | None = None,
        *,
        timing: Timing | None = None,
        ident: str = "",
    ) -> None:
        self.ident = ident or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._store = store
        self._timing = timing or Timing()
        self._runners: dict[str, TargetRunner] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self.catalog = Catalog(kube, timing=self._timing, on_change=self._wake_all)
        self.kinds = OwnKinds(kube, timing=self._timing, changed=self._wake_all, requested=self._on_request)
        self._env = Environment(
            kube=kube,
            store=store,
            looks=Looks(store),
            config=config,
            kinds=self.kinds,
            catalog=self.catalog,
            resolver=resolver,
            sealer=sealer or NullSealer(),
            timing=self._timing,
            memory=StreamingMemory(),
        )
        self._attacher = Attacher(self._env, self._find)
        self._leases = LeaseManager(
            store,
            self,
            lambda: self.kinds.targets,
            ident=self.ident,
            timing=self._timing,
            info=lambda: {"targets": len(self._runners), "pid": os.getpid()},
        )
        self._ages = CursorAges()
        self._definitions = Informer(
            kube, _CRDS, schema_tables, on_change=self._on_definition, timing=self._timing
        )
        self._services = Informer(
            kube, _API_SERVICES, _version, on_change=self._on_api_service, timing=self._timing
        )
        self._hints = (self._definitions, self._services)

    @property
    def registry(self) -> Registry:
        """The served types as they are known now; others may explain rules with it."""
        return self.catalog.registry

    @property
    def informers(self) -> Mapping[str, Informer[dict[str, Any]]]:
        """Raw caches of the five kinds by plural name, to be shared."""
        return self.kinds.informers

    @property
    def held(self) -> tuple[str, ...]:
        """UIDs of the targets that are held here."""
        return tuple(self._runners)

    async def run(self, stop: asyncio.Event) -> None:
        """Works until ``stop`` is set, then drains and gives everything back."""
        sealed = sorted({"secrets", *self._env.config.additional_sensitive_resources})
        log.info("types that are only written sealed: %s", ", ".join(sealed))
        self.kinds.start()
        for informer in self._hints:
            informer.start()
        tasks = [
            asyncio.create_task(self.catalog.run(), name="catalog"),
            asyncio.create_task(self._lease_loop(), name="leases"),
            asyncio.create_task(self._listen(), name="hints"),
            asyncio.create_task(self._attach_loop(), name="attach"),
            asyncio.create_task(self._server_loop(), name="server"),
        ]
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            await self._end([*tasks, stopped])

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        await end(tasks)
        await self._attacher.stop()
        runners, self._runners = list(self._runners.values()), {}
        if runners:
            await asyncio.gather(*(runner.stop(drain=True) for runner in runners))
        await self._leases.release_all()
        await self.kinds.stop()
        for informer in self._hints:
            await informer.stop()

    async def _lease_loop(self) -> None:
        await self.kinds.wait_synced()
        await self._definitions.wait_synced(DEFINITIONS_WITHIN)
        while not self.registry.ready:
            await asyncio.sleep(self._timing.retry_first / 4)
        for entry in unmatched(self._env.config.additional_sensitive_resources, self.registry.names):
            log.warning(
                "REVERSER_ADDITIONAL_SENSITIVE_RESOURCES: %s; correct it, or its objects are written in "
                "clear text",
                entry,
            )
        await self._leases.run()

    async def _attach_loop(self) -> None:
        """Looks at all requests now and then, because their targets come, go, and open their gates; and at
        the cursors of all shards.
        """
        while True:
            now = asyncio.get_running_loop().time()
            requests = list(self.kinds.requests)
            for request in requests:
                self._attacher.look(request)
            await self._attacher.forget({request.meta.uid for request in requests})
            self._ages.show(age for runner in self._runners.values() for age in runner.cursor_ages(now))
            await asyncio.sleep(self._timing.claim)

    async def _server_loop(self) -> None:
        """Finds appends that a Redis fail-over or restart lost."""
        watch = ServerWatch(self._store)
        while True:
            try:
                if await watch.doubtful():
                    await asyncio.gather(*(runner.compare() for runner in self._runners.values()))
            except StoreUnavailable as error:
                log.debug("cursors were not compared: %s", error)
            await asyncio.sleep(self._timing.claim)

    async def _listen(self) -> None:
        """Hints only make a look come sooner; every runner looks by itself every few seconds."""
        while True:
            try:
                async with self._store.subscribe("gate", "wanted:*") as hints:
                    while True:
                        hint = await hints.get(self._timing.renew)
                        if hint is None:
                            continue
                        if hint.topic == "gate":
                            self._wake_all()
                            continue
                        runner = self._runners.get(hint.topic.partition(":")[2])
                        if runner is not None:
                            runner.wake()
            except StoreUnavailable as error:
                log.debug("hints wait: %s", error)
                await asyncio.sleep(self._timing.retry_first)

    def _wake_all(self) -> None:
        for runner in self._runners.values():
            runner.wake()

    def _on_definition(self, key: str, value: Mapping[str, Node | None] | None) -> None:
        self.catalog.definition_changed(key, value)

    def _on_api_service(self, key: str, value: str | None) -> None:
        del key, value
        self.catalog.trigger()

    def _on_request(self, request: CommitRequest) -> None:
        self._attacher.look(request)

    def _find(self, request: CommitRequest) -> TargetRunner | None:
        for runner in self._runners.values():
            if (runner.ref.namespace, runner.ref.name) == (request.meta.namespace, request.target_name):
                return runner
        return None

    def took(self, uid: str, fence: Fence) -> bool:
        """A target is held here now; False when it has gone meanwhile."""
        target = self.kinds.targets.get(uid)
        if target is None:
            return False
        log.info("watching for GitTarget %s", target.meta.key)
        runner = TargetRunner(self._env, target, fence, on_lost=self._on_lost)
        self._runners[uid] = runner
        runner.start()
        return True

    def renewed(self, uid: str, fence: Fence) -> None:
        """Nobody else held the lease in between: continue under its new number."""
        runner = self._runners.get(uid)
        if runner is not None:
            runner.regain(fence)

    async def gave(self, uid: str, *, drain: bool) -> None:
        """The target must stop here."""
        runner = self._runners.pop(uid, None)
        if runner is not None:
            await runner.stop(drain=drain)

    def _on_lost(self, uid: str) -> None:
        task = asyncio.create_task(self._lost(uid))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _lost(self, uid: str) -> None:
        with contextlib.suppress(StoreUnavailable):
            await self._leases.lost(uid)


def _version(obj: dict[str, Any]) -> str:
    return read_facts(obj).resource_version
