"""One leader among replicas, and no write without a lease."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from reverser.controllers.conditions import Plan, blocked
from reverser.controllers.election import LEASE_NAME, Election
from reverser.controllers.events import Recorder
from reverser.controllers.status import StatusWriter
from reverser.errors import KubeUnavailable
from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.sandbox.thread import SandboxServer
from reverser.sparing import Sparing
from tests.controllers.cluster import CRD_DIR, CRDS

LEASE = resource_path("coordination.k8s.io", "v1", "leases", namespace="default", name=LEASE_NAME)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_one_of_two_leads_and_hands_over(kube: AsyncKube) -> None:
    """The second takes over at once when the first stops in order: by a clock that stands still, on which
    nothing ever runs out.
    """
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
        election = Election(kube, namespace="default", identity=name, clock=lambda: 0.0)
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


LEADER = """
import asyncio, pathlib, sys
from reverser.controllers import election
from reverser.controllers.conditions import Plan, done
from reverser.controllers.events import Recorder
from reverser.controllers.status import StatusWriter
from reverser.errors import LostRace
from reverser.kube.client import AsyncKube
from reverser.kube.paths import own_path

slept = pathlib.Path(sys.argv[2])  # how long the process was paused, so that a test need not wait

async def main():
    kube = await AsyncKube.connect(sys.argv[1])
    mine = election.Election(kube, namespace="default", identity="paused",
                             clock=lambda: election.boot_time() + float(slept.read_text()))
    writer = StatusWriter(kube, Recorder(kube, instance="paused"), lambda: mine.held)
    path = own_path("gitproviders", namespace="shop", name="gp")
    stop = asyncio.Event()

    async def lead(lost):
        for number in range(1_000_000):
            try:
                await writer.write("gitproviders", await kube.get(path), Plan(done("Ready", f"n{number}")))
            except LostRace:
                print("stopped", flush=True)
                stop.set()
                return
            print("wrote", number, flush=True)
            await asyncio.sleep(0.02)

    await mine.run(stop, lead)

asyncio.run(main())
"""


async def test_a_paused_leader_writes_nothing_when_it_wakes_up(
    kube: AsyncKube, sandbox: SandboxServer, tmp_path: Path
) -> None:
    """Loss of the lease stops status writes at once, also when the loser slept through it (SIGSTOP)."""
    for path in sorted(CRD_DIR.glob("*.yaml")):
        await kube.create(CRDS, yaml.safe_load(path.read_text()))
    await kube.create(core_path("namespaces"), {"metadata": {"name": "shop"}})
    provider = {
        "apiVersion": "configbutler.ai/v1alpha3",
        "kind": "GitProvider",
        "metadata": {"name": "gp", "namespace": "shop"},
        "spec": {"url": "file:///r", "allowedBranches": ["main"]},
    }
    await kube.create(own_path("gitproviders", namespace="shop"), provider)
    path = own_path("gitproviders", namespace="shop", name="gp")
    slept = tmp_path / "slept"
    slept.write_text("0")
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LEADER,
        str(sandbox.kubeconfig_path),
        str(slept),
        cwd=CRD_DIR.parents[1],
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(60):
            while b"wrote 3" not in (line := await child.stdout.readline()):
                assert line
        child.send_signal(signal.SIGSTOP)
        now = [0.0]
        other = Election(kube, namespace="default", identity="two", clock=lambda: now[0])
        assert not await other._attempt()
        now[0] = 15.5
        assert await other._attempt()
        writer = StatusWriter(kube, Recorder(kube, instance="two"), lambda: other.held)
        async with asyncio.timeout(30):
            plan = Plan(blocked("ConnectionFailed", "said by the new leader"))
            assert await writer.write("gitproviders", await kube.get(path), plan)
        slept.write_text("16")
        before = await kube.get(path)
        child.send_signal(signal.SIGCONT)
        async with asyncio.timeout(60):
            rest = (await child.stdout.read()).decode().splitlines()
        assert rest[-1] == "stopped"
        assert await kube.get(path) == before
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


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


async def test_an_api_server_that_refuses_does_not_fill_the_log(
    kube: AsyncKube, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every try fails while an outage lasts; the log says so a few times a minute."""
    tries: list[str] = []

    async def refuse(path: str) -> object:
        tries.append(path)
        raise KubeUnavailable("the API server refuses")

    monkeypatch.setattr(kube, "get", refuse)
    monkeypatch.setattr("reverser.controllers.election.RETRY", 0.01)
    monkeypatch.setattr("reverser.controllers.election._LINES", Sparing(lines=2, seconds=600))
    caplog.set_level(logging.INFO, "reverser.controllers.election")
    stop = asyncio.Event()
    election = Election(kube, namespace="default", identity="one")
    task = asyncio.ensure_future(election.run(stop, lambda lost: lost.wait()))
    await until(lambda: len(tries) > 5)
    stop.set()
    await task
    assert len([record for record in caplog.records if "cannot be taken" in record.message]) == 2
