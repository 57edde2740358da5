"""One request that stricter readers refuse costs nobody else in its batch his name."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.store import Store
from reverser.store.attribution import Fact, exact_key
from tests.auditevents import audit, event_list
from tests.webhooks.call import call
from tests.webhooks.test_audit import Counted
from webhooks.audit import AuditIngress
from webhooks.salvage import UNREADABLE, take_apart

HALF = rb'{"data":{"v":"\ud800"}}'
NO_UTF8 = b'{"data":{"v":"a\xffb"}}'
DEEP = b'{"x":' * 1100 + b"1" + b"}" * 1100
DEEPER = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NUMBERS = b'{"n":1e999,"m":' + b"9" * 5000 + b',"k":-1.5}'
BROKEN = b'{"a":,}'


def batch(*patches: bytes) -> bytes:
    """What an API server of 1.36 was seen to send: the patches stand in the events byte for byte."""
    marks = [f"<{number}>" for number in range(len(patches))]
    events = [
        audit("patch", f"user-{number}", uid=f"u{number}", rv=str(number)) | {"requestObject": mark}
        for number, mark in enumerate(marks)
    ]
    body = orjson.dumps(event_list(*events))
    for mark, patch in zip(marks, patches, strict=True):
        body = body.replace(f'"{mark}"'.encode(), patch)
    return body


def test_everybody_else_keeps_his_name(store: Store) -> None:
    """A8, T6: so does, as far as it can be read, whoever sent it; what cannot is one undecodable event."""
    body = batch(b'{"data":{"v":"1"}}', HALF, NO_UTF8, DEEP, DEEPER, NUMBERS, BROKEN, b'{"data":{"v":"2"}}')
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(body)
    counted = Counted()
    answer = call(AuditIngress(store, ttl_ms=900_000, max_body=10**7), body)
    assert (answer.status, answer.text.strip()) == (200, "Audit event processed")
    slots = store.read_slots([exact_key("configmaps", f"u{number}", str(number)) for number in range(8)])
    named = [fact.author if isinstance(fact, Fact) else "" for fact in slots]
    assert named == [f"user-{number}" if number != 6 else "" for number in range(8)]
    assert counted.moved == {"queued": 7, "undecodable": 1, "list processed": 1}


@pytest.mark.parametrize(
    "body",
    [
        rb'{"items":[{"stage":"\ud800"}',
        rb'{"items":[{"stage":"\ud800"}]',
        rb'{"items":[{"stage":"\ud800"},]}',
        rb'{"items":[{"stage":"\ud800"},5]}',
        rb'{"items":[{"stage":"\ud800"}],"items":[5]}',
        rb'{"kind":"items","other":[{"stage":"\ud800"}]}',
        rb'{"kind":"\ud800","items":[{"stage":"x"}]}',
        rb'{"items":{"items":[{"stage":"\ud800"}]}}',
        rb'[{"items":[{"stage":"\ud800"}]}]',
        rb'{"items":[{"verb":"\ud800"}]}',
        rb'{"items":[{"stage":"\ud800]}',
        b"]}{[",
        b"",
    ],
)
def test_what_is_no_batch(body: bytes) -> None:
    """H03: an envelope that is not in order stays one that cannot be read."""
    assert take_apart(body) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(
    st.dictionaries(st.text(), VALUES, max_size=4).map(lambda e: e | {"stage": "x"}), max_size=4
)


@given(before=EVENTS, after=EVENTS, spaces=st.booleans(), bad=st.sampled_from([HALF, NO_UTF8, BROKEN]))
def test_events_beside_a_bad_one(
    before: list[dict[str, Any]], after: list[dict[str, Any]], spaces: bool, bad: bytes
) -> None:
    """Whatever they hold, brackets and quotes in texts included, they are read as if it were not there."""
    separators = (", ", " : ") if spaces else (",", ":")
    mark = "\x01bad\x01"
    before = [*before, {"stage": "x"}]
    events = (*before, {"stage": "x", "p": mark}, *after)
    shown = [json.dumps(event, separators=separators) for event in events]
    body = b'{"items":[' + ",".join(shown).encode() + b"]}"
    body = body.replace(json.dumps(mark).encode(), bad)
    found = (take_apart(body) or {})["items"]
    assert found[: len(before)] == before
    assert found[len(before) + 1 :] == after
    assert (found[len(before)] == UNREADABLE) is (bad == BROKEN)


@given(st.binary(max_size=60), st.text('{}[],:"\\ tems', max_size=60))
def test_any_bytes(junk: bytes, brackets: str) -> None:
    """Nothing that comes makes it fail."""
    for body in (junk, brackets.encode(), b'{"items":[' + brackets.encode() + b"]}"):
        found = take_apart(body)
        assert found is None or isinstance(found["items"], list)
