"""The audit ingress as an application: paths, envelopes, batches, and what is counted."""

from __future__ import annotations

import gzip
import io
import logging
import time
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from reverser.store import Store
from reverser.store.attribution import Fact, exact_key
from tests.auditevents import audit, collection, deletion, event_list
from tests.webhooks.call import Memory, call
from webhooks.audit import CLIENT_NAMES, AuditIngress
from webhooks.gate import Outcome

MARKER = "zq-MARKER-7719"


def ingress(store: Any, **more: Any) -> AuditIngress:
    return AuditIngress(store, ttl_ms=900_000, max_body=more.pop("max_body", 10 * 2**20), **more)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def app(memory: Memory) -> AuditIngress:
    return ingress(memory)


class Counted:
    """How far counters moved since it was made."""

    def __init__(self) -> None:
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for metric in REGISTRY.collect():
            for sample in metric.samples:
                if sample.name == "gitopsreverser_audit_events_total":
                    key = sample.labels["outcome"]
                elif sample.name == "gitopsreverser_audit_eventlists_total":
                    key = f"list {sample.labels['outcome']}"
                else:
                    continue
                found[key] = found.get(key, 0) + sample.value
        return found

    @property
    def moved(self) -> dict[str, float]:
        now = self._read()
        moved = {key: value - self._before.get(key, 0) for key, value in now.items()}
        return {key: value for key, value in moved.items() if value}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/audit-webhook", 200),
        ("GET", "/audit-webhook", 405),
        ("PUT", "/audit-webhook", 405),
        ("DELETE", "/audit-webhook", 405),
        ("HEAD", "/audit-webhook", 405),
        ("GET", "/audit-webhook/", 405),
        ("POST", "/audit-webhook/", 400),
        ("POST", "/audit-webhook/cluster-1", 400),
        ("POST", "/audit-webhook//", 400),
        ("POST", "/audit-webhook-additional", 404),
        ("POST", "/", 404),
        ("POST", "", 404),
        ("POST", "/AUDIT-WEBHOOK", 404),
    ],
)
def test_methods_and_paths(app: AuditIngress, method: str, path: str, status: int) -> None:
    """H01: one path, one method, never a redirect."""
    answer = call(app, event_list(), method=method, path=path)
    assert answer.status == status
    assert "Location" not in answer.headers


def test_texts_of_answers(app: AuditIngress) -> None:
    """A2, A3, A7: what the sender's log will show."""
    assert call(app, event_list()).text.strip() == "Empty event list processed"
    assert call(app, event_list(audit("create", "alice"))).text.strip() == "Audit event processed"
    assert call(app, method="GET").text.strip() == "Method not allowed"
    assert "must not include a trailing slash" in call(app, path="/audit-webhook/").text
    assert "must not include a cluster ID or extra path segment" in call(app, path="/audit-webhook/a").text


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b'{"kind":"EventList","items":[',
        b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"create"}',
        b'{"kind":"EventList","apiVersion":"v2"}',
        b'{"kind":5}',
        b'{"items":{}}',
        b'{"items":"x"}',
        b'{"items":[{"verb":"\xff\xfe"}]}',
        b'{"items":[NaN]}',
        b'{"items":' + DEEP,
        DEEP,
    ],
)
def test_envelopes_that_cannot_be_read(app: AuditIngress, memory: Memory, body: bytes) -> None:
    """H03: 400, nothing recorded."""
    counted = Counted()
    answer = call(app, body)
    assert answer.status == 400
    assert memory.facts == []
    assert counted.moved == {"list decode_error": 1}


@pytest.mark.parametrize(
    "body", [b"{}", b'{"kind":"EventList"}', b'{"items":null}', b'{"items":[],"items":[]}']
)
def test_envelopes_that_are_empty(app: AuditIngress, body: bytes) -> None:
    """A4: a missing kind, version or list is tolerated."""
    assert call(app, body).status == 200


def test_bad_items_beside_good_ones(app: AuditIngress, memory: Memory) -> None:
    """H03: a bad item is counted, and its neighbours are kept."""
    counted = Counted()
    items = [audit("create", "alice"), {"objectRef": 5}, 7, "x", audit("create", "bob", name="b", uid="u2")]
    assert call(app, event_list(*items)).status == 200
    assert [fact.author for fact in memory.facts] == ["alice", "bob"]
    assert counted.moved == {"list processed": 1, "queued": 2, "undecodable": 3}


def test_gate_in_one_list(app: AuditIngress, memory: Memory) -> None:
    """H05: exactly one outcome per item."""

    def sub(verb: str, name: str) -> dict[str, Any]:
        event = audit(verb, "alice", uid=f"s{name}")
        event["objectRef"]["subresource"] = name
        return event

    counted = Counted()
    items = [
        audit("create", "alice") | {"stage": "ResponseStarted"},
        audit("get", "alice"),
        audit("update", "alice", code=409),
        audit("create", "alice") | {"requestURI": "/api?dryRun=All"},
        audit("create", "alice") | {"requestURI": "/api?dryRun=None&dryRun=All"},
        audit("update", "alice", rv="5", request_rv="5"),
        sub("create", "status"),
        sub("patch", "scale"),
        audit("create", "alice"),
        None,
        audit("create", "alice", uid="u2") | {"responseStatus": None},
        deletion("alice") | {"verb": "DELETE"},
        audit("create", "alice", uid="u3") | {"requestURI": "/api?dryRun="},
        audit("create", ""),
    ]
    assert call(app, event_list(*items)).status == 200
    assert counted.moved == {
        "list processed": 1,
        "stage": 1,
        "read_only_or_unknown_verb": 1,
        "failed_request": 1,
        "dry_run": 2,
        "unchanged_resource_version": 1,
        "non_scale_subresource": 1,
        "nil_event": 1,
        "queued": 5,
        "no_attribution_fact": 1,
    }
    assert len(memory.facts) == 5


def test_body_limit(memory: Memory) -> None:
    """A5: exactly the limit passes, one byte more does not, and nothing is recorded."""
    body = orjson.dumps(event_list(audit("create", "alice")))
    assert call(ingress(memory, max_body=len(body)), body).status == 200
    memory.facts.clear()
    answer = call(ingress(memory, max_body=len(body) - 1), body)
    assert answer.status == 400
    assert f"request body too large: max {len(body) - 1} bytes" in answer.text
    assert answer.headers["Connection"] == "close"
    assert memory.facts == []


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", " GZIP ", "identity", ""])
def test_packed_bodies(memory: Memory, encoding: str) -> None:
    """A forwarder between the API server and here may pack what it sends; the facts are the same."""
    body = orjson.dumps(event_list(audit("create", "alice")))
    sent = gzip.compress(body) if "z" in encoding.lower() else body
    answer = call(ingress(memory), sent, HTTP_CONTENT_ENCODING=encoding)
    assert (answer.status, [fact.author for fact in memory.facts]) == (200, ["alice"])


PACKED = gzip.compress(b'{"kind":"EventList","items":[]}')


@pytest.mark.parametrize(
    ("encoding", "sent", "words"),
    [
        ("gzip", gzip.compress(b" " * 50_000_000), "too large: max 10485760 bytes, also unpacked"),
        ("gzip", gzip.compress(gzip.compress(b" " * 50_000_000)), "not JSON"),
        ("gzip", b'{"kind":"EventList"}', "not the gzip"),
        ("gzip", b"", "breaks off"),
        ("gzip", PACKED[:-9], "breaks off"),
        ("gzip", PACKED[:-4] + b"\xff\xff\xff\xff", "not the gzip"),
        ("gzip", PACKED + PACKED, "something behind it"),
        ("deflate", zlib.compress(b"{}"), "send gzip or none"),
        ("gzip, gzip", gzip.compress(PACKED), "send gzip or none"),
        ("br", b"{}", "send gzip or none"),
    ],
)
def test_packed_bodies_that_are_refused(memory: Memory, encoding: str, sent: bytes, words: str) -> None:
    """A5, A6: a bomb costs no more than the limit, and no packing is guessed."""
    tracemalloc.start()
    try:
        answer = call(ingress(memory), sent, HTTP_CONTENT_ENCODING=encoding)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()
    assert answer.status == 400
    assert words in answer.text
    assert memory.facts == []


class Endless(io.RawIOBase):
    """A body of which every read brings more; remembers how much was asked for."""

    asked = 0

    def read(self, size: int = -1) -> bytes:
        assert 0 <= size <= 64 * 1024
        self.asked += size
        return b"x" * size


def test_endless_body(memory: Memory) -> None:
    """A body without an end is read a little beyond its limit, never into memory whole."""
    source = Endless()
    more = {"CONTENT_LENGTH": "", "wsgi.input": source, "wsgi.input_terminated": True}
    assert call(ingress(memory, max_body=1000), **more).status == 400
    assert source.asked < 40 * 2**20


def test_body_that_breaks_off(app: AuditIngress) -> None:
    """A body shorter than it was said to be is refused."""
    assert call(app, event_list(), CONTENT_LENGTH="500").status == 400


def test_store_down_and_delivery_again(store: Store) -> None:
    """H06, A8: 500 so that it is sent again; the second delivery files it, the third changes nothing."""
    names = ("a", "b", "c")
    body = event_list(*(audit("create", "alice", name=name, uid=name) for name in names))
    counted = Counted()
    assert call(ingress(Memory(down=True)), body).status == 500
    assert counted.moved == {"list process_error": 1, "write_error": 1}
    assert call(ingress(store), body).status == 200
    keys = store.client.keys("*:audit:*")
    assert len(keys) == 6
    before = {key: store.client.get(key) for key in keys}
    assert call(ingress(store), body).status == 200
    assert {key: store.client.get(key) for key in store.client.keys("*:audit:*")} == before


def test_facts_before_a_failure_stay() -> None:
    """A8: what was filed before the store failed is counted and stays."""

    class Failing(Memory):
        def write_facts(self, facts: Any, ttl_ms: int) -> int:
            self.down = len(self.facts) > 0
            return Memory.write_facts(self, facts, ttl_ms)

    failing = Failing()
    counted = Counted()
    events = [audit("create", "alice", uid=f"u{n}") for n in range(300)]
    assert call(ingress(failing), event_list(*events)).status == 500
    assert len(failing.facts) == 200
    assert counted.moved == {"list process_error": 1, "queued": 200, "write_error": 1}


def test_large_collection_is_filed_in_parts(store: Store) -> None:
    """G18: a collection of thousands is expanded whole."""
    members = [(f"n{n}", f"u{n}") for n in range(1234)]
    assert call(ingress(store), event_list(collection("bob", *members))).status == 200
    assert len(store.client.keys("*:removal")) == 1234


def test_client_names(memory: Memory) -> None:
    """An allow-list of client names is enforced on every request."""
    app = ingress(memory, client_names=frozenset({"kube-apiserver"}))
    assert call(app, event_list()).status == 403
    assert call(app, event_list(), **{CLIENT_NAMES: frozenset({"eve"})}).status == 403
    assert call(app, event_list(), **{CLIENT_NAMES: frozenset({"x", "kube-apiserver"})}).status == 200


def test_secret_bodies_leave_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """H08, P6: of bodies nothing is logged, stored or echoed."""
    caplog.set_level(logging.DEBUG)
    leak = {
        "data": {"password": MARKER},
        "metadata": {"name": "a", "uid": "u1", "annotations": {"x": MARKER}},
    }
    events = [
        audit("create", "alice", resource="secrets") | {"requestObject": leak},
        audit("update", "alice", resource="secrets", code=400)
        | {"responseObject": leak, "requestObject": leak},
        {"objectRef": MARKER, "requestObject": leak},
    ]
    listed = collection("alice", ("a", "u1"), resource="secrets")
    listed["responseObject"]["items"][0]["data"] = {"password": MARKER}
    texts = [
        call(ingress(store), event_list(*events, listed)).text,
        call(ingress(Memory(down=True)), event_list(*events)).text,
        call(ingress(store), orjson.dumps(event_list(*events))[:-3]).text,
        call(ingress(store), {"kind": MARKER, "items": events}).text,
    ]
    readers = {b"string": store.client.get, b"zset": lambda key: store.client.zrange(key, 0, -1)}
    stored = {key: readers[store.client.type(key)](key) for key in store.client.keys("*")}
    assert len(stored) > 1
    assert MARKER not in repr(stored)
    assert not [text for text in texts if MARKER in text]
    assert MARKER not in caplog.text


def test_one_shot_information(app: AuditIngress, caplog: pytest.LogCaptureFixture) -> None:
    """A14: the first request, fact and impersonation are told once each."""
    caplog.set_level(logging.INFO)
    event = audit("create", "root") | {"impersonatedUser": {"username": "alice"}}
    for _ in range(3):
        call(app, event_list(event, event))
    told = [record.getMessage() for record in caplog.records if "first" in record.getMessage()]
    assert told == [
        "first audit request received",
        "first audit fact recorded",
        "first impersonated event recorded",
    ]


def test_events_without_their_bodies_are_told(app: AuditIngress, caplog: pytest.LogCaptureFixture) -> None:
    """What the API server takes out of large events names nobody; that is said once, with the flag."""
    caplog.set_level(logging.INFO)
    truncated = audit("update", "alice") | {
        "requestObject": None,
        "responseObject": None,
        "annotations": {"audit.k8s.io/truncated": "true"},
    }
    call(app, event_list(audit("create", "alice")))
    assert "truncate" not in caplog.text
    for _ in range(3):
        call(app, event_list(truncated))
    told = [record for record in caplog.records if "truncate-max-event-size" in record.getMessage()]
    assert [record.levelname for record in told] == ["WARNING"]


def test_lag_is_measured(memory: Memory) -> None:
    """The lag of the stream is known, so that a grace that is too short can be told. What the API server kept
    while nobody listened is no part of it.
    """
    clock = iter([1767261600.0, 1767261603.5, 1767261603.5, 1767261603.5])
    app = AuditIngress(memory, ttl_ms=900_000, max_body=10**6, wall=lambda: next(clock))
    name = "gitopsreverser_audit_lag_seconds_sum"
    before = REGISTRY.get_sample_value(name) or 0.0
    call(app, event_list(audit("create", "alice", stage="2026-01-01T10:00:00.250000Z")))
    call(app, event_list(audit("create", "bob", stage="2026-01-01T09:59:30.250000Z")))
    call(app, event_list(audit("create", "carol", stage="no time")))
    assert (REGISTRY.get_sample_value(name) or 0.0) - before == 3.25
    assert [(fact.author, fact.from_before) for fact in memory.facts] == [
        ("alice", False),
        ("bob", True),
        ("carol", False),
    ]


def test_many_senders_at_once(redis_url: str) -> None:
    """H10: 50 posts of 400 events, each taken, every fact there, every event counted."""
    shared = Store.connect(redis_url)
    app = ingress(shared)
    bodies = [
        orjson.dumps(event_list(*(audit("create", "alice", uid=f"u{batch}-{n}") for n in range(400))))
        for batch in range(50)
    ]
    counted = Counted()
    started = time.process_time()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda body: call(app, body).status, bodies))
    assert answers == [200] * 50
    assert time.process_time() - started < 30
    assert counted.moved == {"list processed": 50, "queued": 20_000}
    assert shared.read_slots([exact_key("configmaps", "u49-399", "101")])[0] is not None
    shared.close()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = [
    "verb",
    "stage",
    "requestURI",
    "user",
    "impersonatedUser",
    "objectRef",
    "responseStatus",
    "requestObject",
    "responseObject",
    "stageTimestamp",
    "requestReceivedTimestamp",
    "auditID",
]
odd_events = st.builds(
    lambda verb, changes: audit(verb, "alice") | changes,
    st.sampled_from(["create", "update", "patch", "delete", "deletecollection", "get"]),
    st.dictionaries(
        st.sampled_from(FIELDS),
        json_values
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "items", "details", "username", "extra", "uid", "name", "code", "kind"]
            ),
            json_values,
        ),
        max_size=4,
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate"]))
def test_any_bytes_have_an_answer(body: bytes, encoding: str) -> None:
    """A6: whatever is sent, the answer is valid."""
    assert call(ingress(Memory()), body, HTTP_CONTENT_ENCODING=encoding).status in (200, 400)


@settings(max_examples=60, deadline=None)
@given(st.lists(json_values | odd_events, max_size=5))
def test_any_items_have_an_answer(items: list[Any]) -> None:
    """A6, A17: whatever is in the list, it is taken, each item is counted once, and facts are well-formed."""
    memory = Memory()
    counted = Counted()
    try:
        body = orjson.dumps(event_list(*items))
    except TypeError:
        return
    assert call(ingress(memory), body).status == 200
    moved = counted.moved
    assert sum(value for key, value in moved.items() if key in set(Outcome)) == len(items)
    for fact in memory.facts:
        assert isinstance(fact, Fact)
        assert fact.author
        assert fact.name
        assert fact.uid or fact.resource_version
