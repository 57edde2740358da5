"""Watch streams: initial events, live events, bookmarks, and every way a stream ends.

A stream holds a position in the history of its resource and reads on from there whenever it is woken, so a
slow client costs nothing but its position; when the history has moved past it, the stream ends and the client
resumes or relists. An event is serialised once for all streams that show it in the same form.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.sandbox import represent
from reverser.sandbox.call import Call
from reverser.sandbox.emptybodies import empty_body
from reverser.sandbox.faults import Faults
from reverser.sandbox.reads import Selection, selection, version_of
from reverser.sandbox.registry import Resource
from reverser.sandbox.represent import Form
from reverser.sandbox.status import ApiError, expired, invalid_list_options
from reverser.sandbox.storage import Compacted, Event, EventType, Storage

Obj = dict[str, Any]
Send = Callable[[bytes], Awaitable[None]]

#: Events joined into one write, so that a burst neither blocks the loop nor makes a giant chunk.
_BURST = 500
#: After sending, a stream lets further events gather for this long (seconds): the first event of a burst goes
#: at once, and many streams on a busy resource cost a few writes each instead of one per event.
_GATHER = 0.02
#: Without `timeoutSeconds` a server ends a watch after 30 to 60 minutes.
_DEFAULT_TIMEOUT = 1800.0


class CutStream(Exception):
    """The connection must be torn down now, not ended."""


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """What a stream starts with, decided before the first byte is sent."""

    resource: Resource
    selection: Selection
    form: Form
    include: str
    initial: bool
    end_marker: bool
    bookmarks: bool
    after: int | None
    timeout: float


def plan(call: Call, form: Form, faults: Faults, *, watch_list: bool) -> WatchPlan:
    """Read the parameters of a watch. Raises 422 and 500 as a server does."""
    query = call.query
    streaming = query.get("sendInitialEvents", "")
    match = query.get("resourceVersionMatch", "")
    if streaming and (faults.refuse_streaming_lists or not watch_list):
        raise invalid_list_options(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        )
    if streaming and match != "NotOlderThan":
        raise invalid_list_options(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if match and not streaming:
        raise invalid_list_options(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    wants_initial = streaming in ("true", "1", "True")
    after = version_of(query.get("resourceVersion", ""))
    initial = wants_initial or (not streaming and not after)
    bookmarks = query.get("allowWatchBookmarks", "") in ("true", "1", "True")
    seconds = query.get("timeoutSeconds", "")
    return WatchPlan(
        resource=call.resource,
        selection=selection(call),
        form=form,
        include=query.get("includeObject", ""),
        initial=initial,
        end_marker=wants_initial and bookmarks,
        bookmarks=bookmarks,
        after=after or None,
        timeout=float(seconds)
        if seconds.isdigit() and int(seconds)
        else _DEFAULT_TIMEOUT * random.uniform(1, 2),  # noqa: S311 - only spreads the ends of streams,
    )


class Stream:
    """One open watch."""

    def __init__(
        self,
        storage: Storage,
        faults: Faults,
        watch: WatchPlan,
        *,
        target: str,
        bookmark_interval: float,
        watch_cache: bool,
    ) -> None:
        self.resource = watch.resource
        self.target = target
        self._storage = storage
        self._faults = faults
        self._plan = watch
        self._bookmark_interval = bookmark_interval
        self._watch_cache = watch_cache
        self._bucket = storage.bucket(watch.resource.key)
        self._wake = asyncio.Event()
        self._ending = False
        self._cut = False
        self._columns_sent = False
        self._variant = f"{watch.form.value}:{watch.include}:{watch.resource.group_version}"

    def end(self, *, clean: bool = True) -> None:
        """End the stream after what is pending, or (not clean) tear the connection down now."""
        self._ending = True
        self._cut = not clean
        self._wake.set()

    async def run(self, send: Send) -> None:
        """Send lines until the stream ends. Raises CutStream where the connection must be broken."""
        try:
            position, lines = self._start()
        except Compacted:
            await send(_line("ERROR", orjson.dumps(self._too_old().body())))
            return
        self._bucket.listeners.add(self._wake.set)
        try:
            for start in range(0, len(lines), _BURST):
                await self._emit(send, lines[start : start + _BURST])
            await self._follow(send, position)
        finally:
            self._bucket.listeners.discard(self._wake.set)

    def _start(self) -> tuple[int, list[bytes]]:
        watch = self._plan
        if not watch.initial:
            after = watch.after if watch.after is not None else self._storage.rv
            return self._storage.position_after(watch.resource.key, after), []
        lines = []
        for obj in self._storage.items(watch.resource.key, watch.selection.namespace):
            if watch.selection.sees(obj):
                lines.append(_line(EventType.ADDED, self._encode(obj)))
        if watch.end_marker and not self._faults.withhold_end_marker:
            lines.append(self._bookmark(end=True))
        return self._bucket.end, lines

    async def _follow(self, send: Send, position: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._plan.timeout
        next_bookmark = loop.time() + self._bookmark_interval
        while True:
            self._wake.clear()
            if self._cut:
                raise CutStream
            if position < self._bucket.cut:
                return
            events = self._bucket.events[position - self._bucket.cut :][:_BURST]
            position += len(events)
            lines = [line for event in events for line in self._lines(event)]
            if lines:
                await self._emit(send, lines)
                await asyncio.sleep(_GATHER)
            if position < self._bucket.end:
                continue
            now = loop.time()
            if self._ending or now >= deadline:
                return
            if self._plan.bookmarks and now >= next_bookmark:
                next_bookmark = now + self._bookmark_interval
                if not self._faults.drop_bookmarks:
                    await self._emit(send, [self._bookmark(end=False)])
                    continue
            until = min(deadline, next_bookmark) if self._plan.bookmarks else deadline
            try:
                async with asyncio.timeout(max(until - now, 0.001)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _emit(self, send: Send, lines: list[bytes]) -> None:
        broken = self._faults.take_broken_line(self.target)
        if broken is True:
            await send(lines[0][: len(lines[0]) // 2])
            raise CutStream
        if broken is False:
            await send(b"this line is not JSON\n")
        await send(b"".join(lines))

    def _lines(self, event: Event) -> list[bytes]:
        watch = self._plan
        if watch.after is not None and event.rv <= watch.after:
            return []
        if event.type is EventType.DELETED:
            return [self._shared(event, event.type)] if watch.selection.sees(event.obj) else []
        sees = watch.selection.sees(event.obj)
        saw = event.prev is not None and watch.selection.sees(event.prev)
        if sees:
            kind = EventType.MODIFIED if saw else EventType.ADDED
            return [self._shared(event, kind)]
        if saw and event.prev is not None:
            metadata = event.prev["metadata"] | {"resourceVersion": str(event.rv)}
            return [_line(EventType.DELETED, self._encode(event.prev | {"metadata": metadata}))]
        return []

    def _shared(self, event: Event, kind: EventType) -> bytes:
        """The line of an event; made once for all streams of one form, except for Tables."""
        if self._plan.form is Form.TABLE:
            return _line(kind, self._encode(event.obj))
        form = f"{kind}:{self._variant}"
        found = event.encoded.get(form)
        if found is None:
            found = event.encoded[form] = _line(kind, self._encode(event.obj))
        return found

    def _encode(self, obj: Obj) -> bytes:
        watch = self._plan
        shown = represent.one(watch.resource, watch.form, watch.resource.view(obj), watch.include)
        if watch.form is Form.TABLE:
            if self._columns_sent:
                shown = {key: value for key, value in shown.items() if key != "columnDefinitions"}
                shown["columnDefinitions"] = None
            self._columns_sent = True
        return orjson.dumps(shown)

    def _bookmark(self, *, end: bool) -> bytes:
        watch, rtype = self._plan, self._plan.resource.rtype
        metadata: Obj = {"resourceVersion": str(self._storage.rv)}
        if end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Obj = {"kind": rtype.kind, "apiVersion": rtype.group_version, "metadata": metadata}
        if watch.form is Form.METADATA:
            obj = represent.metadata_only(obj)
        elif watch.form is Form.TABLE:
            obj = represent.table(watch.resource, [], {"resourceVersion": metadata["resourceVersion"]}, "")
            obj["metadata"] = metadata
        else:
            obj |= empty_body(rtype.group, rtype.kind)
        return _line("BOOKMARK", orjson.dumps(obj))

    def _too_old(self) -> ApiError:
        if not self._watch_cache:
            return expired("The resourceVersion for the provided watch is too old.")
        return expired(f"too old resource version: {self._plan.after} ({self._bucket.compacted})")


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
