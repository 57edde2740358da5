"""``POST /audit-webhook``: batches of audit events become facts about who did what.

The status code is the whole protocol: 2xx means "accepted", anything else makes the API server send the batch
again, a few times. So events of no use inside a batch are accepted and counted, and a request fails only when
its envelope cannot be read or the store cannot write. Events are handled in the order of the list, facts are
filed in chunks, and a chunk that fails ends the request; sending it again is harmless.

Bodies may hold Secrets: nothing of them is logged, echoed or kept beyond the facts.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from reverser.errors import StoreUnavailable
from reverser.factmetrics import FACTS
from reverser.sparing import Sparing
from reverser.store.attribution import Fact
from webhooks import metrics
from webhooks.evidence import COLLECTION, facts_of, subject_of, timestamp
from webhooks.gate import MUTATING, Outcome, is_truncated, refuse, verb_of
from webhooks.http import BadBody, Environ, StartResponse, read_body, say
from webhooks.people import impersonated
from webhooks.salvage import take_apart

log = logging.getLogger(__name__)

_OUTAGE = Sparing(lines=2, seconds=60)

PATH = "/audit-webhook"
CHUNK_FACTS = 200
CLIENT_NAMES = "reverser.client_names"
"""In the environment: the names in the client's certificate, where there is one."""
_TRUNCATED = (
    "an audit event came without its bodies: who changes objects as large as that one is not known; "
    "raise the API server's --audit-webhook-truncate-max-event-size (docs/attribution.md)"
)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_READ_VERBS = frozenset({"get", "list", "watch"})


class FactStore(Protocol):
    """Where facts are filed."""

    def write_facts(self, facts: Sequence[Fact], ttl_ms: int) -> int:
        """File facts in order. Raises StoreUnavailable."""
        ...


class Unusable(Exception):
    """The envelope is not an EventList."""


class AuditIngress:
    """The WSGI application. Safe to be called by many threads at once."""

    def __init__(
        self,
        store: FactStore,
        *,
        ttl_ms: int,
        max_body: int,
        client_names: frozenset[str] = frozenset(),
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._ttl_ms = ttl_ms
        self._max_body = max_body
        self._client_names = client_names
        self._wall = wall
        self._since = wall()
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if path != PATH and not path.startswith(f"{PATH}/"):
            return self._refuse(start_response, 404, "path", "Not found")
        if environ.get("REQUEST_METHOD") != "POST":
            return self._refuse(start_response, 405, "method", "Method not allowed")
        if path == f"{PATH}/":
            return self._refuse(
                start_response, 400, "path", f"the path {PATH} must not include a trailing slash"
            )
        if path != PATH:
            return self._refuse(
                start_response,
                400,
                "path",
                f"the path {PATH} must not include a cluster ID or extra path segment",
            )
        names = environ.get(CLIENT_NAMES, ())
        if self._client_names and self._client_names.isdisjoint(names):
            return self._refuse(
                start_response, 403, "client", "this client certificate is not in REVERSER_AUDIT_CLIENT_NAMES"
            )
        self._tell("first audit request received")
        return self._take(environ, start_response)

    def _refuse(self, start_response: StartResponse, status: int, reason: str, text: str) -> Iterable[bytes]:
        metrics.REFUSED.labels(reason).inc()
        return say(start_response, status, text)

    def _take(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        started = time.monotonic()
        count = 0
        try:
            items = _items(read_body(environ, self._max_body))
            count = len(items)
            self._handle(items)
            outcome = "processed" if items else "empty"
            status, text = 200, "Audit event processed" if items else "Empty event list processed"
        except (BadBody, Unusable) as error:
            outcome, status, text = "decode_error", 400, str(error)
            log.info("audit request refused: %s", error)
        except StoreUnavailable as error:
            outcome, status, text = "process_error", 500, str(error)
            if _OUTAGE.left(""):
                log.warning(
                    "audit events could not be stored, the API server will send them again: %s", error
                )
        metrics.LISTS.labels(outcome).inc()
        if outcome != "decode_error":
            metrics.LIST_EVENTS.labels(outcome).inc(count)
        metrics.LIST_SECONDS.labels(outcome).observe(time.monotonic() - started)
        return say(start_response, status, text)

    def _handle(self, items: Sequence[Any]) -> None:
        """Files the facts of a list in its order. Raises StoreUnavailable with the rest undone."""
        waiting: list[Mapping[str, Any]] = []
        facts: list[Fact] = []
        for item in items:
            refused = refuse(item)
            if refused is not None:
                _count(item, refused)
                continue
            if is_truncated(item):
                self._tell(_TRUNCATED, level=logging.WARNING)
            found = facts_of(item)
            if not found:
                _count(item, Outcome.NO_FACT)
                continue
            waiting.append(item)
            facts += found
            if len(facts) >= CHUNK_FACTS:
                self._file(waiting, facts)
                waiting, facts = [], []
        if facts:
            self._file(waiting, facts)

    def _file(self, events: Sequence[Mapping[str, Any]], facts: Sequence[Fact]) -> None:
        try:
            for start in range(0, len(facts), CHUNK_FACTS):
                self._store.write_facts(
                    [self._dated(fact) for fact in facts[start : start + CHUNK_FACTS]], self._ttl_ms
                )
        except StoreUnavailable:
            _count(events[0], Outcome.WRITE_ERROR)
            raise
        self._tell("first audit fact recorded")
        FACTS.labels("written").inc(len(facts))
        expanded = sum(1 for fact in facts if fact.verb == COLLECTION)
        if expanded:
            FACTS.labels("deletecollection_expanded").inc(expanded)
        now = self._wall()
        for event in events:
            _count(event, Outcome.QUEUED)
            if impersonated(event):
                self._tell("first impersonated event recorded")
            taken = _moment(event.get("stageTimestamp"))
            if taken is not None and taken >= self._since:
                metrics.LAG.observe(max(0.0, now - taken))

    def _dated(self, fact: Fact) -> Fact:
        """What the API server kept and sent again while nobody listened is no measure of the stream."""
        taken = _moment(fact.stage_timestamp)
        return fact if taken is None or taken >= self._since else replace(fact, from_before=True)

    def _tell(self, what: str, *, level: int = logging.INFO) -> None:
        """Logs a milestone, or what is wrong with the installation, once."""
        if what in self._told:
            return
        with self._lock:
            if what not in self._told:
                self._told.add(what)
                log.log(level, what)


def _items(body: bytes) -> list[Any]:
    """The items of an EventList. Raises Unusable."""
    try:
        envelope = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        envelope = take_apart(body)
        if envelope is None:
            raise Unusable("the body is not JSON; send an audit.k8s.io/v1 EventList") from error
    if not isinstance(envelope, dict):
        raise Unusable("the body is not an object; send an audit.k8s.io/v1 EventList")
    for field, wanted in (("kind", "EventList"), ("apiVersion", "audit.k8s.io/v1")):
        if envelope.get(field) not in (None, wanted):
            raise Unusable(f"{field} is not {wanted}; send an audit.k8s.io/v1 EventList")
    items = envelope.get("items")
    if items is None:
        return []
    if not isinstance(items, list):
        raise Unusable("items is not a list; send an audit.k8s.io/v1 EventList")
    return items


def _moment(value: object) -> float | None:
    """A time of an event as Unix time."""
    stamp = timestamp(value)
    try:
        whole = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return whole + float(f"0{stamp[19:29]}")


def _count(item: Any, outcome: Outcome) -> None:
    """One outcome per event. Labels are bounded in shape: an unusual value counts as unknown."""
    event = item if isinstance(item, Mapping) else {}
    subject = subject_of(event)
    kind = ("unknown", "unknown", "unknown")
    if _LABEL.fullmatch(subject.resource):
        group = subject.group if not subject.group or _LABEL.fullmatch(subject.group) else "unknown"
        version = subject.version if _LABEL.fullmatch(subject.version) else "unknown"
        kind = (group, version, subject.resource)
    verb = verb_of(event)
    verb = verb if verb in MUTATING or verb in _READ_VERBS else "other"
    metrics.EVENTS.labels(str(outcome), outcome.category, *kind, verb).inc()
