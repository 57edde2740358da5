"""CommitRequests of the targets held here: handed to the journal behind everything received before (J7).

A request is appended after all events of its target, of every shard, that were received before it, for
which it waits no longer than the grace of an author. Just before, it is read once more without a cache:
one that is gone or finished is not appended. The journal itself refuses doubles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from reverser.errors import KubeNotFound, ReverserError
from reverser.kinds.model import CommitRequest
from reverser.kinds.parse import parse_commit_request
from reverser.kube.paths import own_path
from reverser.store.model import AppendStatus, AttachEntry, BranchKey, Fence, TargetRef
from watchers.target import Environment
from watchers.tasks import end

log = logging.getLogger(__name__)

ARRIVAL = 0.2
"""Seconds that changes made just before the request get to arrive: they come over other connections."""
MARGIN = 1.0
"""Seconds beyond the grace that the barrier may take: appending itself."""


class HeldTarget(Protocol):
    """What an attach needs of a target that is held here."""

    ref: TargetRef
    fence: Fence
    branch: BranchKey | None

    async def barrier(self, timeout: float) -> None:
        """Waits until what was received before now is in the journal."""
        ...


class Attacher:
    """Follows requests; ``look`` is called for each one that changed, and for all when targets come and
    go.
    """

    def __init__(self, env: Environment, find: Callable[[CommitRequest], HeldTarget | None]) -> None:
        self._env = env
        self._find = find
        self._running: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, CommitRequest] = {}

    def look(self, request: CommitRequest) -> None:
        """Starts to attach a request of a target that is held here, once."""
        uid = request.meta.uid
        if not uid or uid in self._done or uid in self._running or is_finished(request):
            return
        if self._find(request) is None:
            return
        task = asyncio.create_task(self._attach(request), name=f"attach {request.meta.key}")
        self._running[uid] = task
        task.add_done_callback(lambda _: self._running.pop(uid, None))

    async def forget(self, uids: set[str]) -> None:
        """Keeps only what is still known of ``uids``. A request that is really gone is withdrawn: without an
        answer so far, it commits nothing any more.
        """
        for uid in self._done.keys() - uids:
            request = self._done[uid]
            try:
                if await self._read(request) is not None:
                    continue
                if await self._env.store.withdraw_attach(uid):
                    log.info("CommitRequest %s was deleted while it waited", request.meta.key)
            except ReverserError as error:
                log.debug(
                    "CommitRequest %s could not be read, it will be read again: %s", request.meta.key, error
                )
                continue
            del self._done[uid]

    async def stop(self) -> None:
        """Stops every attempt in flight."""
        await end(self._running.values())

    async def _attach(self, request: CommitRequest) -> None:
        failures = 0
        await asyncio.sleep(ARRIVAL)
        while True:
            try:
                if await self._try(request):
                    self._done[request.meta.uid] = request
                return
            except ReverserError as error:
                failures += 1
                log.info("CommitRequest %s waits: %s", request.meta.key, error)
                await asyncio.sleep(self._env.timing.backoff(failures))

    async def _try(self, request: CommitRequest) -> bool:
        """One attempt. True when no further one is needed from this process."""
        held = self._find(request)
        if held is None or held.branch is None:
            return False
        await held.barrier(self._env.config.author_attribution_grace + MARGIN)
        fresh = await self._read(request)
        if fresh is None or is_finished(fresh):
            return True
        resolver = self._env.resolver
        entry = AttachEntry(
            target=held.ref,
            namespace=fresh.meta.namespace,
            name=fresh.meta.name,
            uid=fresh.meta.uid,
            author=await resolver.submitter(fresh.meta.uid) if resolver is not None else None,
            message=fresh.message,
            close_delay_seconds=fresh.close_delay_seconds,
            any_author=resolver is None,
        )
        branch = held.branch
        if branch is None:
            return False
        status = await self._env.store.append_attach(branch, held.fence, entry)
        log.debug("CommitRequest %s: %s", request.meta.key, status)
        return status in {AppendStatus.OK, AppendStatus.DUPLICATE, AppendStatus.TERMINAL}

    async def _read(self, request: CommitRequest) -> CommitRequest | None:
        """The request as it is now; None when it is gone, or when another object has taken its name."""
        path = own_path("commitrequests", namespace=request.meta.namespace, name=request.meta.name)
        try:
            fresh = parse_commit_request(await self._env.kube.get(path))
        except KubeNotFound:
            return None
        return fresh if fresh.meta.uid == request.meta.uid else None


def is_finished(request: CommitRequest) -> bool:
    """Whether its controller wrote a final answer, or it is being deleted."""
    if request.meta.deletion_timestamp:
        return True
    return any(c.type in {"Ready", "Stalled"} and c.status == "True" for c in request.conditions)
