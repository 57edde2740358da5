"""JSON of any depth."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.deepjson import DEEPEST, loads, shallow, tokens

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(before=VALUES, after=VALUES)
def test_what_is_beside_something_too_deep(before: object, after: object) -> None:
    """It stays, brackets and quotes in texts included; null stands for what is too deep."""
    parts = (orjson.dumps(before), b"[" * 20_000 + b"]" * 20_000, orjson.dumps(after))
    found = loads(b'{"before":%s,"deep":%s,"after":%s}' % parts)
    assert (found["before"], found["after"]) == (before, after)
    deep = found["deep"]
    for _ in range(DEEPEST - 2):
        (deep,) = deep
    assert deep == [None]


@pytest.mark.parametrize("depth", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, DEEPEST + 9])
def test_where_it_is_cut(depth: int) -> None:
    """The deepest level that is read is read."""
    text = orjson.dumps([]) if depth == 1 else b"[" * depth + b"]" * depth
    assert loads(text) == nested(depth)
    assert (shallow(text) == text) is (depth <= DEEPEST)


@given(st.binary(max_size=60), st.text('{}[],:"\\ x1', max_size=60))
def test_what_is_no_json(junk: bytes, brackets: str) -> None:
    """It is refused as ever, and changed by nothing."""
    for text in (junk, brackets.encode()):
        assert shallow(text) == text
        try:
            expected = orjson.loads(text)
        except orjson.JSONDecodeError:
            with pytest.raises(orjson.JSONDecodeError):
                loads(text)
        else:
            assert loads(text) == expected


@pytest.mark.parametrize("last", [b"", b"\\", b"x"], ids=["quote", "backslash", "letter"])
def test_a_text_that_nobody_closes_is_one_text(last: bytes) -> None:
    """Its escaped quotes begin none, or each of them would be followed to the end anew."""
    opened = b'"' + b'\\"' * 100_000 + last
    assert [token for token, *_ in tokens(b"{" + opened)] == [b"{", opened]
