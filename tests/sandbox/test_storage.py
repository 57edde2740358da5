"""The storage against a model: whatever happens, the past can be read and every watch ends up with the
present.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverser.sandbox.storage import Compacted, EventType, ObjectKey, Storage

RESOURCE = ("", "configmaps")
NAMES = ("a", "b", "c")

operations = st.lists(
    st.tuples(st.sampled_from(("put", "delete", "compact")), st.sampled_from(NAMES), st.integers(0, 9)),
    max_size=40,
)


def _content(objects: list[dict[str, Any]]) -> dict[str, int]:
    return {o["metadata"]["name"]: o["value"] for o in objects}


def _play(storage: Storage, steps: list[tuple[str, str, int]]) -> dict[int, dict[str, int]]:
    """Do the steps; returns what there was at each version."""
    past = {storage.rv: _content(storage.items(RESOURCE, None))}
    for verb, name, value in steps:
        if verb == "put":
            storage.put(RESOURCE, "default", name, {"metadata": {"name": name}, "value": value})
        elif verb == "compact":
            storage.compact()
        elif storage.get(RESOURCE, "default", name) is not None:
            storage.delete(RESOURCE, "default", name)
        past[storage.rv] = _content(storage.items(RESOURCE, None))
    return past


@settings(max_examples=100, deadline=None)
@given(operations, st.sampled_from((3, 1000)))
def test_past_and_present(steps: list[tuple[str, str, int]], limit: int) -> None:
    """From every version that is not compacted the list is right, and the events behind it lead to the
    present.
    """
    storage = Storage(history_limit=limit)
    past = _play(storage, steps)
    bucket = storage.bucket(RESOURCE)
    present = past[storage.rv]
    for version, content in past.items():
        if version < bucket.compacted:
            with pytest.raises(Compacted):
                storage.list_at(RESOURCE, None, version)
            with pytest.raises(Compacted):
                storage.position_after(RESOURCE, version)
            continue
        assert _content(storage.list_at(RESOURCE, None, version)) == content
        folded = dict(content)
        for event in bucket.events[storage.position_after(RESOURCE, version) - bucket.cut :]:
            assert event.rv > version
            assert (event.prev is None) is (event.type is EventType.ADDED)
            if event.type is EventType.DELETED:
                del folded[event.key[1]]
            else:
                folded[event.key[1]] = event.obj["value"]
        assert folded == present


@settings(max_examples=50, deadline=None)
@given(operations)
def test_events_are_ordered_and_final(steps: list[tuple[str, str, int]]) -> None:
    """Versions grow by one with each event, the object carries its event's version, and nothing changes
    later.
    """
    storage = Storage()
    seen: list[tuple[int, ObjectKey, str]] = []
    storage.on_event.append(lambda e: seen.append((e.rv, e.key, repr(e.obj))))
    events: list[Any] = []
    storage.on_event.append(events.append)
    _play(storage, steps)
    assert [rv for rv, _, _ in seen] == list(range(1, len(seen) + 1))
    assert all(e.obj["metadata"]["resourceVersion"] == str(e.rv) for e in events)
    assert [repr(e.obj) for e in events] == [text for _, _, text in seen]
