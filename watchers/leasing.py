"""Which watcher holds which target: leases in Redis, spread evenly, never two holders that can both append.

A lease lasts 15 s and is renewed every 5 s, so the targets of a killed replica are elsewhere within 20 s.
What protects the journal is the fence inside every append; what stands here only decides who tries. A
lease that ran out while Redis was away is asked for again: who gets it back goes on where it stood,
anybody else stops.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reverser.errors import StoreUnavailable
from reverser.sparing import Sparing
from reverser.store import AsyncStore
from reverser.store.model import Fence, LeaseKind
from watchers import metrics
from watchers.timing import Timing

log = logging.getLogger(__name__)

HEARTBEAT_KIND = "watcher"
_OUTAGE = Sparing(lines=2, seconds=60)


class Holder(Protocol):
    """What runs for the targets that are held."""

    def took(self, uid: str, fence: Fence) -> bool:
        """This process holds the lease of a target now; False when the target has gone meanwhile."""
        ...

    def renewed(self, uid: str, fence: Fence) -> None:
        """The lease was lost and won back under another number; nobody else held it in between."""
        ...

    async def gave(self, uid: str, *, drain: bool) -> None:
        """The target must stop here; with ``drain`` its buffers may still be appended."""
        ...


@dataclass(frozen=True, slots=True)
class LeasePlan:
    """What to try next."""

    acquire: tuple[str, ...]
    release: tuple[str, ...]


def plan_leases(
    *,
    me: str,
    targets: Collection[str],
    mine: Collection[str],
    holders: Mapping[str, str],
    watchers: Collection[str],
) -> LeasePlan:
    """Even shares: nobody holds more than the rounded-up share while somebody may take it.

    ``holders`` maps held targets to their watchers. A watcher above its share gives away one target at a
    time, and only when another one holds less than the rounded-down share, so that targets do not move back
    and forth.
    """
    alive = {me, *watchers}
    share = -(-len(targets) // len(alive)) if targets else 0
    gone = tuple(uid for uid in mine if uid not in targets)
    kept = [uid for uid in mine if uid in targets]
    free = [uid for uid in targets if uid not in holders and uid not in mine]
    free.sort(key=lambda uid: hashlib.sha256(f"{me}\0{uid}".encode()).digest())
    acquire = tuple(free[: max(0, share - len(kept))])
    counts = dict.fromkeys(alive, 0)
    for uid, holder in holders.items():
        if uid in targets and holder in counts:
            counts[holder] += 1
    poorest = min((count for watcher, count in counts.items() if watcher != me), default=len(kept))
    floor = len(targets) // len(alive)
    surplus = len(kept) > share or (len(kept) > floor and poorest < floor)
    release = (max(kept),) if surplus and kept and poorest < len(kept) - 1 else ()
    return LeasePlan(acquire, (*gone, *release))


class LeaseManager:
    """Keeps the leases of this process."""

    def __init__(
        self,
        store: AsyncStore,
        holder: Holder,
        targets: Callable[[], Collection[str]],
        *,
        ident: str,
        timing: Timing,
        info: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._store = store
        self._holder = holder
        self._targets = targets
        self._ident = ident
        self._timing = timing
        self._info = info
        self._token = uuid.uuid4().hex
        self._held: dict[str, Fence] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """Targets that stop here: that may take a while, and the other leases are renewed meanwhile."""
        self._last_renew = 0.0
        self._away = False
        """Whether the log says that Redis is away."""

    @property
    def held(self) -> Sequence[str]:
        """UIDs of the targets that are leased here."""
        return tuple(self._held)

    async def run(self) -> None:
        """Claims and renews until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if loop.time() - self._last_renew >= self._timing.renew:
                    await self._renew()
                    self._last_renew = loop.time()
                await self._claim()
            except StoreUnavailable as error:
                self._is_away(error)
            else:
                self._is_back()
            metrics.HELD_TARGETS.set(len(self._held))
            await asyncio.sleep(self._timing.claim)

    def _is_away(self, error: StoreUnavailable) -> None:
        """The log's word on an outage: whatever waits for Redis is silent about it."""
        if not self._away and _OUTAGE.left("away"):
            self._away = True
            log.warning("changes wait, none is lost: %s", error)

    def _is_back(self) -> None:
        if self._away:
            self._away = False
            log.info("Redis serves again")

    async def release_all(self) -> None:
        """Gives every lease back, after the targets were stopped; a Redis that is away is not waited for."""
        if self._leaving:
            await asyncio.wait(self._leaving.values())
        for uid, fence in list(self._held.items()):
            del self._held[uid]
            await self._release(uid, fence)

    async def lost(self, uid: str) -> None:
        """An append was refused because another holds the lease: win it back or stop."""
        await self._take_again(uid)

    async def _renew(self) -> None:
        ttl = int(self._timing.lease * 1000)
        await self._store.heartbeat(
            HEARTBEAT_KIND, self._ident, dict(self._info()), int(self._timing.lease) or 1
        )
        if not self._held:
            return
        for uid in await self._store.renew_leases(LeaseKind.TARGET, dict(self._held), ttl):
            await self._take_again(uid)

    async def _take_again(self, uid: str) -> None:
        if uid not in self._held:
            return
        fence = await self._acquire(uid)
        if uid not in self._held:
            # It stopped meanwhile, so nothing runs that could use the lease.
            if fence is not None:
                await self._release(uid, fence)
            return
        if fence is None:
            log.info("target %s is held by another watcher now", uid)
            del self._held[uid]
            self._leave(uid, drain=False)
            return
        self._held[uid] = fence
        self._holder.renewed(uid, fence)

    async def _acquire(self, uid: str) -> Fence | None:
        ttl = int(self._timing.lease * 1000)
        return await self._store.acquire_lease(LeaseKind.TARGET, uid, self._token, ttl, self._ident)

    async def _claim(self) -> None:
        holders = await self._store.lease_holders(LeaseKind.TARGET)
        watchers = await self._store.heartbeats(HEARTBEAT_KIND)
        # Read last: a target may stop while Redis answers, and is not to be stopped a second time.
        targets, mine = self._targets(), tuple(self._held)
        plan = plan_leases(me=self._ident, targets=targets, mine=mine, holders=holders, watchers=watchers)
        for uid in plan.release:
            self._leave(uid, drain=True)
        for uid in plan.acquire:
            if uid in self._leaving:
                continue
            fence = await self._acquire(uid)
            if fence is None:
                continue
            if self._holder.took(uid, fence):
                self._held[uid] = fence
            else:
                await self._release(uid, fence)

    def _leave(self, uid: str, *, drain: bool) -> None:
        """Stops a target, and gives its lease back once it has stopped."""
        if uid in self._leaving:
            return
        task = asyncio.create_task(self._left(uid, drain=drain), name=f"leaving {uid}")
        self._leaving[uid] = task
        task.add_done_callback(lambda _: self._leaving.pop(uid, None))

    async def _left(self, uid: str, *, drain: bool) -> None:
        try:
            await self._holder.gave(uid, drain=drain)
        except Exception:
            log.exception("a bug while stopping target %s; its lease is released all the same", uid)
        fence = self._held.pop(uid, None)
        if fence is not None:
            await self._release(uid, fence)

    async def _release(self, uid: str, fence: Fence) -> None:
        try:
            await self._store.release_lease(LeaseKind.TARGET, uid, fence)
        except StoreUnavailable as error:
            log.info("the lease of target %s could not be released, it will expire: %s", uid, error)
