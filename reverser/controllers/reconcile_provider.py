"""GitProvider: check, report, and tell its branches when the remote moved.

The check reads Secrets by name and lists the remote's refs; it never clones. What it saw of the refs is
compared with the tip that writers stored for each branch, so that a rewritten or deleted branch is noticed
while nothing is being written (J19).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from reverser.controllers.conditions import READY, find
from reverser.controllers.decide_provider import ProviderFindings, decide_provider
from reverser.controllers.events import Happening, Recorder
from reverser.controllers.status import StatusWriter
from reverser.controllers.world import PROVIDERS, World
from reverser.kinds.model import GitProvider
from reverser.kinds.parse import parse_git_provider
from reverser.store import AsyncStore
from reverser.store.model import BranchKey


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What a check found. ``refs`` (branch to object id) is None where the remote was not listed now."""

    findings: ProviderFindings
    refs: Mapping[str, str] | None = None
    happenings: tuple[Happening, ...] = ()


class ProviderChecks(Protocol):
    """The checks of sheet 3.1, in their order."""

    async def check_provider(self, provider: GitProvider) -> ProviderReport:
        """Run the pipeline up to its first failure. Raises TransientError where nothing can be told."""
        ...


class ProviderReconciler:
    """Looks at one GitProvider."""

    def __init__(
        self,
        world: World,
        store: AsyncStore,
        *,
        writer: StatusWriter,
        recorder: Recorder,
        checks: ProviderChecks,
    ) -> None:
        self._world = world
        self._store = store
        self._writer = writer
        self._recorder = recorder
        self._checks = checks
        self._told: dict[BranchKey, str] = {}

    async def reconcile(self, key: str) -> float | None:
        """One pass; answers in how many seconds the next one is due (None = the object is gone)."""
        obj = self._world.raw(PROVIDERS, key)
        if obj is None:
            return None
        provider = parse_git_provider(obj)
        ready = find(provider.conditions, READY)
        if ready is None or ready.observed_generation != provider.meta.generation:
            known = self._writer.last_written(provider.meta.uid) or {}
            if known.get("observedGeneration") != provider.meta.generation:
                await self._writer.write(PROVIDERS, obj, decide_provider(provider, None))
        report = await self._checks.check_provider(provider)
        for happening in report.happenings:
            await self._recorder.record(obj, happening)
        plan = decide_provider(provider, report.findings)
        await self._writer.write(PROVIDERS, obj, plan)
        if report.refs is not None:
            await self._compare(provider, report.refs)
        return plan.requeue

    async def _compare(self, provider: GitProvider, refs: Mapping[str, str]) -> None:
        """Wake every branch of the provider whose tip is not the stored base, once per observed tip."""
        branches = {
            target.branch
            for target in self._world.targets()
            if (target.meta.namespace, target.provider) == (provider.meta.namespace, provider.meta.name)
        }
        for name in sorted(branches):
            branch = BranchKey(provider.meta.namespace, provider.meta.name, name)
            base, tip = await self._store.read_base(branch), refs.get(name, "")
            if base is None or base == tip or self._told.get(branch) == tip:
                continue
            if base and not tip:
                await self._store.note_rewrite(branch, None, "")
            await self._store.wake_branch(branch)
            self._told[branch] = tip
