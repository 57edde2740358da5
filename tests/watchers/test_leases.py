"""Several watchers: even shares, takeover after a kill, and a fence against those that wake up late."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.errors import StoreUnavailable
from reverser.sparing import Sparing
from reverser.store import AsyncStore, keys
from reverser.store.model import Fence, LeaseKind
from watchers.leasing import LeaseManager, plan_leases
from watchers.tasks import end
from watchers.timing import Timing

from .conftest import DEADLINE, FAST, Bench, Cluster, eventually

CM = [{"resources": ["configmaps"]}]


@given(
    targets=st.integers(min_value=0, max_value=30),
    watchers=st.integers(min_value=1, max_value=5),
    order=st.randoms(use_true_random=False),
    start=st.data(),
)
def test_shares_become_even_and_stay(targets: int, watchers: int, order: Any, start: Any) -> None:
    """From any distribution, turns in any order end with shares that differ by one at most, and then
    nothing moves.
    """
    uids = [f"t{index}" for index in range(targets)]
    names = [f"w{index}" for index in range(watchers)]
    holders: dict[str, str] = {}
    for uid in uids:
        holder = start.draw(st.sampled_from([None, *names]))
        if holder is not None:
            holders[uid] = holder
    moved = -1
    for _ in range(200):
        moved = 0
        for me in order.sample(names, len(names)):
            mine = [uid for uid, holder in holders.items() if holder == me]
            plan = plan_leases(me=me, targets=uids, mine=mine, holders=holders, watchers=names)
            for uid in plan.release:
                del holders[uid]
            for uid in plan.acquire:
                assert uid not in holders
                holders[uid] = me
            moved += len(plan.release) + len(plan.acquire)
        if not moved:
            break
    assert moved == 0
    assert set(holders) == set(uids)
    counts = [list(holders.values()).count(name) for name in names]
    assert max(counts) - min(counts) <= 1


def test_targets_that_are_gone_are_released() -> None:
    """A deleted target is given back."""
    plan = plan_leases(me="a", targets=[], mine=["t"], holders={"t": "a"}, watchers=["a"])
    assert plan.release == ("t",)


def test_a_takeover_fits_into_twenty_seconds() -> None:
    """Scaling out: the lease of a killed watcher, the next look at leases, and the opening of a watch."""
    timing = Timing()
    assert timing.lease + timing.claim + 3 * timing.retry_first <= 20
    assert timing.renew + timing.claim < timing.lease / 2


class SlowHolder:
    """Stops its targets as slowly as a full journal lets it."""

    def __init__(self) -> None:
        self.leaving = asyncio.Event()
        self.may_stop = asyncio.Event()
        self.stopped: list[str] = []

    def took(self, uid: str, fence: Fence) -> bool:
        return True

    def renewed(self, uid: str, fence: Fence) -> None:
        pass

    async def gave(self, uid: str, *, drain: bool) -> None:
        self.leaving.set()
        await self.may_stop.wait()
        self.stopped.append(uid)


async def test_a_slow_goodbye_costs_no_other_lease(async_store: AsyncStore) -> None:
    """A target that takes longer than a lease to drain keeps its own lease, and the others theirs."""
    targets, holder = {"leaves", "stays"}, SlowHolder()
    timing = replace(FAST, renew=0.05, claim=0.01)
    manager = LeaseManager(async_store, holder, lambda: targets, ident="me", timing=timing)
    running = asyncio.create_task(manager.run())

    async def both() -> bool:
        return set(manager.held) == {"leaves", "stays"}

    await eventually(both, "both are held")
    targets.discard("leaves")
    await asyncio.wait_for(holder.leaving.wait(), DEADLINE)
    for uid in ("leaves", "stays"):
        await async_store.client.expire(keys.lease(LeaseKind.TARGET, uid), int(timing.lease) // 2)

    async def kept() -> bool:
        left = [
            await async_store.client.ttl(keys.lease(LeaseKind.TARGET, uid)) for uid in ("leaves", "stays")
        ]
        return min(left) > timing.lease / 2

    await eventually(kept, "both leases are renewed meanwhile")
    holder.may_stop.set()

    async def given() -> bool:
        return set(await async_store.lease_holders(LeaseKind.TARGET)) == {"stays"}

    await eventually(given, "the lease is given back")
    assert holder.stopped == ["leaves"]
    await end([running])
    await manager.release_all()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "name", ["heartbeat", "renew_leases", "lease_holders", "heartbeats", "acquire_lease"]
)
async def test_a_target_that_stops_while_redis_is_asked(
    async_store: AsyncStore, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    """J2: it stops once, and no lease is kept for which nothing runs any more."""
    targets, holder = {"leaves", "stays"}, SlowHolder()
    timing = replace(FAST, renew=0.05, claim=0.01)
    manager = LeaseManager(async_store, holder, lambda: targets, ident="me", timing=timing)
    ask, aside = getattr(async_store, name), AsyncStore(async_store.client)
    running = asyncio.create_task(manager.run())

    async def both() -> bool:
        return set(manager.held) == {"leaves", "stays"}

    async def stopped() -> bool:
        return set(await aside.lease_holders(LeaseKind.TARGET)) == {"stays"}

    async def stops() -> None:
        if not holder.may_stop.is_set():
            holder.may_stop.set()
            await eventually(stopped, "its lease is given back")

    async def late(*args: Any) -> Any:
        if moment == "before":
            await stops()
        answer = await ask(*args)
        if moment == "after":
            await stops()
        return answer

    await eventually(both, "both are held")
    targets.discard("leaves")
    await asyncio.wait_for(holder.leaving.wait(), DEADLINE)
    monkeypatch.setattr(async_store, name, late)
    if name == "acquire_lease":
        await manager.lost("leaves")
    await asyncio.wait_for(holder.may_stop.wait(), DEADLINE)
    beat, beats = async_store.heartbeat, 0

    async def counted(*args: Any) -> None:
        nonlocal beats
        beats += 1
        await beat(*args)

    async def turned() -> bool:
        return beats > 2

    monkeypatch.setattr(async_store, "heartbeat", counted)
    await eventually(turned, "two whole turns have passed")
    assert (holder.stopped, manager.held) == (["leaves"], ("stays",))
    assert await stopped()
    await end([running])


async def test_an_outage_is_told_in_the_log(
    async_store: AsyncStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Q03: what waits for Redis waits silently, so one line says that it does and one that it is over; a
    Redis that comes and goes does not fill the log.
    """
    caplog.set_level("INFO", logger="watchers.leasing")
    monkeypatch.setattr("watchers.leasing._OUTAGE", Sparing(lines=2, seconds=60, clock=lambda: 0.0))
    timing = replace(FAST, renew=0.0, claim=0.001)
    manager = LeaseManager(async_store, SlowHolder(), tuple, ident="me", timing=timing)
    run, calls = async_store.run, 0

    async def comes_and_goes(call: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls // 7 % 2:
            raise StoreUnavailable("away")
        return await run(call)

    async_store.run = comes_and_goes  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(manager.run())

    async def often() -> bool:
        return calls > 100

    await eventually(often, "it came and went often")
    await end([running])
    away, back = "changes wait, none is lost: away", "Redis serves again"
    told = [record.getMessage() for record in caplog.records if record.name == "watchers.leasing"]
    assert told == [away, back, away, back]


class Noting(SlowHolder):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.may_stop.set()
        self.fences: list[Fence] = []
        self.drained: list[bool] = []

    def took(self, uid: str, fence: Fence) -> bool:
        self.fences.append(fence)
        return True

    def renewed(self, uid: str, fence: Fence) -> None:
        self.fences.append(fence)

    async def gave(self, uid: str, *, drain: bool) -> None:
        self.drained.append(drain)
        await super().gave(uid, drain=drain)


@pytest.mark.parametrize("taken", [False, True])
async def test_a_lease_that_ran_out(async_store: AsyncStore, taken: bool) -> None:
    """J2: it is found out although nothing happens in the cluster. What nobody else has taken meanwhile goes
    on under another number; what somebody has stops, and appends nothing any more.
    """
    holder = Noting()
    timing = replace(FAST, lease=60.0, renew=0.05, claim=0.01)
    manager = LeaseManager(async_store, holder, lambda: {"t"}, ident="me", timing=timing)
    running = asyncio.create_task(manager.run())

    async def held() -> bool:
        return manager.held == ("t",)

    await eventually(held, "the lease is held")
    run, away = async_store.run, asyncio.Event()

    async def unreachable(call: Any) -> Any:
        if away.is_set():
            raise StoreUnavailable("away")
        return await run(call)

    async_store.run = unreachable  # type: ignore[method-assign, assignment]
    away.set()
    await async_store.client.delete(keys.lease(LeaseKind.TARGET, "t"))
    if taken:
        other = AsyncStore(async_store.client)
        assert await other.acquire_lease(LeaseKind.TARGET, "t", "other", 60_000, "other")
    away.clear()

    async def known() -> bool:
        return holder.drained == [False] if taken else len(holder.fences) == 2

    await eventually(known, "it is known")
    if not taken:
        first, second = holder.fences
        assert second.number > first.number
        assert await async_store.lease_holders(LeaseKind.TARGET) == {"t": "me"}
    await end([running])


async def test_a_target_that_goes_while_its_lease_is_taken(async_store: AsyncStore) -> None:
    """J2: it may be back before the next look, so no lease is kept for which nothing was started."""

    class Blinking(Noting):
        """Misses the target at its first coming."""

        def took(self, uid: str, fence: Fence) -> bool:
            return super().took(uid, fence) and len(self.fences) > 1

    holder = Blinking()
    manager = LeaseManager(async_store, holder, lambda: {"t"}, ident="me", timing=replace(FAST, claim=0.01))
    running = asyncio.create_task(manager.run())

    async def started() -> bool:
        return manager.held == ("t",)

    await eventually(started, "it is started when it is back")
    first, second = holder.fences
    assert second.number > first.number
    await end([running])


async def test_targets_of_a_killed_watcher_go_on_elsewhere(bench: Bench, cluster: Cluster) -> None:
    """Issue of scaling out: two watchers share four targets; one is killed, the other resumes all from
    cursors.
    """
    uids = []
    for index in range(4):
        uid = cluster.target(f"gt{index}", f"p{index}")
        cluster.rule(f"wr{index}", f"gt{index}", CM)
        await bench.open(uid, f"p{index}")
        uids.append(uid)
    first = await bench.start(ident="one")
    second = await bench.start(ident="two")

    async def shared() -> bool:
        return len(first.runtime.held) == len(second.runtime.held) == 2

    await eventually(shared, "two targets each")
    for uid in uids:
        await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    for uid in uids:
        await bench.mirrored(uid)
    await first.kill()
    await bench.expire(first)
    cluster.create("b", v="1")
    cluster.delete("a")
    for uid in uids:
        await bench.mirrored(uid)
    assert len(await bench.journal().sweeps()) == 4
    assert len(await bench.journal().events("b")) == 4


async def test_a_paused_watcher_cannot_append_when_it_wakes(bench: Bench, cluster: Cluster) -> None:
    """E28: one that slept past its lease is fenced: what it still held is appended by its successor, once."""
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    sleeper = await bench.start(ident="sleeper")
    await bench.streaming(uid, 1)
    store, original = sleeper._store, sleeper._store.run
    awake = asyncio.Event()

    async def paused(call: Any) -> Any:
        await awake.wait()
        return await original(call)

    store.run = paused  # type: ignore[method-assign, assignment]
    await bench.expire(sleeper)
    cluster.create("a", v="1")
    successor = await bench.start(ident="successor")

    async def taken() -> bool:
        return uid in successor.runtime.held

    await eventually(taken, "the successor holds the target")
    await bench.mirrored(uid)
    awake.set()
    cluster.patch("a", {"data": {"v": "2"}})
    await bench.mirrored(uid)

    async def given_up() -> bool:
        return uid not in sleeper.runtime.held

    await eventually(given_up, "the sleeper gave up")
    assert len(await bench.journal().events("a")) == 2
