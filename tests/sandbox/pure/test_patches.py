"""Patches give what the RFCs, and for strategic merge what kubectl itself, give."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.sandbox.patches import PatchError, json_patch, merge_patch, strategic_merge_patch
from tests import needs

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, None, None),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_rfc(doc: Any, patch: Any, expected: Any) -> None:
    """The examples of RFC 7386, appendix A."""
    assert merge_patch(doc, patch) == expected


@given(json_values, json_values)
def test_merge_patch_is_idempotent_and_leaves_its_arguments(doc: Any, patch: Any) -> None:
    """Applying a merge patch twice is applying it once, and neither argument changes."""
    before = copy.deepcopy((doc, patch))
    once = merge_patch(doc, patch)
    assert merge_patch(once, patch) == once
    assert (doc, patch) == before


@pytest.mark.parametrize(
    ("doc", "ops", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": [1]}], {"a": 1, "b": [1]}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
        ({"a/b": 1, "m~n": 2}, [{"op": "replace", "path": "/a~1b", "value": 3}], {"a/b": 3, "m~n": 2}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}),
    ],
)
def test_json_patch_operations(doc: Any, ops: Any, expected: Any) -> None:
    """Every operation of RFC 6902 gives the value the RFC names."""
    before = copy.deepcopy(doc)
    assert json_patch(doc, ops) == expected
    assert doc == before


@pytest.mark.parametrize(
    ("ops", "code"),
    [
        ([{"op": "remove", "path": "/x"}], 422),
        ([{"op": "replace", "path": "/x/y", "value": 1}], 422),
        ([{"op": "remove", "path": "/a/x"}], 422),
        ([{"op": "add", "path": "/l/\u00b2", "value": 1}], 422),
        ([{"op": "test", "path": "/a", "value": True}], 422),
        ([{"op": "add", "path": "/l/9", "value": 1}], 422),
        ([{"op": "move", "from": "/a", "path": "/a/b"}], 422),
        ([{"op": "explode", "path": "/a"}], 400),
        ([{"op": "add", "path": "/a"}], 400),
        ([{"op": "add", "path": "a", "value": 1}], 400),
        ({"op": "add"}, 400),
        ([7], 400),
    ],
)
def test_json_patch_that_does_not_fit(ops: Any, code: int) -> None:
    """A patch that does not fit the document is 422, one that is no JSON patch is 400."""
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1, "l": []}, ops)
    assert caught.value.code == code


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/a", "x/b"]},
    "spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {
                "containers": [
                    {"name": "one", "image": "i:1", "args": ["a", "b"], "env": [{"name": "A", "value": "1"}]},
                    {"name": "two", "image": "i:2", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                    {"name": "three", "image": "i:3"},
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "tolerations": [{"key": "k"}],
            },
        },
    },
}


def in_pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


STRATEGIC = {
    "map merge and null": {"metadata": {"labels": {"a": None, "c": "3"}}},
    "container by name": in_pod(containers=[{"name": "two", "image": "i:9"}]),
    "container appended": in_pod(containers=[{"name": "four", "image": "i:4"}]),
    "container deleted": in_pod(containers=[{"name": "one", "$patch": "delete"}]),
    "containers replaced": in_pod(containers=[{"$patch": "replace"}, {"name": "x", "image": "y"}]),
    "nested merge key": in_pod(containers=[{"name": "one", "env": [{"name": "B", "value": "2"}]}]),
    "nested delete": in_pod(containers=[{"name": "one", "env": [{"name": "A", "$patch": "delete"}]}]),
    "atomic list": in_pod(containers=[{"name": "one", "args": ["z"]}]),
    "plain list replaced": in_pod(tolerations=[{"key": "other"}]),
    "order": {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "three"}, {"name": "one"}],
                    "containers": [{"name": "three", "image": "i:33"}],
                }
            }
        }
    },
    "order with a new one": {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "new"}, {"name": "one"}, {"name": "two"}],
                    "containers": [{"name": "new", "image": "n"}],
                }
            }
        }
    },
    "retain keys": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    "retain keys of a volume": in_pod(
        volumes=[{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}]
    ),
    "primitive set": {"metadata": {"finalizers": ["x/c"]}},
    "primitive set deletion": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}},
    "primitive set order": {
        "metadata": {
            "$setElementOrder/finalizers": ["x/c", "x/b"],
            "$deleteFromPrimitiveList/finalizers": ["x/a"],
            "finalizers": ["x/c"],
        }
    },
    "map replaced": {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}},
    "map deleted": {"metadata": {"labels": {"$patch": "delete"}}},
}


def oracle(doc: dict[str, Any], patch: dict[str, Any], tmp_path: Path) -> Any:
    manifest = tmp_path / "m.json"
    manifest.write_text(json.dumps(doc))
    command = [needs.kubectl(), "patch", "--local", "--type=strategic", "-o", "json", "-f", manifest, "-p"]
    done = subprocess.run(
        [*command, json.dumps(patch)], capture_output=True, timeout=240, check=True, text=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", STRATEGIC)
def test_strategic_merge_is_what_kubectl_computes(name: str, tmp_path: Path) -> None:
    """Merge keys, directives and element order give the very document kubectl's own library gives."""
    before = copy.deepcopy(DEPLOYMENT)
    ours = strategic_merge_patch(("apps", "Deployment"), DEPLOYMENT, STRATEGIC[name])
    assert ours == oracle(DEPLOYMENT, STRATEGIC[name], tmp_path)
    assert before == DEPLOYMENT


def test_strategic_merge_needs_the_merge_key() -> None:
    """A list item without its merge key cannot be placed: 422."""
    with pytest.raises(PatchError, match="does not contain declared merge key: name") as caught:
        strategic_merge_patch(("apps", "Deployment"), DEPLOYMENT, in_pod(containers=[{"image": "x"}]))
    assert caught.value.code == 422
