"""GitProvider: check, report, and wake its branches when the remote moved.

The check reads Secrets by name and lists the remote's refs; it never clones. What it saw of the refs is
compared with the tip that writers stored for each branch, so that a rewritten or deleted branch is noticed
while nothing is being written (J19).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from reverser.controllers.conditions import READY, find
from reverser.controllers.decide_provider import ProviderFindings, decide_provider
from reverser.controllers.events import Happening, Recorder
from reverser.controllers.status import StatusWriter
from reverser.controllers.world import PROVIDERS, World
from reverser.errors import StoreUnavailable
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
    """The checks of a provider, in the order of ``Step``."""

    async def check_provider(self, provider: GitProvider) -> ProviderReport:
        """Run the pipeline up to its first failure. Raises TransientError where nothing can be told."""
        ...

    def keep_providers(self, uids: Set[str]) -> None:
        """Forget providers that are not among ``uids``."""
        ...


class ProviderReconciler:
    """Reconciles one GitProvider."""

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
        self._generations: dict[str, int] = {}

    async def reconcile(self, key: str) -> float | None:
        """One pass; returns the seconds until the next one (None = the object is gone)."""
        obj = self._world.raw(PROVIDERS, key)
        if obj is None:
            self._forget_missing()
            return None
        provider = parse_git_provider(obj)
        ready = find(provider.conditions, READY)
        if ready is None or ready.observed_generation != provider.meta.generation:
            known = self._writer.last_written(provider.meta.uid) or {}
            if known.get("observedGeneration") != provider.meta.generation:
                await self._writer.write(PROVIDERS, obj, decide_provider(provider, None))
        try:
            bases = await self._bases(provider)
        except StoreUnavailable:  # the check of the remote does not need Redis
            bases = {}
        report = await self._checks.check_provider(provider)
        for happening in report.happenings:
            await self._recorder.record(obj, happening)
        plan = decide_provider(provider, report.findings)
        await self._writer.write(PROVIDERS, obj, plan)
        if report.refs is not None and bases:
            await self._compare(provider, report.refs, bases)
        await self._apply_changed_spec(provider, bases)
        return plan.requeue

    def _forget_missing(self) -> None:
        """Forget what is remembered of providers that are gone."""
        providers = self._world.providers()
        uids = {provider.meta.uid for provider in providers}
        names = {(provider.meta.namespace, provider.meta.name) for provider in providers}
        for uid in self._generations.keys() - uids:
            del self._generations[uid]
        for branch in [b for b in self._told if (b.namespace, b.provider) not in names]:
            del self._told[branch]
        self._checks.keep_providers(uids)

    async def _apply_changed_spec(self, provider: GitProvider, bases: Mapping[BranchKey, str]) -> None:
        """A changed commit window takes effect at once, also for an open window: its branch plans again."""
        before = self._generations.get(provider.meta.uid)
        self._generations[provider.meta.uid] = provider.meta.generation
        if before is not None and before != provider.meta.generation:
            for branch in bases:
                await self._store.wake_branch(branch)

    async def _bases(self, provider: GitProvider) -> dict[BranchKey, str]:
        """The tips last known of the branches that targets of this provider write."""
        branches = {
            self._world.branch_of(target)
            for target in self._world.targets()
            if (target.meta.namespace, target.provider) == (provider.meta.namespace, provider.meta.name)
        }
        return await self._store.read_bases(sorted(branches, key=str)) if branches else {}

    async def _compare(
        self, provider: GitProvider, refs: Mapping[str, str], before: Mapping[BranchKey, str]
    ) -> None:
        """Wake every branch whose tip is not the stored base, once per observed tip.

        ``before`` are the bases from before the listing: where a writer moved one since, the listing is
        outdated and proves nothing.
        """
        for branch, base in (await self._bases(provider)).items():
            tip = refs.get(branch.branch, "")
            if base == tip or before.get(branch) != base or self._told.get(branch) == tip:
                continue
            if base and not tip:
                await self._store.note_rewrite(branch, None, "")
            await self._store.wake_branch(branch)
            self._told[branch] = tip
