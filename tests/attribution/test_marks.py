"""What managedFields prove: whoever made a change is never taken for idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from reverser.sandbox.managed import track
from reverser.sandbox.mergekeys import MergeNode, merge_schema_of_crd
from reverser.sandbox.patches import PatchError, json_patch, merge_patch
from tests.auditevents import audit, seen
from watchers.evidence import is_idle
from watchers.facts import read_marks
from webhooks.evidence import facts_of

NODE: MergeNode = merge_schema_of_crd({})
NAMES = st.sampled_from(["a", "b"])
SCALARS = st.sampled_from([None, 0, 1, "", "x", False, True])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.dictionaries(NAMES, inner, max_size=2) | st.lists(SCALARS, max_size=2),
    max_leaves=4,
)
SPECS = st.dictionaries(NAMES, VALUES, max_size=2)
STEPS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "replace", "remove", "test"]),
        "path": st.sampled_from(["/spec/a", "/spec/b", "/spec/a/a", "/spec"]),
        "value": VALUES,
    }
)
PATCHES = st.one_of(SPECS.map(lambda spec: {"spec": spec}), st.lists(STEPS, min_size=1, max_size=2))
MANAGERS = st.sampled_from(["kubectl", "flux"])
WRITES = st.lists(st.tuples(MANAGERS, PATCHES), min_size=1, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(below) for key, below in value.items() if below is not None}
    return value


def patched(obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    made = json_patch(obj, patch) if isinstance(patch, list) else merge_patch(obj, patch)
    return without_nulls(made) if isinstance(made, dict) else {}


@given(start=SPECS, writes=WRITES)
def test_whoever_changed_something_is_not_idle(start: dict[str, Any], writes: list[tuple[str, Any]]) -> None:
    """T6: seen as it happens, no change loses its author to what managedFields say."""
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "spec": without_nulls(start)}
    changed = False
    for second, (manager, patch) in enumerate(writes, 10):
        at = f"2026-01-01T10:00:{second}"
        try:
            new = patched(obj, patch)
        except PatchError:
            continue
        if new == obj or not isinstance(new.get("spec"), dict):
            continue
        changed = True
        entries = track(
            obj, new, manager=manager, api_version="v1", subresource="", time=f"{at}Z", schema=NODE
        )
        obj = new | {"metadata": {"name": "a", "managedFields": entries}}
        event = audit("patch", "alice", received=f"{at}.000001Z") | {"requestObject": patch}
        event["requestURI"] = f"/api/v1/namespaces/shop/configmaps/a?fieldManager={manager}"
        (fact,) = facts_of(event)
        assert not is_idle(fact, replace(seen(), marks=read_marks(obj)))
    assume(changed)


def test_marks_of_odd_objects() -> None:
    """Whatever stands there is read; subresources are other requests' doing."""
    entries: list[Any] = [
        {"manager": "kubectl", "time": "2026-01-01T10:00:00Z"},
        {"manager": "kubelet", "time": "2026-01-01T10:00:00Z", "subresource": "status"},
        {"manager": 5},
        "odd",
    ]
    assert read_marks({"metadata": {"managedFields": entries}}) == (
        ("kubectl", "2026-01-01T10:00:00Z"),
        ("", ""),
    )
    for odd in ({}, {"metadata": None}, {"metadata": {"managedFields": {"a": 1}}}):
        assert read_marks(odd) == ()
