"""One shard for as long as it is wanted: sessions in a row, with the right pause between them.

The class of an error decides the pause and what people see. A watch that the server closed in an orderly way
is opened again at once and stays Streaming; failures are shown as Blocked only when they persist (three in a
row, or half a minute where the server asks for time); a missing permission is shown at once and retried
rarely. Only a lost lease ends a shard from inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from reverser.errors import (
    KubeForbidden,
    KubeGone,
    KubeNotFound,
    KubeThrottled,
    KubeUnauthenticated,
    ReverserError,
    StoreUnavailable,
    TransientError,
)
from reverser.store.model import StreamState
from watchers import metrics
from watchers.appender import CursorLost, LeaseLost
from watchers.session import Session
from watchers.shardstate import ShardState
from watchers.tasks import end

log = logging.getLogger(__name__)


class Shard:
    """Runs one ``ShardState``. ``run`` is meant to be a task; ``stop`` ends it."""

    def __init__(self, state: ShardState, *, name: str) -> None:
        self.state = state
        self.name = name
        self._wake = asyncio.Event()
        self._failures = 0
        self._pauses = 0
        """Failures since the watch last worked; the next pause grows with them."""
        self._pause = 0.0
        """The seconds waited last."""
        self._refusals = 0
        """Consecutive failures for a missing permission; only these lengthen the pause after one."""
        self._first_failure = 0.0
        self._quick_closes = 0
        self._told = False
        """Whether the log says that it is blocked."""
        self._task: asyncio.Task[None] | None = None
        self._session: asyncio.Task[None] | None = None
        self._appender: asyncio.Task[None] | None = None
        self._cursor_lost = False
        self.lost = False
        """Set when it ended because another holds the lease of its target."""

    def start(self) -> None:
        """Starts the loop; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name=f"shard {self.name}")

    def request_replay(self, wanted: int) -> None:
        """Replays soon, unless a replay that covers ``wanted`` is running already."""
        if self.state.replaying >= wanted:
            return
        self.state.must_replay = True
        self._wake.set()

    async def compare(self) -> None:
        """Restarts from the stored cursor where that is not what was appended last. Raises StoreUnavailable.

        An append in flight may look like a loss; restarting does no harm.
        """
        position = self.state.position
        expected = position.expected
        if expected is None:
            return
        cursor = await self.state.store.read_cursor(position.scope)
        if position.expected == expected and (cursor is None or cursor.append_id != expected):
            self._cursor_lost = True
            self._wake.set()

    def wake(self) -> None:
        """Ends a pause: what was in the way may have changed. The next pause is a short one again, because
        what has just come back (a type served again) may need a moment.
        """
        if self._failures:
            self._pauses = 0
            self._wake.set()

    async def stop(self, *, drain: bool) -> None:
        """Ends it and waits for the end. With ``drain`` its buffer may reach the journal first, for a
        while.
        """
        tasks = [task for task in (self._task, self._session) if task is not None]
        await end(tasks[:1])
        await end(tasks[1:])
        if self._appender is not None:
            if drain and not self.lost:
                barrier = self.state.buffer.barrier()
                await asyncio.wait(
                    (barrier, self._appender),
                    timeout=self.state.timing.drain,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            await end((self._appender,))
        self.state.buffer.discard()
        self.state.intake.terminating.replace(())

    async def _run(self) -> None:
        metrics.ACTIVE.labels(*self._labels).inc()
        try:
            while True:
                try:
                    pause = await self._once()
                except CursorLost as error:
                    log.info("%s: %s; it starts again from what is stored", self.name, error)
                    await self._again()
                    pause = self._failed(error)
                except LeaseLost:
                    raise
                except Exception as error:
                    log.exception("%s: a bug; the shard starts again from what is stored", self.name)
                    await self._again()
                    reason = f"internal error ({type(error).__name__}), see the log"
                    pause = self._failed(ReverserError(reason))
                self._pause = pause
                if pause > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._wake.wait()
        except LeaseLost as error:
            self.lost = True
            log.info("%s: %s", self.name, error)
        finally:
            metrics.ACTIVE.labels(*self._labels).dec()

    async def _again(self) -> None:
        """Forgets what is not in the journal; the next session starts with a fresh appender."""
        if self._appender is not None:
            await end((self._appender,))
        self._appender = None
        self.state.forget()
        with contextlib.suppress(StoreUnavailable):
            await self.state.seals.recall(self.state.spec.scope)

    async def _once(self) -> float:
        """One session; returns the pause after it. Raises LeaseLost or CursorLost."""
        loop = asyncio.get_running_loop()
        started, seen = loop.time(), self.state.events
        self.state.streaming_since = None
        self._wake.clear()
        if self._appender is None:
            self._appender = asyncio.create_task(self.state.appender.run(), name=f"appender {self.name}")
        appender = self._appender
        self._session = session = asyncio.create_task(Session(self.state).run(), name=f"session {self.name}")
        waker = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait((session, appender, waker), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end((session, waker))
        if appender.done():
            appender.result()
        if self._cursor_lost:
            self._cursor_lost = False
            raise CursorLost(f"{self.state.spec.scope}: the store lost what was appended last")
        if loop.time() - started >= self.state.timing.healthy:
            self._recovered()
        self._streamed(loop.time())
        if session.cancelled():
            metrics.RESTARTS.labels(*self._labels, "rule_change").inc()
            return 0.0
        try:
            session.result()
        except (LeaseLost, CursorLost):
            raise
        except ReverserError as error:
            return self._failed(error)
        quick = loop.time() - started < self.state.timing.quick_close and self.state.events == seen
        return self._closed(quick=quick)

    @property
    def _labels(self) -> tuple[str, ...]:
        return (*metrics.type_labels(self.state.spec.type), metrics.scope_label(self.state.spec))

    def _recovered(self) -> None:
        if self._told:
            log.info("%s: streams again", self.name)
        self._failures = self._pauses = self._refusals = 0
        self._told = False

    def _streamed(self, now: float) -> None:
        """What streamed for as long as it had been waited for was open again: the next pause is a short one.

        A server that ends every stream soon after it opened is still asked ever more rarely.
        """
        since = self.state.streaming_since
        if since is not None and now - since >= max(self.state.timing.steady, self._pause):
            self._pauses = 0

    def _closed(self, *, quick: bool) -> float:
        """The pause after an orderly close: none, unless the server closes suspiciously fast."""
        metrics.RESTARTS.labels(*self._labels, "disconnect").inc()
        if not quick:
            self._quick_closes = 0
            self._recovered()
            return 0.0
        self._quick_closes += 1
        if self._quick_closes >= self.state.timing.quick_closes:
            self._quick_closes = 0
            self.state.must_replay = True
        return self.state.timing.backoff(self._quick_closes + 1)

    def _failed(self, error: ReverserError) -> float:
        """The pause in seconds after a failure, which is also shown in the status."""
        timing = self.state.timing
        now = asyncio.get_running_loop().time()
        self._failures += 1
        self._pauses += 1
        if self._failures == 1:
            self._first_failure = now
            log.info("%s: %s", self.name, error)
        if isinstance(error, KubeForbidden | KubeUnauthenticated):
            self.state.show(StreamState.BLOCKED, "WatchNotPermitted", str(error))
            metrics.RESTARTS.labels(*self._labels, "forbidden").inc()
            if isinstance(error, KubeUnauthenticated):
                return timing.backoff(self._pauses)
            self._refusals += 1
            return timing.backoff(self._refusals, forbidden=True)
        self._refusals = 0
        if isinstance(error, KubeGone):
            self.state.must_replay = True
            metrics.RESTARTS.labels(*self._labels, "410_gone").inc()
        else:
            metrics.RESTARTS.labels(*self._labels, "error").inc()
        text = str(error)
        if isinstance(error, KubeNotFound):
            self.state.on_missing()
            kind = self.state.spec.scope.group_resource
            text = f"{kind} is not served now; a minute later it is watched no more, its files stay ({error})"
        # A server that asks for time is starting or busy, not at fault, until that lasts.
        many = self._failures >= 3 and not isinstance(error, KubeThrottled)
        persistent = many or now - self._first_failure >= timing.blocked_after
        redis = isinstance(error, StoreUnavailable)
        if not redis and (
            persistent or isinstance(error, KubeNotFound) or not isinstance(error, TransientError)
        ):
            self.state.show(StreamState.BLOCKED, "WatchError", text)
            if persistent and not self._told:
                self._told = True
                log.warning("%s: blocked: %s", self.name, error)
        wait = timing.backoff(self._pauses)
        asked = error.retry_after if isinstance(error, TransientError) else None
        return max(wait, asked) if asked is not None else wait
