"""Writing a status: re-read, compare, replace, under a held lease.

A write re-reads the object, so it never overwrites a newer one; it is skipped when the object is another
by UID, and when nothing but clocks would change. The last status written is remembered, because the cache
may still show the one before.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from reverser.controllers.conditions import READY, Plan, new_status
from reverser.controllers.events import Happening, Recorder, transitions
from reverser.controllers.metrics import STATUS_WRITES
from reverser.errors import KubeConflict, KubeInvalid, KubeNotFound, LostRace
from reverser.kube.client import AsyncKube
from reverser.kube.paths import own_path

ATTEMPTS = 5
FIRST_DELAY = 0.1
REMEMBERED = 4096
"""Number of statuses kept; each is needed only for the seconds by which a cache lags."""


def rfc3339(moment: datetime | None = None) -> str:
    """A time as Kubernetes writes it, to the second."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_ms(milliseconds: int) -> str:
    """The same from milliseconds since 1970."""
    return rfc3339(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _refused(plan: Plan, error: KubeInvalid) -> Happening:
    """The Event for an object whose status the API server refuses: nothing else can be written to it."""
    said = plan.condition(READY)
    text = (
        f"the API server refuses this object's status ({error}); correct the field that it names, or apply "
        f"the definitions of this release. The status would be {said.reason}: {said.message}"
    )
    return Happening("StatusRefused", text, warning=True)


class StatusWriter:
    """Writes what a pass decided. ``allowed`` tells whether this process still leads."""

    def __init__(self, kube: AsyncKube, recorder: Recorder, allowed: Callable[[], bool]) -> None:
        self._kube = kube
        self._recorder = recorder
        self._allowed = allowed
        self._written: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

    def require_lease(self) -> None:
        """Call right before changing anything outside this process. Raises LostRace."""
        if not self._allowed():
            raise LostRace("the controllers' lease is lost; what is to be done is left to its new holder")

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._written.pop(uid, None)

    def _remember(self, uid: str, status: Mapping[str, Any]) -> None:
        self._written[uid] = status
        self._written.move_to_end(uid)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def last_written(self, uid: str) -> Mapping[str, Any] | None:
        """The status that this process wrote last, which the cache may not show yet."""
        return self._written.get(uid)

    async def write(
        self,
        resource: str,
        obj: Mapping[str, Any],
        plan: Plan,
        *,
        unless: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> bool:
        """Bring the status of ``obj`` to ``plan``; True when something was written.

        ``unless`` is called with the object as the API server has it now; True leaves it alone. Raises
        LostRace when the lease is lost, KubeConflict after five attempts.
        """
        meta = obj["metadata"]
        uid, generation = str(meta["uid"]), int(meta.get("generation") or 0)
        now = rfc3339()
        views = [obj.get("status") or {}, self._written.get(uid)]
        if all(v is None or new_status(v, plan, generation=generation, now=now) is None for v in views):
            return False
        path = own_path(resource, namespace=str(meta.get("namespace") or ""), name=str(meta["name"]))
        for attempt in range(ATTEMPTS):
            try:
                fresh = await self._kube.get(path)
                if str(fresh["metadata"].get("uid")) != uid or (unless is not None and unless(fresh)):
                    return False
                before = fresh.get("status") or {}
                status = new_status(before, plan, generation=generation, now=now)
                if status is None:
                    self._remember(uid, before)
                    return False
                self.require_lease()
                fresh["status"] = status
                await self._kube.update_status(path, fresh)
            except KubeNotFound:
                return False
            except KubeConflict:
                if attempt + 1 == ATTEMPTS:
                    raise
                await asyncio.sleep(FIRST_DELAY * 2**attempt * (1 + 0.1 * random.random()))  # noqa: S311 - jitter
                continue
            except KubeInvalid as error:
                await self._recorder.record(fresh, _refused(plan, error))
                raise
            self._remember(uid, status)
            STATUS_WRITES.labels(resource).inc()
            for happening in transitions(before.get("conditions") or (), status["conditions"]):
                await self._recorder.record(fresh, happening)
            return True
        return False
