"""From one audit event to the facts it proves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.auditevents import audit, collection, deletion
from webhooks.evidence import facts_of, subject_of, timestamp
from webhooks.gate import Outcome, is_dry_run, refuse


def only(event: dict[str, Any]) -> Any:
    (fact,) = facts_of(event)
    return fact


def test_a_write_is_filed_under_what_it_made() -> None:
    """The version is the response's; the request's and the precondition's are never used."""
    event = audit("update", "alice", rv="12", request_rv="11")
    event["objectRef"] |= {"uid": "u1", "resourceVersion": "11"}
    assert (only(event).uid, only(event).resource_version) == ("u1", "12")
    del event["responseObject"]
    assert only(event).resource_version == ""


def test_only_what_must_have_written_is_sure() -> None:
    """Whoever made the object, or named the version that he changed, did not send what changed nothing."""
    assert only(audit("create", "alice")).surely_wrote
    assert only(audit("update", "alice", request_rv="100")).surely_wrote
    assert not only(audit("update", "alice")).surely_wrote
    assert not only(audit("patch", "alice")).surely_wrote
    assert not only(audit("update", "alice", request_rv="0")).surely_wrote
    assert only(audit("patch", "alice", request_rv="100")).surely_wrote
    assert only(audit("patch", "alice", code=201)).surely_wrote
    assert not only(audit("patch", "alice", code=200)).surely_wrote
    assert not only(deletion("alice")).surely_wrote
    assert not only(audit("delete", "alice", request_rv="100", code=201)).surely_wrote


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"data": {"v": "2"}}, True),
        ({}, True),
        ({"spec": {"replicas": 3, "paused": True, "template": {"metadata": {"labels": {"a": "b"}}}}}, True),
        ({"metadata": {"labels": {"a": None}}}, False),
        ({"data": {"v": "2", "w": None}}, False),
        ({"spec": {"paused": False}}, False),
        ({"spec": {"replicas": 0}}, False),
        ({"data": {"v": ""}}, False),
        ({"data": {}}, False),
        ({"metadata": {"finalizers": ["a/b"]}}, False),
        ({"data": {"$patch": "replace", "v": "2"}}, False),
        (
            [{"op": "test", "path": "/data/v", "value": ""}, {"op": "add", "path": "/data/v", "value": "2"}],
            True,
        ),
        ([{"op": "replace", "path": "/spec/replicas", "value": 3}], True),
        ([{"op": "replace", "path": "/spec/replicas", "value": 0}], False),
        ([{"op": "replace", "path": "/data", "value": {"v": "2"}}], False),
        ([{"op": "add", "path": "/spec/ports", "value": [1]}], False),
        ([{"op": "remove", "path": "/data/v"}], False),
        ([{"op": "copy", "from": "/data/v", "path": "/data/w"}], False),
        ([5], False),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": "2"}}, True),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"b": "c"}}}, True),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}, False),
        ("data: {v: 2}", False),
        (None, False),
    ],
)
def test_patches_that_take_nothing_away(patch: object, expected: bool) -> None:
    """T3: what such a patch changed is marked in the object; everything else may leave no mark."""
    assert only(audit("patch", "alice") | {"requestObject": patch}).only_sets is expected
    assert not only(audit("update", "alice") | {"requestObject": patch}).only_sets


def test_a_patch_as_deep_as_it_can_be() -> None:
    """No depth of a body is too deep."""
    deep: dict[str, Any] = {"v": "2"}
    for _ in range(5000):
        deep = {"spec": deep}
    assert only(audit("patch", "alice") | {"requestObject": deep}).only_sets


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        ("?fieldManager=kubectl-label&force=true", "kubectl/v1.36.1 (linux/amd64)", "kubectl-label"),
        ("?fieldManager=my%20tool%2F1", "kubectl/v1.36.1", "my tool/1"),
        ("?fieldManager=", "kubectl/v1.36.1", "kubectl"),
        ("", "kube\tctl/v1", "kubectl"),
        ("", "x" * 127 + "\u00e9", "x" * 127),
        ("", "", ""),
        ("", None, ""),
    ],
)
def test_field_manager(query: str, agent: str | None, expected: str) -> None:
    """What the query says, else the program in the user agent, without what cannot be printed, 128 bytes."""
    event = audit("patch", "alice", userAgent=agent)
    event["requestURI"] = event["requestURI"].partition("?")[0] + query
    assert only(event).manager == expected


def test_group_of_a_split_reference() -> None:
    """Group and version come apart or together."""
    event = audit("create", "alice", resource="deployments", group="apps")
    assert subject_of(event).group_resource == "apps/deployments"
    del event["objectRef"]["apiGroup"]
    event["objectRef"]["apiVersion"] = "apps/v1"
    assert (subject_of(event).group_resource, subject_of(event).version) == ("apps/deployments", "v1")


def test_generated_name() -> None:
    """T6: a generated name and its uid are in the response alone."""
    event = audit("create", "alice", name="menu-x7z")
    del event["objectRef"]["name"]
    event["requestObject"] = {"metadata": {"generateName": "menu-"}}
    assert (only(event).name, only(event).uid) == ("menu-x7z", "u1")


@pytest.mark.parametrize("place", ["object", "status", "precondition"])
def test_uid_of_a_plain_delete(place: str) -> None:
    """G13: the uid of what went is in the details of the answer, or in the precondition."""
    event = deletion("bob")
    if place != "object":
        event["responseObject"] = None
    if place == "precondition":
        event["responseStatus"] = {"metadata": {}, "code": 200}
        event["requestObject"]["preconditions"] = {"uid": "u1"}
    fact = only(event)
    assert (fact.uid, fact.name, fact.author, fact.removal) == ("u1", "a", "bob", True)


def test_reference_wins_over_bodies() -> None:
    """A body fills gaps and overwrites nothing; broken bodies are ignored."""
    event = audit("update", "alice")
    event["objectRef"] |= {"name": "ref", "namespace": "refns", "uid": "refuid"}
    assert (only(event).name, only(event).namespace, only(event).uid) == ("ref", "refns", "refuid")
    event = audit("update", "alice")
    event["requestObject"] = ["not", "an", "object"]
    event["responseObject"]["metadata"] = "odd"
    assert facts_of(event) == []


def test_identities_are_never_mixed() -> None:
    """G06, A19: of an impersonated request nothing of the impersonator is used."""
    claims = {"configbutler.ai/claims/display-name": ["Root"], "configbutler.ai/claims/email": ["r@lab.test"]}
    event = audit("create", "root") | {"user": {"username": "root", "extra": claims}}
    assert (only(event).author, only(event).display_name, only(event).email) == ("root", "Root", "r@lab.test")
    event["impersonatedUser"] = {"username": "alice", "extra": {"configbutler.ai/claims/email": []}}
    assert (only(event).author, only(event).display_name, only(event).email) == ("alice", "", "")
    assert only(event).impersonator == "root"
    event["impersonatedUser"] = {"username": ""}
    assert only(event).author == "root"


def test_collection_members() -> None:
    """G18: one fact per listed object with a name and a uid, keyed by uid, without a version."""
    facts = facts_of(collection("bob", ("a", "u1"), ("b", "u2"), ("", "u3"), ("d", "")))
    assert [(f.name, f.uid, f.resource_version, f.namespace) for f in facts] == [
        ("a", "u1", "", "shop"),
        ("b", "u2", "", "shop"),
    ]
    assert {f.author for f in facts} == {"bob"}


@pytest.mark.parametrize(
    "body", [None, {"kind": "Status"}, {"items": None}, {"items": 5}, {"items": [5]}, "odd"]
)
def test_collection_without_members(body: object) -> None:
    """F7: a collection whose answer lists nothing proves nothing, and is no error."""
    assert facts_of(collection("bob") | {"responseObject": body}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"objectRef": None},
        {"objectRef": {"namespace": "shop", "name": "a"}},
        {"user": {}},
        {"user": {"username": ""}},
        {"responseObject": None, "requestObject": None},
    ],
)
def test_events_without_a_fact(change: dict[str, Any]) -> None:
    """A25: without an object, a user or a key there is no fact."""
    event = audit("patch", "alice") | change
    assert refuse(event) is None
    assert facts_of(event) == []


def test_scale_belongs_to_the_parent() -> None:
    """G21: the answer of a scale request carries name, uid and new version of its parent."""
    event = audit("patch", "carol", resource="deployments", group="apps")
    event["objectRef"]["subresource"] = "scale"
    event["responseObject"]["kind"] = "Scale"
    fact = only(event)
    assert (fact.group_resource, fact.uid, fact.resource_version, fact.subresource) == (
        "apps/deployments",
        "u1",
        "101",
        "scale",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00.000000000Z"),
        ("2026-01-01T10:00:00.5Z", "2026-01-01T10:00:00.500000000Z"),
        ("2026-01-01T10:00:00.123456Z", "2026-01-01T10:00:00.123456000Z"),
        ("yesterday", ""),
        ("2026-01-01T10:00:00+01:00", ""),
        ("<time>", ""),
        (5, ""),
        (None, ""),
    ],
)
def test_times_compare_as_texts(text: object, expected: str) -> None:
    """A26: a time of one shape, or none; an odd one loses the time, not the event."""
    assert timestamp(text) == expected


def dry(event: dict[str, Any], value: object = ("All",)) -> dict[str, Any]:
    """An event whose request body asks for a dry run; of a write, an object that has such a field."""
    asked = list(value) if isinstance(value, tuple) else value
    return event | {"requestObject": {**(event["requestObject"] or {}), "dryRun": asked}}


@pytest.mark.parametrize(
    "change", [{"level": "Metadata"}, {"annotations": {"audit.k8s.io/truncated": "true"}}], ids=str
)
def test_deletions_that_may_have_been_dry_runs(change: dict[str, Any]) -> None:
    """T2: without the request's body nobody can tell, so it proves nothing; a bodyless deletion does."""
    for event in (deletion("alice"), audit("delete", "alice"), collection("alice", ("a", "u1"))):
        assert facts_of(event | change) == []
    assert only(deletion("alice") | {"requestObject": None}).removal
    assert only(deletion("alice") | {"level": "Request"}).removal
    assert only(audit("update", "alice", request_rv="100") | change).author == "alice"


def gate_cases() -> list[tuple[str, object, Outcome | None]]:
    """One event for each test of the gate, in the order of the tests."""

    def sub(verb: str, name: str) -> dict[str, Any]:
        event = audit(verb, "alice")
        event["objectRef"]["subresource"] = name
        return event

    return [
        ("status", sub("create", "status"), Outcome.NON_SCALE_SUBRESOURCE),
        ("log before verb and stage", sub("get", "log") | {"stage": "Panic"}, Outcome.NON_SCALE_SUBRESOURCE),
        ("reading scale", sub("get", "scale"), Outcome.NON_SCALE_SUBRESOURCE),
        ("scale", sub("patch", "scale"), None),
        ("null", None, Outcome.NIL_EVENT),
        ("stage", audit("create", "alice", stage="x") | {"stage": "ResponseStarted"}, Outcome.STAGE),
        (
            "no stage",
            {key: value for key, value in audit("create", "a").items() if key != "stage"},
            Outcome.STAGE,
        ),
        ("stage before verb", audit("get", "alice") | {"stage": "Panic"}, Outcome.STAGE),
        ("verb", audit("get", "alice"), Outcome.VERB),
        ("upper case", audit("DELETE", "alice"), None),
        ("conflict", audit("update", "alice", code=409), Outcome.FAILED),
        ("redirect", audit("update", "alice", code=300), Outcome.FAILED),
        ("switching", audit("update", "alice", code=101), None),
        ("no status", audit("create", "alice") | {"responseStatus": None}, None),
        ("dry", audit("create", "alice") | {"requestURI": "/x?dryRun=All"}, Outcome.DRY_RUN),
        (
            "failed before dry",
            audit("create", "a", code=422) | {"requestURI": "/x?dryRun=All"},
            Outcome.FAILED,
        ),
        ("dry second", audit("create", "a") | {"requestURI": "/x?dryRun=&a=b&dryRun=All"}, Outcome.DRY_RUN),
        ("dry empty", audit("create", "alice") | {"requestURI": "/x?dryRun="}, None),
        ("dry lower", audit("create", "alice") | {"requestURI": "/x?dryRun=all"}, None),
        ("dry deletion", dry(deletion("alice")), Outcome.DRY_RUN),
        ("dry collection", dry(collection("alice", ("a", "u1"))), Outcome.DRY_RUN),
        ("dry deletion of one kept", dry(audit("delete", "alice")), Outcome.DRY_RUN),
        ("odd dry deletion", dry(deletion("alice"), "All"), None),
        ("a field of an object", dry(audit("create", "alice")), None),
        ("odd uri", audit("create", "alice") | {"requestURI": "http://[?"}, None),
        ("unchanged", audit("update", "alice", rv="5", request_rv="5"), Outcome.UNCHANGED),
        ("number", 5, Outcome.UNDECODABLE),
        ("odd reference", audit("create", "alice") | {"objectRef": 5}, Outcome.UNDECODABLE),
        ("odd code", audit("create", "alice") | {"responseStatus": {"code": "200"}}, Outcome.UNDECODABLE),
        ("clean", audit("create", "alice"), None),
    ]


@pytest.mark.parametrize(
    ("event", "expected"), [case[1:] for case in gate_cases()], ids=[c[0] for c in gate_cases()]
)
def test_gate(event: object, expected: Outcome | None) -> None:
    """H05: each test, and that the earlier one decides."""
    assert refuse(event) is expected


def test_categories() -> None:
    """A17: stored, error, or dropped."""
    assert {o.category for o in Outcome} == {"stored", "error", "dropped"}
    assert Outcome.QUEUED.category == "stored"
    assert Outcome.WRITE_ERROR.category == "error"
    assert Outcome.NO_FACT.category == "dropped"
    assert not is_dry_run("")
