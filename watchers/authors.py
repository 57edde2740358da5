"""Names the author of a live event, when the audit stream proves it within the grace.

One lookup, then sleep until an announcement names the object: no polling, however many events wait. Lookups
of many events are batched. A last lookup at the deadline makes up for lost announcements. A name that another
request may still contradict is given with a claim: the writer reads the evidence again before it finalizes
the window. Whatever goes wrong (Redis, odd values, the end of the process) means the committer; there is no
path that raises or waits without bound.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reverser.errors import StoreUnavailable
from reverser.factmetrics import FACTS
from reverser.store import AsyncStore
from reverser.store.attribution import TOPIC, Fact, Slot, announced
from reverser.store.model import Author
from watchers import metrics
from watchers.coverage import Coverage
from watchers.evidence import (
    ABSENT,
    STRONG,
    WEAK,
    Result,
    Verdict,
    claim_of,
    is_idle,
    judge,
    lead,
    slot_names,
    subjects,
)
from watchers.hooks import EventFacts, Named

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How long Redis may take to answer a lookup, beyond the grace of the event."""
LAST_LOOK = 0.05
"""Seconds before the deadline at which an event without an announcement is looked up once more."""
LISTEN_SECONDS = 5.0
RETRY_SECONDS = 0.5
BATCH = 500
SLACK = 0.02
"""Seconds by which a request may be younger than the change and still have made it: clocks differ."""
SAMPLES = 64
LEAST_SAMPLES = 5
LEAST_RIPE = 1.5
"""Seconds after a change in which a second request is expected at least: a batch of 1 s, and its delivery."""
RIPE_FACTOR = 1.25
REMEMBERED = 10_000
Waiter = tuple[str, str]


class Clocks:
    """How far the clock here is from the API server's, learnt from the facts themselves.

    A change is seen after its request was received. If many requests look otherwise, the clock here is behind
    that of a server, and by how much is the fifth of them that is earliest; if few do, those changed nothing.
    """

    def __init__(self) -> None:
        self._leads: deque[float] = deque(maxlen=SAMPLES)
        self._judged: OrderedDict[tuple[str, ...], bool] = OrderedDict()

    def plausible(self, fact: Fact, seen: float) -> bool:
        """Whether a change that was seen at ``seen`` (Unix time) can be the doing of this request."""
        seconds = lead(fact, seen)
        if seconds is None:
            return True
        # The id alone does not name the request: a client may choose it, and use it again.
        name = (fact.audit_id, fact.uid, fact.resource_version, fact.author)
        known = self._judged.get(name)
        if known is not None:
            return known
        known_leads = sorted(self._leads) if len(self._leads) >= LEAST_SAMPLES else [0.0]
        behind = min(0.0, known_leads[len(known_leads) // 5])
        self._leads.append(seconds)
        verdict = fact.surely_wrote or seconds >= behind - SLACK
        self._judged[name] = verdict
        if len(self._judged) > REMEMBERED:
            self._judged.popitem(last=False)
        return verdict


@dataclass(frozen=True, slots=True)
class Question:
    """An event whose author is looked for."""

    event: EventFacts
    slots: tuple[str, ...]
    """The keys of its evidence."""
    seen: float
    """When its change showed up here (Unix time)."""
    started: float
    """The same in the event loop's time."""


class FactResolver:
    """The resolver of one watcher; ``await close()`` ends its listening."""

    def __init__(
        self, store: AsyncStore, *, coverage: Coverage | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._coverage = coverage or Coverage()
        self._wall = wall
        self._clocks = Clocks()
        self._lags: deque[float] = deque(maxlen=SAMPLES)
        """Seconds by which recent facts arrived after their changes."""
        self._waiters: dict[Waiter, set[asyncio.Event]] = {}
        self._missed: OrderedDict[Waiter, None] = OrderedDict()
        self._looks: list[tuple[Sequence[str], asyncio.Future[list[Slot]]]] = []
        self._looker: asyncio.Task[None] | None = None
        self._used: list[str] = []
        self._marker: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    async def resolve(self, facts: EventFacts) -> Named | None:
        """The author, at the latest at the event's deadline; None when it is not certain."""
        asked = Question(
            facts, slot_names(facts), seen=self._wall(), started=asyncio.get_running_loop().time()
        )
        self._listen()
        try:
            verdict = await self._verdict(asked)
        except StoreUnavailable as error:
            log.debug("no author for %s: %s", facts.type.resource, error)
            verdict = ABSENT
        waited = asyncio.get_running_loop().time() - asked.started
        self._record(asked, verdict, waited)
        return self._named(asked, verdict, waited)

    async def submitter(self, request_uid: str) -> Author | None:
        """Who created a CommitRequest, as admission recorded it before the object was visible.

        Raises StoreUnavailable: an unreachable Redis is not an answer, and the caller asks again.
        """
        return await self._store.read_submitter(request_uid)

    async def close(self) -> None:
        """Stops listening."""
        tasks = [task for task in (self._listener, self._looker, self._marker) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _named(self, asked: Question, verdict: Verdict, waited: float) -> Named | None:
        author = verdict.author
        if author is None or verdict.fact is None:
            return None
        self._lags.append(waited)
        grace = asked.event.deadline - asked.started
        needed = min(max(LEAST_RIPE, max(self._lags) * RIPE_FACTOR), grace)
        return Named(author, claim_of(verdict.fact, ripe_ms=int(max(needed - waited, 0.0) * 1000)))

    async def _verdict(self, asked: Question) -> Verdict:
        loop, event = asyncio.get_running_loop(), asked.event
        kind = event.type.group_resource
        woken = asyncio.Event()
        places = [(kind, subject) for subject in subjects(event)]
        for place in places:
            self._waiters.setdefault(place, set()).add(woken)
        try:
            verdict = await self._look(asked)
            if verdict.final or not places or not self._coverage.worth_waiting(kind):
                return verdict
            heard = False
            while (left := event.deadline - loop.time()) > 0:
                try:
                    async with asyncio.timeout(max(left - LAST_LOOK, left / 2)):
                        await woken.wait()
                except TimeoutError:
                    return await self._last_look(asked, heard=heard)
                woken.clear()
                heard = True
                verdict = await self._look(asked)
                if verdict.final:
                    return verdict
            return verdict
        finally:
            for place in places:
                waiting = self._waiters[place]
                waiting.discard(woken)
                if not waiting:
                    del self._waiters[place]

    async def _last_look(self, asked: Question, *, heard: bool) -> Verdict:
        verdict = await self._look(asked)
        if not heard and verdict.result is Result.ABSENT:
            ended = asyncio.get_running_loop().time()
            self._coverage.in_vain(asked.event.type.group_resource, started=asked.started, ended=ended)
        return verdict

    async def _look(self, asked: Question) -> Verdict:
        """One look at the slots of an event, together with others that look now."""
        event = asked.event
        future: asyncio.Future[list[Slot]] = asyncio.get_running_loop().create_future()
        self._looks.append((asked.slots, future))
        if self._looker is None or self._looker.done():
            self._looker = asyncio.create_task(self._read(), name="authors look")
        left = event.deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(left, 0.0) + LOOK_SECONDS):
                slots = await future
        except TimeoutError:
            return ABSENT
        verdict = judge(event, slots)
        if verdict.result is not Result.ABSENT:
            self._coverage.heard(event.type.group_resource)
        carrier = verdict.fact if verdict.result in STRONG else None
        if carrier is None:
            return verdict
        idle = is_idle(carrier, event) or not self._clocks.plausible(carrier, asked.seen)
        return WEAK if idle else verdict

    async def _read(self) -> None:
        while self._looks:
            batch, self._looks = self._looks[:BATCH], self._looks[BATCH:]
            names = list(dict.fromkeys(name for wanted, _ in batch for name in wanted))
            try:
                found = dict(zip(names, await self._store.read_slots(names), strict=True))
            except StoreUnavailable as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(StoreUnavailable(str(error)))
                continue
            for wanted, future in batch:
                if not future.done():
                    future.set_result([found[name] for name in wanted])

    async def _mark(self) -> None:
        """Tells which facts were used, many at a time. For a metric alone: what fails is not tried again."""
        while self._used:
            batch, self._used = self._used[:BATCH], self._used[BATCH:]
            try:
                await self._store.mark_used(batch)
            except StoreUnavailable as error:
                log.debug("used facts are counted as unused: %s", error)

    def _listen(self) -> None:
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._follow(), name="authors")

    async def _follow(self) -> None:
        """Wakes those whose object is announced; after a lost connection, everybody."""
        while True:
            try:
                async with self._store.subscribe(TOPIC) as hints:
                    self._wake_all()
                    while True:
                        hint = await hints.get(LISTEN_SECONDS)
                        if hint is not None:
                            self._announce(hint.payload)
            except StoreUnavailable as error:
                log.debug("announcements of authors wait: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    def _wake_all(self) -> None:
        for waiting in self._waiters.values():
            for woken in waiting:
                woken.set()

    def _announce(self, payload: str) -> None:
        for kind, about in announced(payload).items():
            self._coverage.heard(kind)
            for subject in about:
                place = (kind, subject)
                for woken in self._waiters.get(place, ()):
                    woken.set()
                if place in self._missed:
                    del self._missed[place]
                    FACTS.labels("late").inc()

    def _record(self, asked: Question, verdict: Verdict, waited: float) -> None:
        event = asked.event
        labels = (str(verdict.result), *metrics.type_labels(event.type))
        metrics.RESOLUTIONS.labels(*labels).inc()
        metrics.RESOLUTION_WAIT.labels(*labels).observe(waited)
        if verdict.author is not None:
            FACTS.labels("matched").inc()
            self._used += asked.slots[:2]
            if self._marker is None or self._marker.done():
                self._marker = asyncio.create_task(self._mark(), name="authors used")
            return
        if event.uid:
            self._missed[(event.type.group_resource, f"u{event.uid}")] = None
            if len(self._missed) > REMEMBERED:
                self._missed.popitem(last=False)
