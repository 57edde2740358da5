"""The audit events and watch events of a real API server, joined: who is named for each event.

Without the recordings the same shapes are tested by hand-written events in the other modules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reverser.store import Store
from reverser.store.model import TypeRef
from tests import needs
from tests.auditevents import event_list
from tests.webhooks.call import call
from watchers.evidence import judge, slot_names
from watchers.hooks import EventFacts
from webhooks.admission import AdmissionIngress
from webhooks.audit import AuditIngress

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "apiserver-recordings"

pytestmark = needs.material(FOLDER)

SCENARIOS: dict[str, list[tuple[str, str, str, str]]] = {
    "s03-actors": [
        ("ADDED", "a", "alice", "exact_user"),
        ("MODIFIED", "a", "bob", "exact_user"),
        ("MODIFIED", "a", "carol", "exact_user"),
        ("MODIFIED", "a", "system:serviceaccount:s-s03-actors:robot", "exact_serviceaccount"),
        ("MODIFIED", "a", "carol", "exact_user"),
        ("DELETED", "a", "bob", "exact_delete"),
        ("ADDED", "gen-bfj9m", "alice", "exact_user"),
    ],
    "s06-deletecollection": [
        ("ADDED", "a", "admin", "exact_user"),
        ("ADDED", "b", "admin", "exact_user"),
        ("ADDED", "c", "admin", "exact_user"),
        ("DELETED", "a", "admin", "exact_deletecollection_item"),
        ("DELETED", "b", "admin", "exact_deletecollection_item"),
    ],
    "s07-deployment-scale": [
        ("ADDED", "api", "admin", "exact_user"),
        ("MODIFIED", "api", "admin", "exact_user"),
        ("MODIFIED", "api", "admin", "exact_user"),
        ("MODIFIED", "api", "", "weak"),
        ("MODIFIED", "api", "admin", "exact_user"),
    ],
    "s09-admission": [
        ("ADDED", "one", "admin", "exact_user"),
        ("ADDED", "gen-s72wp", "admin", "exact_user"),
        ("DELETED", "one", "admin", "exact_delete"),
        ("DELETED", "gen-s72wp", "", "weak"),
    ],
}


def recording(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def kind_of(path: str, kind: str) -> TypeRef:
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    return TypeRef(group, parts[2] if group else parts[1], parts[-1], kind, True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_who_is_named(store: Store, name: str) -> None:
    """T2, T3, T6: exactly those are named whose request made the event."""
    lab = recording(name)
    ingress = AuditIngress(store, ttl_ms=900_000, max_body=2**24)
    assert call(ingress, event_list(*lab["audit"])).status == 200
    found = []
    watch = lab["watches"][0]
    for event in watch["events"]:
        if event["type"] == "BOOKMARK":
            continue
        meta = event["object"]["metadata"]
        facts = EventFacts(
            type=kind_of(watch["path"], event["object"]["kind"]),
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            removal=event["type"] == "DELETED" or "deletionTimestamp" in meta,
            deadline=0.0,
        )
        verdict = judge(facts, store.read_slots(slot_names(facts)))
        author = verdict.author.username if verdict.author else ""
        found.append((event["type"], meta["name"], author, str(verdict.result)))
    assert found == SCENARIOS[name]


def test_claims_of_the_impersonated(store: Store) -> None:
    """G06: the claims of an impersonated user are in the fact, those of the impersonator are not."""
    lab = recording("s03-actors")
    call(AuditIngress(store, ttl_ms=900_000, max_body=2**24), event_list(*lab["audit"]))
    values = b"".join(store.client.get(key) for key in store.client.keys("*:audit:*"))
    assert b"Carol C. Example" in values
    assert b"carol@example.com" in values


@pytest.mark.parametrize(
    "name", ["s03-actors", "s05-finalizers", "s06-deletecollection", "s08-crd", "s09-admission"]
)
def test_every_document_is_taken(store: Store, name: str) -> None:
    """No event of a real API server is undecodable, and every review is allowed."""
    lab = recording(name)
    assert call(AuditIngress(store, ttl_ms=900_000, max_body=2**24), event_list(*lab["audit"])).status == 200
    for review in lab["admission"]:
        answer = call(AdmissionIngress(store), review["request"], path="/validate-operator-types")
        assert json.loads(answer.body)["response"]["allowed"] is True
