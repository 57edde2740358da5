"""Outcomes as they happen, as server-sent events.

A stream holds a thread of web, so their number is limited (``OPEN``), each ends after some minutes, and each
sends something at least every ten seconds, which is how a disconnected client is noticed. The event's id is
its position in the store's stream: a client that comes back with ``Last-Event-ID`` misses nothing that the
store still has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from reverser.errors import ReverserError
from reverser.kube.sync import Kube
from reverser.rest.access import Access, may
from reverser.rest.documents import outcome
from reverser.rest.identity import Caller
from reverser.rest.throttling import OPEN, OpenRequests
from reverser.rest.views import IN_NAMESPACE, View
from reverser.store import Store
from reverser.wiring import kube, store

LONGEST_SECONDS = 300.0
QUIET_SECONDS = 10.0
BLOCK_MS = 1000
BATCH = 100
_PLACE = r"[0-9]{1,19}-[0-9]{1,19}"


class OutcomeStream:
    """The body of the answer. Gives its place back when it is closed, even if nobody ever read from it."""

    def __init__(
        self,
        store: Store,
        kube: Kube,
        *,
        caller: Caller,
        access: Access,
        after: str,
        places: OpenRequests,
        seconds: float = LONGEST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kube = kube
        self._caller = caller
        self._access = access
        self._places = places
        self._ends = clock() + seconds
        self._clock = clock
        self._closed = False
        self._lines = self._run(after)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._lines)

    def close(self) -> None:
        """The client disconnected, or the stream has ended."""
        if not self._closed:
            self._closed = True
            self._places.leave(self._caller.username)
        self._lines.close()

    def _run(self, after: str) -> Generator[bytes, None, None]:
        yield b"retry: 2000\n\n"
        said = self._clock()
        while self._clock() < self._ends:
            try:
                if not may(self._kube, self._caller, self._access):
                    yield b"event: end\ndata: the right to see this was taken away\n\n"
                    return
                found = self._store.read_outcomes(after, BATCH, BLOCK_MS)
            except ReverserError:
                yield b"event: end\ndata: the store or the cluster does not answer; connect again\n\n"
                return
            for place, item in found:
                after = place
                if self._access.namespace in ("", item.target.namespace):
                    yield _event(place, outcome(item))
                    said = self._clock()
            if self._clock() - said >= QUIET_SECONDS:
                yield b": still here\n\n"
                said = self._clock()


def _event(place: str, body: dict[str, Any]) -> bytes:
    # JSON has no raw line feed, so one data line holds it.
    return f"id: {place}\nevent: outcome\ndata: {json.dumps(body)}\n\n".encode()


class Events(View):
    """Outcomes as they happen."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """A client that accepts only events still reads refusals as JSON."""
        renderer = self.get_renderers()[0]
        return renderer, renderer.media_type

    @extend_schema(
        operation_id="followOutcomes",
        parameters=[
            IN_NAMESPACE,
            OpenApiParameter(
                "Last-Event-ID",
                {"type": "string", "pattern": f"^{_PLACE}$"},
                OpenApiParameter.HEADER,
                description="Continue after this event; without it only new events are sent",
            ),
        ],
        responses={(200, "text/event-stream"): OpenApiResponse({"type": "string"}, "Events named `outcome`")},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Follow outcomes: pushed, refused, held and so on. Seen by whoever may list GitTargets."""
        import re

        namespace = self.namespace()
        after = request.headers.get("Last-Event-ID", "")
        if after and not re.fullmatch(_PLACE, after):
            raise ValidationError({"Last-Event-ID": "an id of an earlier event"})
        access = Access("list", "gittargets", namespace)
        self.authorize("list", "gittargets", namespace=namespace)
        after = after or f"{store().time_ms()}-0"
        edges = store(), kube()
        body: Iterator[bytes] = iter(())
        if request.method != "HEAD":
            OPEN.enter(self.caller.username)
            body = OutcomeStream(*edges, caller=self.caller, access=access, after=after, places=OPEN)
        response = StreamingHttpResponse(body, content_type="text/event-stream")
        response["Cache-Control"] = "no-store"
        response["X-Accel-Buffering"] = "no"
        return response
