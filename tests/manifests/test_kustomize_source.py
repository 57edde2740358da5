"""The source form of an object under a build: what was taken away in the cluster leaves the file, too."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gitwriter.manifests.editing import equal_as_kubernetes
from gitwriter.manifests.fields import MISSING
from gitwriter.manifests.kustomize.source import Conflict, source_form

from .folder import after, codes, plan, upsert, written
from .kustomized import check_renders
from .wild import mutate, random_object

BUILD = """\
namespace: shop
resources: [till.yaml]
labels:
- pairs: {team: a}
images:
- name: till
  newTag: "2"
replicas:
- name: till
  count: 3
"""
TILL = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: till
  generateName: till- # left over
  labels: # ours
    tier: front
  annotations:
    note: x
spec:
  strategy: # calm
    type: Recreate
  template:
    metadata:
      annotations: {a: b}
    spec:
      nodeSelector: {disk: ssd} # fast
      tolerations:
      - {key: x, operator: Exists}
      containers:
      - name: till
        image: till:1
        command: [run]
        env:
        - {name: A, value: "1"}
        resources: {limits: {cpu: "1"}}
"""
FILES = {"kustomization.yaml": BUILD, "till.yaml": TILL}


def built() -> dict[str, Any]:
    """The live object as the build gives it, without what the projection never has."""
    obj = yaml.safe_load(TILL)
    obj["metadata"]["namespace"] = "shop"
    obj["metadata"]["labels"]["team"] = "a"
    del obj["metadata"]["generateName"]
    obj["spec"]["replicas"] = 3
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "till:2"
    return obj


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("metadata", "annotations"), ("  annotations:\n    note: x\n",)),
        (("metadata", "labels", "tier"), ("    tier: front\n",)),
        (("spec", "strategy"), ("  strategy: # calm\n    type: Recreate\n",)),
        (("spec", "template", "metadata"), ("    metadata:\n      annotations: {a: b}\n",)),
        (("spec", "template", "spec", "nodeSelector"), ("      nodeSelector: {disk: ssd} # fast\n",)),
        (
            ("spec", "template", "spec", "tolerations"),
            ("      tolerations:\n      - {key: x, operator: Exists}\n",),
        ),
        (("spec", "template", "spec", "containers", 0, "command"), ("        command: [run]\n",)),
        (
            ("spec", "template", "spec", "containers", 0, "env"),
            ('        env:\n        - {name: A, value: "1"}\n',),
        ),
        (
            ("spec", "template", "spec", "containers", 0, "resources"),
            ('        resources: {limits: {cpu: "1"}}\n',),
        ),
    ],
    ids=lambda value: "/".join(map(str, value)) if "/" not in str(value) else None,
)
def test_a_field_that_is_gone_leaves_the_file(path: tuple[Any, ...], gone: tuple[str, ...]) -> None:
    """Next to fields that the build alters, in mappings that it adds to."""
    obj = built()
    place: Any = obj
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    live = upsert("Deployment", "till", "shop", metadata=obj["metadata"], spec=obj["spec"])
    made = plan(FILES, live)
    assert codes(made) == ["updated"], made.results[0].message
    text = written(made)["till.yaml"]
    assert text is not None
    for lines in gone:
        assert lines not in text
    assert "generateName" not in text
    assert set(written(made)) == {"till.yaml"}
    check_renders(after(FILES, made), live)


def test_a_missing_value_is_one() -> None:
    """A copy of it is no value either."""
    assert copy.deepcopy(MISSING) is MISSING
    assert source_form({"a": {"b": 1}}, {"a": {"b": 1}, "n": 2}, {"n": 2}) == {}


def build(source: dict[str, Any]) -> dict[str, Any]:
    """What a build does: a namespace, a label, and a mark on everything below the top."""
    made: dict[str, Any] = {key: _marked(value) for key, value in source.items()}
    metadata = {**source["metadata"], "namespace": "shop"}
    metadata["labels"] = {**(metadata.get("labels") or {}), "team": "a"}
    return {**made, "metadata": metadata}


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {**{key: _marked(item) for key, item in value.items()}, "zz": "built"}
    return [_marked(item) for item in value] if isinstance(value, list) else value


@given(rnd=st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_build_of_the_source_form_is_the_live_object(rnd: random.Random) -> None:
    """Whatever changed outside what the build says itself: built again it is exactly what lives."""
    source = random_object(rnd)
    wanted, _paths = mutate(rnd, source, rnd.randint(1, 4))
    live = build(wanted)
    try:
        result = source_form(source, build(source), live)
    except Conflict:
        return  # lists without names that grew or shrank
    assert equal_as_kubernetes(build(result), live)
    assert "MISSING" not in repr(result)
