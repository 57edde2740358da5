"""Paths are escaped once; lines end at byte 0x0A alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.errors import KubeUnavailable
from reverser.kube.entries import decode_entries, encode_entries
from reverser.kube.lines import LineSplitter, parse_event
from reverser.kube.paths import core_path, own_path, resource_path


def test_paths() -> None:
    """Core and named groups, namespaced and not, objects and subresources."""
    assert resource_path("", "v1", "configmaps") == "/api/v1/configmaps"
    expected = "/apis/apps/v1/namespaces/a/deployments/b/scale"
    path = resource_path("apps", "v1", "deployments", namespace="a", name="b", subresource="scale")
    assert expected == path
    assert core_path("secrets", namespace="n", name="s") == "/api/v1/namespaces/n/secrets/s"
    assert own_path("gittargets").startswith("/apis/configbutler.ai/v1alpha3/gittargets")


@pytest.mark.parametrize("name", ["..", "."])
def test_a_name_cannot_leave_its_segment(name: str) -> None:
    """Dots alone are refused; slashes and question marks are escaped."""
    with pytest.raises(ValueError, match="cannot be a part"):
        core_path("secrets", namespace="n", name=name)
    assert core_path("secrets", name="a/b?c") == "/api/v1/secrets/a%2Fb%3Fc"


@given(
    objects=st.lists(st.dictionaries(st.text(), st.text()), max_size=5),
    cuts=st.lists(st.integers(min_value=1, max_value=9), min_size=1),
)
def test_any_chunking_gives_the_same_events(objects: list[dict[str, str]], cuts: list[int]) -> None:
    """Characters cut across reads, U+2028 and U+0085 inside strings change nothing."""
    lines = [json.dumps({"type": "ADDED", "object": obj}, ensure_ascii=False).encode() for obj in objects]
    data = b"".join(line + b"\n" for line in lines)
    splitter, position, turn, seen = LineSplitter(), 0, 0, []
    while position < len(data):
        size = cuts[turn % len(cuts)]
        seen += list(splitter.feed(data[position : position + size]))
        position, turn = position + size, turn + 1
    assert seen == lines
    assert splitter.pending == 0
    assert [parse_event(line).object for line in seen] == objects


@pytest.mark.parametrize("line", [b"not json", b"[1]", b'{"type": 1, "object": {}}', b'{"type": "ADDED"}'])
def test_a_line_that_is_no_event_is_transient(line: bytes) -> None:
    """Garbage ends the stream; the session reopens it."""
    with pytest.raises(KubeUnavailable):
        parse_event(line)


def test_integers_stay_exact() -> None:
    """64-bit integers do not pass through floats."""
    event = parse_event(b'{"type":"ADDED","object":{"n":9223372036854775807}}')
    assert event.object["n"] == 9223372036854775807


def test_entries_of_secrets() -> None:
    """Base64 to bytes and back; an entry that is no base64 is empty, a missing field has no entries."""
    entries = {"a": b"\x00\xff", "b": b""}
    assert decode_entries(encode_entries(entries)) == entries
    assert decode_entries({"a": "not base64!", "b": None, "c": 7}) == {"a": b"", "b": b"", "c": b""}
    assert decode_entries(None) == {}
