"""CustomResourceDefinitions: discovery, versions, schemas, subresources, and their end."""

from typing import Any

import pytest

from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIZMOS = "/apis/lab.test/v1/namespaces/default/gizmos"
STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
MERGE = "application/merge-patch+json"


def crd(*, beta: bool = False) -> dict[str, Any]:
    """Gizmos, with a default, a rule, and both subresources; on request a second version without a schema."""
    path = {
        "type": "string",
        "minLength": 1,
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "path is immutable"}],
    }
    size = {"type": "integer", "minimum": 1, "default": 1}
    mode = {"type": "string", "enum": ["fast", "slow"]}
    notes = {"type": "object", "additionalProperties": {"type": "string"}}
    properties = {"path": path, "size": size, "mode": mode, "notes": notes}
    spec = {"type": "object", "required": ["path"], "properties": properties}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    versions: list[dict[str, Any]] = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": scale},
            "schema": {"openAPIV3Schema": schema},
        }
    ]
    if beta:
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions.append(
            {"name": "v1beta1", "served": True, "storage": False, "schema": {"openAPIV3Schema": free}}
        )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.lab.test"},
        "spec": {
            "group": "lab.test",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo"},
            "versions": versions,
        },
    }


def gizmo(name: str = "one", **spec: Any) -> dict[str, Any]:
    """A Gizmo."""
    return {
        "apiVersion": "lab.test/v1",
        "kind": "Gizmo",
        "metadata": {"name": name},
        "spec": {"path": "a"} | spec,
    }


@pytest.fixture
def gizmos(admin: Client) -> Client:
    """A client of a sandbox that serves gizmos."""
    admin.ok("POST", CRDS, crd())
    return admin


def test_installing(admin: Client) -> None:
    """A definition is established in three visible steps and appears in discovery."""
    assert admin.request("GET", "/apis/lab.test/v1")[0] == 404
    watch = admin.watch(CRDS, STREAMING)
    admin.ok("POST", CRDS, crd(beta=True))
    states = [
        {c["type"]: c["status"] for c in e["object"]["status"]["conditions"] or []} for e in watch.wait(4)[1:]
    ]
    assert states == [
        {},
        {"NamesAccepted": "True", "Established": "False"},
        {"NamesAccepted": "True", "Established": "True"},
    ]
    group = admin.ok("GET", "/apis/lab.test")
    assert group["preferredVersion"]["version"] == "v1"
    names = [r["name"] for r in admin.ok("GET", "/apis/lab.test/v1")["resources"]]
    assert names == ["gizmos", "gizmos/status", "gizmos/scale"]


def test_objects_that_cannot_be_reached_yet() -> None:
    """An established definition's objects are 404 at first, then 429; after a change of it they are 429."""
    with SandboxServer(definition_delay=1.0) as server:
        admin = Client(server)

        def stages() -> list[int]:
            seen = [admin.request("GET", GIZMOS)[0]]
            while seen[-1] != 200:
                status = admin.request("GET", GIZMOS)[0]
                seen += [status] if status != seen[-1] else []
            return seen

        admin.ok("POST", CRDS, crd())
        assert admin.request("GET", "/apis/lab.test/v1")[0] == 200
        assert stages() == [404, 429, 200]
        changed = {"metadata": {"labels": {"a": "b"}}}
        admin.ok("PATCH", f"{CRDS}/gizmos.lab.test", changed, content_type=MERGE)
        assert stages() == [200]
        admin.ok("PATCH", f"{CRDS}/gizmos.lab.test", {"spec": crd(beta=True)["spec"]}, content_type=MERGE)
        status, answer, headers = admin.request_full("GET", GIZMOS)
        assert (status, answer["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "1")
        assert stages() == [429, 200]


def test_schema(gizmos: Client) -> None:
    """Defaults are filled in, unknown fields pruned with a warning, rules enforced."""
    status, made, headers = gizmos.request_full("POST", GIZMOS, gizmo(unknown=1))
    assert (status, made["spec"]) == (201, {"path": "a", "size": 1})
    assert headers["Warning"] == '299 - "unknown field \\"spec.unknown\\""'
    status, answer = gizmos.request("POST", f"{GIZMOS}?fieldValidation=Strict", gizmo("two", unknown=1))
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.unknown"' in answer["message"]
    status, answer = gizmos.request("POST", GIZMOS, gizmo("two", size=0))
    assert status == 422
    assert answer["details"]["causes"][0]["field"] == "spec.size"
    status, answer = gizmos.request("PATCH", f"{GIZMOS}/one", {"spec": {"path": "b"}}, content_type=MERGE)
    assert answer["message"] == (
        'Gizmo.lab.test "one" is invalid: spec.path: Invalid value: "b": path is immutable'
    )
    status, _ = gizmos.request(
        "PATCH", f"{GIZMOS}/one", {}, content_type="application/strategic-merge-patch+json"
    )
    assert status == 415


def test_values_outside_an_enumeration(gizmos: Client) -> None:
    """They keep the rules from being checked; a value of the wrong type is outside the enumeration too."""
    not_checked = {
        "reason": "FieldValueInvalid",
        "field": "<nil>",
        "message": "Invalid value: null: some validation rules were not checked because the object was "
        "invalid; correct the existing errors to complete validation",
    }
    for mode, reasons in (
        ("odd", ["FieldValueNotSupported"]),
        (1.5, ["FieldValueTypeInvalid", "FieldValueNotSupported"]),
    ):
        status, answer = gizmos.request("POST", GIZMOS, gizmo(mode=mode))
        *causes, last = answer["details"]["causes"]
        assert (status, [c["reason"] for c in causes], last) == (422, reasons, not_checked)


def test_nulls_of_a_map_vanish(gizmos: Client) -> None:
    """An entry that is null and may not be is dropped, as a property is."""
    made = gizmos.ok("POST", GIZMOS, gizmo(notes={"a": None, "b": "x"}))
    assert made["spec"]["notes"] == {"b": "x"}


def test_strict_patch(gizmos: Client) -> None:
    """A strict patch with an unknown field is refused with 422, where a create is with 400."""
    gizmos.ok("POST", GIZMOS, gizmo())
    status, answer = gizmos.request(
        "PATCH", f"{GIZMOS}/one?fieldValidation=Strict", {"spec": {"odd": 1}}, content_type=MERGE
    )
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "patch")
    assert 'strict decoding error: unknown field "spec.odd"' in answer["message"]


@pytest.mark.parametrize("metadata", [{"labels": 5}, {"labels": {"a": 5}}, {"finalizers": "x"}])
def test_metadata_of_the_wrong_type(gizmos: Client, metadata: dict[str, Any]) -> None:
    """It is no object at all, whatever the schema says."""
    body = gizmo() | {"metadata": {"name": "one"} | metadata}
    status, answer = gizmos.request("POST", GIZMOS, body)
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert "into Go struct field ObjectMeta." in answer["message"]
    gizmos.ok("POST", GIZMOS, gizmo())
    status, answer = gizmos.request("PATCH", f"{GIZMOS}/one", {"metadata": metadata}, content_type=MERGE)
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "patch")


def test_another_kind(gizmos: Client) -> None:
    """A body of another kind is an invalid object of that kind."""
    status, answer = gizmos.request("POST", GIZMOS, gizmo() | {"kind": "Widget"})
    assert (status, answer["details"]["kind"], answer["details"]["causes"][0]["field"]) == (
        422,
        "Widget",
        "kind",
    )


def test_owners_own_the_maps(gizmos: Client) -> None:
    """Nothing in a custom resource is a structure: who makes a map owns it, and keeps it when robbed of all
    fields.
    """
    made = gizmos.ok("POST", f"{GIZMOS}?fieldManager=maker", gizmo(size=2))
    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {".": {}, "f:path": {}, "f:size": {}}}
    body = gizmo(size=3)
    taken = gizmos.ok(
        "PATCH",
        f"{GIZMOS}/one?fieldManager=taker&force=true",
        body | {"spec": {"path": "a", "size": 3}},
        content_type="application/apply-patch+yaml",
    )
    owners = {e["manager"]: e["fieldsV1"] for e in taken["metadata"]["managedFields"]}
    assert owners["taker"] == {"f:spec": {"f:path": {}, "f:size": {}}}
    assert owners["maker"] == {"f:spec": {".": {}, "f:path": {}}}
    status = gizmos.ok(
        "PATCH", f"{GIZMOS}/one/status?fieldManager=s", {"status": {"phase": "x"}}, content_type=MERGE
    )
    [own] = [e for e in status["metadata"]["managedFields"] if e["manager"] == "s"]
    assert own["fieldsV1"] == {"f:status": {".": {}, "f:phase": {}}}


def test_subresources(gizmos: Client) -> None:
    """Status is written through its own door only and is not counted; scale writes the parent."""
    gizmos.ok("POST", GIZMOS, gizmo() | {"status": {"phase": "ignored"}})
    shown = gizmos.ok("PATCH", f"{GIZMOS}/one/status", {"status": {"phase": "x"}}, content_type=MERGE)
    assert (shown["status"], shown["metadata"]["generation"]) == ({"phase": "x"}, 1)
    gizmos.ok("PATCH", f"{GIZMOS}/one/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    found = gizmos.ok("GET", f"{GIZMOS}/one")
    assert (found["spec"]["size"], found["metadata"]["generation"]) == (4, 2)
    assert found["status"] == {"phase": "x"}


def test_updates_name_a_version(gizmos: Client) -> None:
    """Unlike built-in types, custom resources are not updated blindly."""
    gizmos.ok("POST", GIZMOS, gizmo())
    status, answer = gizmos.request("PUT", f"{GIZMOS}/one", gizmo(size=2))
    assert status == 422
    assert "metadata.resourceVersion: Invalid value" in answer["message"]


def test_deleting_the_definition(admin: Client) -> None:
    """Its objects go first (DELETED in every version's watch), then the watches end, then it is gone."""
    admin.ok("POST", CRDS, crd(beta=True))
    admin.ok("POST", GIZMOS, gizmo())
    watches = [admin.watch(GIZMOS, ""), admin.watch(GIZMOS.replace("v1", "v1beta1"), "")]
    for watch in watches:
        watch.wait(1)
    answer = admin.ok("DELETE", f"{CRDS}/gizmos.lab.test")
    assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    for watch, version in zip(watches, ("v1", "v1beta1"), strict=True):
        watch.wait_end()
        assert watch.types() == ["ADDED", "DELETED"]
        assert watch.events[1]["object"]["apiVersion"] == f"lab.test/{version}"
    assert admin.request("GET", f"{CRDS}/gizmos.lab.test")[0] == 404
    assert admin.request("GET", GIZMOS) == (404, "404 page not found\n")


def test_an_object_can_hold_its_definition(gizmos: Client) -> None:
    """A finalizer on an instance keeps the definition until it is cleared."""
    body = gizmo()
    body["metadata"]["finalizers"] = ["lab.test/hold"]
    gizmos.ok("POST", GIZMOS, body)
    gizmos.ok("DELETE", f"{CRDS}/gizmos.lab.test")
    assert gizmos.ok("GET", f"{GIZMOS}/one")["metadata"]["deletionTimestamp"]
    gizmos.ok("PATCH", f"{GIZMOS}/one", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert gizmos.request("GET", f"{CRDS}/gizmos.lab.test")[0] == 404


def test_blinking(gizmos: Client) -> None:
    """A version no longer served ends its watches and leaves discovery; the objects stay."""
    gizmos.ok("POST", GIZMOS, gizmo())
    watch = gizmos.watch(GIZMOS, "")
    replace = "application/json-patch+json"
    for served in (False, True):
        order = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
        gizmos.ok("PATCH", f"{CRDS}/gizmos.lab.test", order, content_type=replace)
        assert gizmos.request("GET", "/apis/lab.test")[0] == (200 if served else 404)
    watch.wait_end()
    assert gizmos.ok("GET", f"{GIZMOS}/one")["spec"] == {"path": "a", "size": 1}
