"""Reads a batch of audit events that is not JSON to every reader.

An API server passes the body of a patch on byte for byte, and it accepts what stricter readers refuse: one
half of a surrogate pair, bytes that are no UTF-8, nesting of a thousand levels. If the batch were refused for
one such request, everybody in it would lose his name, and whoever sent it would keep his hidden. So the
batch is taken apart by its brackets alone, and each event is read by itself. What cannot be a character is
replaced; what is nested too deeply is left out (who did what to which object is not down there); numbers
other than small whole ones are read as 0; an event that is still not JSON is one undecodable event.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from reverser.deepjson import CLOSING, OPENING, shallow, tokens

HUGE = 16
UNREADABLE = "unreadable"
"""Stands for an event that is no JSON; no event is a text."""


def take_apart(body: bytes) -> dict[str, Any] | None:
    """The envelope with its events; None where the brackets, or the envelope itself, are not in order, or
    nothing in it is an event.
    """
    found = _items_of(body)
    if found is None:
        return None
    start, end, items = found
    try:
        envelope = orjson.loads(body[:start] + b"[]" + body[end:])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(envelope, dict) or envelope.get("items") != []:
        return None
    if not all(item.startswith(b"{") and item.endswith(b"}") for item in items):
        return None
    events = [_read(item) for item in items]
    if not any(isinstance(event, dict) and "stage" in event for event in events):
        return None
    return envelope | {"items": events}


def _items_of(body: bytes) -> tuple[int, int, list[bytes]] | None:
    """Where the list of events starts and ends, and the text of each."""
    items: list[bytes] = []
    start = end = first = 0
    named, balance = b"", 0
    for token, at, after, depth in tokens(body):
        balance += (token in OPENING) - (token in CLOSING)
        if depth == 1 and token.startswith(b'"'):
            named = token
        elif depth == 1 and token == b"[" and named == b'"items"' and not start:
            start, first = at, after
        elif start and not end and ((depth == 2 and token == b",") or (depth == 1 and token == b"]")):
            items.append(body[first:at].strip())
            first, end = after, after if token == b"]" else 0
    return (start, end, items) if end and not balance else None


def _read(item: bytes) -> Any:
    try:
        return orjson.loads(item)
    except orjson.JSONDecodeError:
        text = shallow(item).decode(errors="replace")
    try:
        value = json.loads(text, parse_int=_number, parse_float=_number)
        return orjson.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return UNREADABLE


def _number(digits: str) -> int:
    """Evidence is told by small whole numbers at most."""
    return int(digits) if len(digits) < HUGE and digits.lstrip("-").isdigit() else 0
