"""CommitRequest: show that it waits, wait for its outcome, write it down once.

The attach itself is appended to the journal by the watcher that holds the target (J7), so the order
between a request and the changes before it is the journal's. Here the outcome is awaited: the store hints
when it is there, and a slow look makes up for a lost hint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from reverser.controllers.conditions import FALSE, TRUE, Plan, find
from reverser.controllers.decide_request import Waiting, decide_request, is_terminal
from reverser.controllers.metrics import AUTHOR_LAG, AUTHOR_LOOKUPS
from reverser.controllers.projection import Projection
from reverser.controllers.status import StatusWriter
from reverser.controllers.world import REQUESTS, World
from reverser.errors import KubeNotFound
from reverser.kinds.model import CommitRequest, GitTarget, Submitter
from reverser.kinds.parse import parse_commit_request
from reverser.kube.client import AsyncKube
from reverser.kube.paths import own_path
from reverser.store import AsyncStore
from reverser.store.keys import request as request_mark

_log = logging.getLogger(__name__)


class RequestReconciler:
    """Reconciles one CommitRequest."""

    def __init__(
        self,
        world: World,
        store: AsyncStore,
        *,
        kube: AsyncKube,
        writer: StatusWriter,
        projection: Projection,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._world = world
        self._store = store
        self._kube = kube
        self._writer = writer
        self._projection = projection
        self._clock = clock
        self._wall = wall
        self._since: dict[str, tuple[str, float, bool]] = {}

    async def reconcile(self, key: str) -> float | None:
        """One pass; returns the seconds until the next one (None = nothing more to do)."""
        obj = self._world.raw(REQUESTS, key)
        if obj is None:
            await self._withdraw(key)
            return None
        request = parse_commit_request(obj)
        if self._since.get(key, (request.meta.uid,))[0] != request.meta.uid:
            await self._withdraw(key)
        written = self._writer.last_written(request.meta.uid)
        if written is not None and not is_terminal(request):
            request = parse_commit_request({**obj, "status": written})
        if is_terminal(request):
            self._since.pop(key, None)
            return await self._expire(request)
        uid = request.meta.uid
        submitter = None
        if find(request.conditions, "AuthorAttributed") is None:
            submitter = await self._submitter(uid)
        target = await self._world.target(request.meta.namespace, request.target_name)
        outcome = await self._store.attach_outcome(uid)
        waited = 0.0 if outcome is not None else await self._waited(key, uid)
        plan = decide_request(
            request,
            outcome,
            submitter=submitter,
            branch=target.branch if target is not None else "",
            waiting=Waiting(waited, await self._hint(request, target)),
        )
        if plan is None:
            return None
        await self._writer.write(REQUESTS, obj, plan, unless=_finished)
        finished = any(c.type in ("Ready", "Stalled") and c.status == TRUE for c in plan.conditions)
        self._projection.request(
            request,
            target_uid=target.meta.uid if target is not None else "",
            submitter=submitter,
            failure=plan.condition("Stalled").message if finished and outcome is None else "",
        )
        return self._after(request, plan) if finished else plan.requeue

    async def sweep(self) -> None:
        """Withdraws requests that were deleted while no controller ran. Once, at the start of a leadership.

        What waits in the store is read before what exists is listed, so that a request made meanwhile is in
        the list. Raises StoreUnavailable, and what a list raises.
        """
        for request in self._world.requests():
            if request.meta.uid and not is_terminal(request):
                self._since.setdefault(request.meta.key, (request.meta.uid, self._clock(), False))
        waiting: set[str] = set()
        cursor = 0
        while True:
            cursor, met = await self._store.pending_requests(cursor)
            waiting.update(met)
            if cursor == 0:
                break
        if not waiting:
            return
        listed = await self._kube.list(own_path(REQUESTS))
        for mark in sorted(waiting - {request_mark(obj["metadata"]["uid"]) for obj in listed.items}):
            self._writer.require_lease()
            if await self._store.withdraw_mark(mark):
                _log.info("withdrew a CommitRequest that was deleted while no controller ran (%s)", mark)

    async def _withdraw(self, key: str) -> None:
        """A waiting request was deleted: it no longer binds to a window, unless one is closed for it."""
        if key in self._since:
            self._writer.require_lease()
            await self._store.withdraw_attach(self._since[key][0])
            del self._since[key]

    async def _submitter(self, uid: str) -> Submitter | None:
        """Looked up once: the record is there before the object is visible, or never will be."""
        found = await self._store.read_submission(uid)
        AUTHOR_LOOKUPS.labels("miss" if found is None else "hit").inc()
        if found is None:
            return None
        who, asked = found[0], _seconds(found[1])
        if asked:
            AUTHOR_LAG.observe(max(0.0, self._wall() - asked))
        return Submitter(who.username, who.display_name, who.email)

    def _after(self, request: CommitRequest, plan: Plan) -> float | None:
        if request.ttl_seconds_after_finished is None:
            return plan.requeue
        return float(request.ttl_seconds_after_finished)

    async def _waited(self, key: str, uid: str) -> float:
        """Seconds since the attach was first seen in a journal, else since the request was first seen."""
        now = self._clock()
        _, since, attached = self._since.get(key, (uid, now, False))
        if not attached and await self._store.attach_pending(uid):
            since, attached = now, True
        self._since[key] = (uid, since, attached)
        return now - since

    async def _hint(self, request: CommitRequest, target: GitTarget | None) -> str:
        """What a request waits for besides its delay; empty for nothing."""
        where = f"'{request.meta.namespace}/{request.target_name}'"
        if target is None:
            return f"GitTarget {where} not found; create it, or delete this request"
        for gate in ("Validated", "EncryptionConfigured"):
            condition = find(target.conditions, gate)
            if condition is not None and condition.status == FALSE:
                return f"GitTarget {where} does not stream: {gate} is False ({condition.reason})"
        branch = self._world.branch_of(target)
        health = await self._store.read_branch_health(branch)
        if health is not None and not health.ok:
            return f"pushing to branch '{target.branch}' fails: {health.message}"
        return ""

    async def _expire(self, request: CommitRequest) -> float | None:
        """Delete a finished request whose time to live has passed."""
        ttl = request.ttl_seconds_after_finished
        if ttl is None:
            return None
        finished = max(
            (
                _seconds(c.last_transition_time)
                for c in request.conditions
                if c.type in ("Ready", "Stalled") and c.status == TRUE
            ),
            default=0.0,
        )
        remaining = finished + ttl - self._wall()
        if remaining > 0:
            return remaining
        path = own_path(REQUESTS, namespace=request.meta.namespace, name=request.meta.name)
        self._writer.require_lease()
        try:
            await self._kube.delete(path, uid=request.meta.uid)
        except KubeNotFound:
            return None
        return None


def _finished(fresh: Mapping[str, Any]) -> bool:
    return is_terminal(parse_commit_request(fresh))


def _seconds(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time; 0 when it is none."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
