"""Admission observes who asks for a commit, and never refuses anything."""

from __future__ import annotations

import socket
import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverser.store import Store
from reverser.store.model import Author
from tests.webhooks.call import Answer, Memory, call
from webhooks.admission import AdmissionIngress
from webhooks.setup import ADMISSION_REDIS_SECONDS

RESOURCE = {"group": "configbutler.ai", "version": "v1alpha3", "resource": "commitrequests"}
CLAIMS = {
    "configbutler.ai/claims/display-name": ["Alice Liddell", "other"],
    "configbutler.ai/claims/email": ["alice@lab.test"],
}


def review(**changes: Any) -> dict[str, Any]:
    """What a validating webhook is sent for the creation of a CommitRequest by alice."""
    request = {
        "uid": "review-1",
        "resource": RESOURCE,
        "name": "save",
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"], "extra": CLAIMS},
        "object": {"metadata": {"name": "save", "uid": "object-1"}},
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | changes}


def ask(store: Any, body: Any, path: str = "/validate-operator-types", **more: Any) -> Answer:
    return call(AdmissionIngress(store), body, path=path, **more)


def allowed(answer: Answer) -> bool:
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    body = orjson.loads(answer.body)
    assert body["response"]["uid"] == "review-1"
    assert body["kind"] == "AdmissionReview"
    return bool(body["response"]["allowed"])


def test_creation_is_recorded(store: Store) -> None:
    """H11: the record is there before the answer, under the uid of the object; the first one stays."""
    assert allowed(ask(store, review()))
    assert store.read_submitter("object-1") == Author("alice", "Alice Liddell", "alice@lab.test")
    assert allowed(ask(store, review(userInfo={"username": "eve"})))
    assert store.read_submitter("object-1") == Author("alice", "Alice Liddell", "alice@lab.test")
    assert store.client.keys("*") == [b"gitops-reverser:author:v1:command:object-1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"dryRun": True},
        {"operation": "UPDATE"},
        {"operation": "DELETE"},
        {"subResource": "status"},
        {"resource": {"group": "", "version": "v1", "resource": "configmaps"}},
        {"resource": None},
        {"object": {"metadata": {"name": "save"}}},
        {"object": None},
        {"userInfo": {"username": ""}},
        {"userInfo": None},
    ],
)
def test_what_is_not_recorded_is_allowed(changes: dict[str, Any]) -> None:
    """H11, V4: nothing is recorded, and the answer is yes."""
    memory = Memory()
    assert allowed(ask(memory, review(**changes)))
    assert memory.submitters == {}


@pytest.mark.parametrize("uid", [None, "", 5])
def test_review_without_a_uid(store: Store, uid: Any) -> None:
    """H11: every review that can be read is allowed, also one that has no uid to echo."""
    answer = ask(store, review(uid=uid))
    assert answer.status == 200
    assert orjson.loads(answer.body)["response"] == {"uid": "", "allowed": True}


def test_generated_name() -> None:
    """T6: the key is the object's uid, so a generated name needs nothing."""
    memory = Memory()
    assert allowed(ask(memory, review(name="", object={"metadata": {"generateName": "s-", "uid": "o2"}})))
    assert memory.submitters["o2"].username == "alice"


def test_store_down() -> None:
    """T5: a store that does not answer delays and refuses nothing."""
    assert allowed(ask(Memory(down=True), review()))


def test_store_that_hangs() -> None:
    """H11: a store that accepts and never answers costs less than the 2 s that a review may take."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        store, took = Store.connect(url, deadline_s=ADMISSION_REDIS_SECONDS), [9.0]
        while min(took) >= 2.0 and len(took) < 10:  # a machine that is busy elsewhere may spoil some
            started = time.monotonic()
            assert allowed(ask(store, review()))
            took.append(time.monotonic() - started)
        store.close()
    assert min(took) < 2.0


def test_observer_path() -> None:
    """V1: /validate-all allows and records nothing."""
    memory = Memory()
    assert allowed(ask(memory, review(), path="/validate-all"))
    assert memory.submitters == {}


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", {"request": {}}, {"request": 5}, review() | {"kind": "X"}]
)
def test_undecodable(body: Any) -> None:
    """V2: a review that cannot be read is a 400, which the policy turns into a yes."""
    assert ask(Memory(), body).status == 400


def test_other_paths_and_methods() -> None:
    """One path for decisions, one for observers, POST alone."""
    assert ask(Memory(), review(), path="/").status == 404
    assert ask(Memory(), review(), method="GET").status == 405


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(body: bytes) -> None:
    """Whatever is sent, the answer is valid and never a refusal."""
    assert ask(Memory(), body).status == 400
