"""One set of controllers among any number of replicas, by a Kubernetes Lease.

The times are those of client-go: a lease is valid for 15 s, its holder gives up after 10 s without a renewal,
everybody tries every 2 s. Whether another's lease ran out is judged by the local clock since the lease was
last seen to change, never by comparing clocks. ``held`` turns false 10 s after the last renewal without any
call, also when the process was paused, so no status is written under a lost lease.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from reverser.errors import KubeConflict, KubeNotFound, ReverserError
from reverser.kube.client import AsyncKube
from reverser.kube.paths import resource_path
from reverser.sparing import Sparing

LEASE_NAME = "gitops-reverser-controllers"
DURATION = 15.0
RENEW_DEADLINE = 10.0
RETRY = 2.0

_log = logging.getLogger(__name__)
_LINES = Sparing(lines=2, seconds=60)


def boot_time() -> float:
    """Seconds on a clock that keeps running while the machine sleeps, unlike the monotonic one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def micro_time(moment: datetime | None = None) -> str:
    """RFC 3339 with microseconds, as Lease fields have it."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Election:
    """Campaigns for a Lease and runs the controllers while it is held."""

    def __init__(
        self,
        kube: AsyncKube,
        *,
        namespace: str,
        identity: str,
        name: str = LEASE_NAME,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._kube = kube
        self._identity = identity
        self._clock = clock
        self._collection = resource_path("coordination.k8s.io", "v1", "leases", namespace=namespace)
        self._path = resource_path("coordination.k8s.io", "v1", "leases", namespace=namespace, name=name)
        self._name = name
        self._namespace = namespace
        self._renewed = float("-inf")
        self._seen: tuple[Any, ...] = ()
        self._seen_at = float("-inf")

    @property
    def held(self) -> bool:
        """True while writes are allowed."""
        return self._clock() - self._renewed < RENEW_DEADLINE

    async def run(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Campaign until ``stop``; run ``lead(lost)`` while leading and set ``lost`` when it is over."""
        while not stop.is_set():
            if not await self._attempt():
                await _pause(stop, RETRY)
                continue
            _log.info("this process leads the controllers", extra={"identity": self._identity})
            await self._lead(stop, lead)
        await self._release()

    async def _lead(self, stop: asyncio.Event, lead: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        lost = asyncio.Event()
        task = asyncio.ensure_future(lead(lost))
        try:
            while not stop.is_set() and not task.done():
                await _pause(stop, RETRY)
                if not stop.is_set() and not await self._attempt() and not self.held:
                    _log.warning("the controllers' lease is lost", extra={"identity": self._identity})
                    break
        finally:
            if not stop.is_set():
                self._renewed = float("-inf")
            lost.set()
            try:
                async with asyncio.timeout(RENEW_DEADLINE):
                    await task
            except TimeoutError:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _attempt(self) -> bool:
        """Take or renew the lease. False: another holds it, or the API server does not answer."""
        try:
            async with asyncio.timeout(RENEW_DEADLINE / 2):
                return await self._take()
        except (ReverserError, TimeoutError) as error:
            if _LINES.left(type(error).__name__):
                _log.info("the controllers' lease cannot be taken or renewed now: %s", error)
            return False

    async def _take(self) -> bool:
        started = self._clock()
        try:
            lease = await self._kube.get(self._path)
        except KubeNotFound:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._spec({}),
            }
            try:
                await self._kube.create(self._collection, body)
            except KubeConflict:
                return False
            self._renewed = started
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        seen = (holder, spec.get("renewTime"), spec.get("leaseTransitions"), spec.get("acquireTime"))
        if seen != self._seen:
            self._seen, self._seen_at = seen, started
        if holder and holder != self._identity:
            self._renewed = float("-inf")
            duration = spec.get("leaseDurationSeconds")
            valid_for = float(duration) if isinstance(duration, int) and duration > 0 else DURATION
            if started - self._seen_at < valid_for:
                return False
        lease["spec"] = self._spec(spec)
        try:
            await self._kube.update(self._path, lease)
        except KubeConflict:
            return False
        self._renewed = started
        return True

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        mine = before.get("holderIdentity") == self._identity
        transitions = before.get("leaseTransitions") or 0
        now = micro_time()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": before.get("acquireTime") or now if mine else now,
            "renewTime": now,
            "leaseTransitions": transitions if mine or not before else transitions + 1,
        }

    async def _release(self) -> None:
        """Hand the lease over at once instead of letting it run out."""
        if not self.held:
            return
        self._renewed = float("-inf")
        try:
            lease = await self._kube.get(self._path, timeout=3.0)
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time()}
                await self._kube.update(self._path, lease, timeout=3.0)
        except ReverserError as error:
            _log.info("the controllers' lease could not be released, it will expire: %s", error)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, but no longer than until ``stop``."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
