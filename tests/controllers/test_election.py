"""One leader among replicas, and no write without a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reverser.controllers.election import LEASE_NAME, Election
from reverser.kube.client import AsyncKube
from reverser.kube.paths import resource_path
from reverser.sandbox.thread import SandboxServer

LEASE = resource_path("coordination.k8s.io", "v1", "leases", namespace="default", name=LEASE_NAME)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_one_of_two_leads_and_hands_over(kube: AsyncKube) -> None:
    """The second takes over at once when the first stops in order."""
    leading: list[str] = []

    def lead(name: str) -> Callable[[asyncio.Event], object]:
        async def run(lost: asyncio.Event) -> None:
            leading.append(name)
            await lost.wait()
            leading.remove(name)

        return run

    stops = {name: asyncio.Event() for name in ("one", "two")}
    tasks = {}
    for name, stop in stops.items():
        election = Election(kube, namespace="default", identity=name)
        tasks[name] = asyncio.ensure_future(election.run(stop, lead(name)))
        await until(lambda: bool(leading))
    assert leading == ["one"]
    stops["one"].set()
    await tasks["one"]
    assert leading == []
    await until(lambda: leading == ["two"])
    lease = await kube.get(LEASE)
    assert lease["spec"]["holderIdentity"] == "two"
    assert lease["spec"]["leaseDurationSeconds"] == 15
    stops["two"].set()
    await tasks["two"]


async def test_a_silent_holder_is_waited_out_by_the_local_clock(kube: AsyncKube) -> None:
    """15 s without a change of the lease, whatever its timestamps say."""
    now = [0.0]
    first = Election(kube, namespace="default", identity="one", clock=lambda: now[0])
    second = Election(kube, namespace="default", identity="two", clock=lambda: now[0])
    assert await first._attempt()
    assert not await second._attempt()
    now[0] = 14.0
    assert not await second._attempt()
    now[0] = 15.5
    assert await second._attempt()
    assert second.held
    assert not first.held
    assert not await first._attempt()


async def test_holding_ends_by_itself_without_renewal(kube: AsyncKube, sandbox: SandboxServer) -> None:
    """10 s after the last renewal nothing is written any more, also in a process that was paused."""
    now = [0.0]
    election = Election(kube, namespace="default", identity="one", clock=lambda: now[0])
    assert await election._attempt()
    now[0] = 9.9
    assert election.held
    now[0] = 10.0
    assert not election.held
    sandbox.stop()
    assert not await election._attempt()
