"""Every value comes back from the store's bytes as it went in."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.store import codec
from reverser.store.model import (
    AttachEntry,
    Author,
    Boundary,
    BranchKey,
    EventEntry,
    Gate,
    Intent,
    ObjectRef,
    Outcome,
    RetireEntry,
    Scope,
    StagedObject,
    StreamRecord,
    TargetRef,
    TypeRef,
    UnsealedEntry,
)


def _values(cls):
    """Any value of a class, by its type hints, with numbers that fit into 64 bits."""
    return st.from_type(cls).filter(_fits)


def _fits(value: object) -> bool:
    if dataclasses.is_dataclass(value):
        return all(_fits(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, tuple):
        return all(_fits(item) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


@given(st.one_of(*(_values(cls) for cls in (AttachEntry, RetireEntry, UnsealedEntry, EventEntry))))
def test_entries(entry):
    """Whatever names, authors and bytes they hold."""
    packed = codec.pack(entry)
    names = ("k", "o", "m", "b", "n")
    values = (packed.kind, packed.object, packed.meta, packed.body, str(packed.size))
    flat = [
        part if isinstance(part, bytes) else part.encode()
        for pair in zip(names, values, strict=True)
        for part in pair
    ]
    stored = codec.unpack(b"5-1", flat)
    assert (stored.id, stored.entry, stored.size) == ("5-1", entry, packed.size)


@given(_values(StagedObject))
def test_staged_objects(item):
    """Bodies with newlines included."""
    _, value = codec.pack_staged(item)
    assert codec.unpack_staged(value) == item


@given(
    st.one_of(
        *(
            _values(cls)
            for cls in (Boundary, Intent, Outcome, Gate, StreamRecord, BranchKey, Scope, TargetRef, Author)
        )
    )
)
def test_records(value):
    """Tuples, enums, optional and nested values."""
    assert codec.loads(type(value), codec.dumps(value)) == value


def test_an_older_value_still_reads():
    """A field that did not exist then has its default."""
    assert codec.loads(Gate, b'{"open":true,"generation":2}') == Gate(True, 2)
    assert (
        codec.loads(ObjectRef, codec.dumps(ObjectRef(TypeRef("", "v1", "a", "A", True), "", "x"))).name == "x"
    )


def test_bytes_never_become_json():
    """A value with a body in the wrong place is a bug, not a silent conversion."""
    with pytest.raises(TypeError):
        codec.dumps({"x": b"y"})
