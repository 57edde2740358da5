"""Keeps the type registry fresh: a tick every 30 s, and at once when definitions or API services change.

Bursts of triggers become one refresh after a short pause, and only one refresh runs at a time. A refresh that
fails as a whole changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from reverser.errors import ReverserError
from reverser.kube.aio import AsyncKube
from reverser.store.model import TypeRef
from watchers import metrics
from watchers.defaults import Node, builtin_table
from watchers.discovery import scan
from watchers.lifecycle import Lives, Transition, advance
from watchers.registry import Registry, TypeKey, Verdict, judge
from watchers.timing import Timing

log = logging.getLogger(__name__)


class Catalog:
    """The registry as it is now, with the loop that refreshes it."""

    def __init__(self, kube: AsyncKube, *, timing: Timing, on_change: Callable[[], None]) -> None:
        self._kube = kube
        self._timing = timing
        self._on_change = on_change
        self._trigger = asyncio.Event()
        self._tables: dict[str, Mapping[str, Node | None]] = {}
        """Defaults by version, by name of the definition."""
        self._failing = False
        self._lives = Lives()
        self._refused: Mapping[TypeKey, str] = {}
        """The refusals that were logged last."""
        self._first: frozenset[TypeKey] = frozenset()
        """Types of the first catalog: one line logged their number, so they are not logged one by one."""
        self.registry = Registry()

    def trigger(self) -> None:
        """The API surface changed: refresh soon."""
        self._trigger.set()

    def definition_changed(self, name: str, tables: Mapping[str, Node | None] | None) -> None:
        """A CustomResourceDefinition is there with these defaults by version, or gone (None)."""
        if tables is None:
            self._tables.pop(name, None)
        else:
            self._tables[name] = tables
        self.trigger()

    async def run(self) -> None:
        """Refreshes until cancelled."""
        while True:
            await self.refresh()
            if await self._triggered(self._pause()):
                await asyncio.sleep(self._timing.debounce)
            self._trigger.clear()

    async def _triggered(self, seconds: float) -> bool:
        """Waits that long for a trigger, activating types that settle meanwhile; whether a trigger came."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (now := loop.time()) < end:
            settled = self._lives.next_settled(self._timing.settle)
            try:
                async with asyncio.timeout_at(end if settled is None else min(end, max(settled, now))):
                    await self._trigger.wait()
                return True
            except TimeoutError:
                self._tell(self.registry, loop.time())
        return False

    def _pause(self) -> float:
        """Seconds until the next refresh: at the latest when the grace of a missing type ends."""
        if not self.registry.ready:
            return self._timing.retry_first
        expiry = self.registry.next_expiry
        left = expiry - asyncio.get_running_loop().time() if expiry is not None else self._timing.discovery
        return min(self._timing.discovery, max(left, self._timing.debounce))

    async def refresh(self) -> None:
        """Reads discovery once and judges it."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            facts = await scan(self._kube)
        except ReverserError as error:
            metrics.CATALOG_REFRESH.labels("error").inc()
            if not self._failing:
                log.warning("the API catalog cannot be read, the types known so far stay: %s", error)
            self._failing = True
            return
        finally:
            metrics.CATALOG_SECONDS.observe(loop.time() - started)
        if self._failing:
            log.info("the API catalog can be read again")
        self._failing = False
        now = loop.time()
        before, self.registry = self.registry, judge(self.registry, facts, now)
        changed = before.revision != self.registry.revision
        metrics.CATALOG_REFRESH.labels("changed" if changed else "unchanged").inc()
        self._report(before)
        self._tell(before, now)
        if changed:
            self._on_change()

    def _report(self, before: Registry) -> None:
        """Logs edges only."""
        now = self.registry
        if now.ready and not before.ready:
            log.info("API catalog ready: %d types, %d followable", len(now.records), len(now.live))
        for pair in sorted(now.degraded - before.degraded):
            log.warning("discovery of %s is degraded; its types keep their last facts", "/".join(pair))
        for pair in sorted(before.degraded - now.degraded):
            log.info("discovery of %s recovered", "/".join(pair))
        refused = {key: r.summary for key, r in now.records.items() if r.verdict is Verdict.REFUSED}
        for key in sorted(refused.keys()):
            if self._refused.get(key) != refused[key]:
                log.debug("%s: %s", now.records[key].group_resource, refused[key])
        self._refused = refused
        log.debug("discovery: %d types at revision %d", len(now.records), now.revision)
        metrics.CATALOG_RESOURCES.labels("excluded").set(len(refused))
        metrics.CATALOG_RESOURCES.labels("allowed").set(len(now.records) - len(refused))
        metrics.CATALOG_GROUP_VERSIONS.labels("degraded").set(len(now.degraded))
        metrics.CATALOG_GROUP_VERSIONS.labels("trusted").set(now.trusted)
        metrics.CATALOG_GENERATION.set(now.revision)

    def _tell(self, before: Registry, now: float) -> None:
        """Logs and counts what happened to single types since ``before``."""
        if not before.ready:
            self._first = frozenset(self.registry.records)
        self._lives, told = advance(self._lives, before, self.registry, now, settle=self._timing.settle)
        for transition, record in told:
            metrics.CATALOG_TRANSITIONS.labels(transition.value).inc()
            known = transition is Transition.ACTIVATED and record.key in self._first
            level = logging.DEBUG if known else logging.INFO
            log.log(level, "%s %s (%s)", transition, record.group_resource, record.summary)
            if known or transition is Transition.REMOVED:
                self._first -= {record.key}

    def defaults(self, kind: TypeRef) -> Node | None:
        """Known server defaults of a type as they are now: of its definition, else of the built-in table.

        Whether a definition exists is all that counts: the group proves nothing, since many custom types use
        groups that end like those of Kubernetes itself.
        """
        tables = self._tables.get(f"{kind.resource}.{kind.group}")
        return tables.get(kind.version) if tables is not None else builtin_table(kind.group, kind.kind)
