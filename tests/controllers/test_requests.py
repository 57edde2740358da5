"""CommitRequests from creation to their end, on a sandbox and a real Redis."""

from __future__ import annotations

import orjson
import pytest

from reverser.controllers.metrics import AUTHOR_LOOKUPS
from reverser.controllers.world import REQUESTS
from reverser.errors import KubeNotFound
from reverser.store.keys import author_command
from reverser.store.model import (
    AttachEntry,
    Author,
    BranchHealth,
    BranchKey,
    LeaseKind,
    Outcome,
    OutcomeKind,
    Settlement,
    TargetRef,
)
from tests.controllers.cluster import Cluster

MAIN = BranchKey("shop", "gp", "main")


async def prepare(cluster: Cluster, url: str, **spec: object) -> str:
    """A target and a waiting request; answers the request's UID."""
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main"]})
    await cluster.apply("GitTarget", "gt", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"})
    await cluster.apply("CommitRequest", "save", {"targetRef": {"name": "gt"}, **spec})
    return await cluster.uid("CommitRequest", "save")


async def attach(cluster: Cluster, uid: str) -> None:
    """What the watcher that holds the target does."""
    target = TargetRef(await cluster.uid("GitTarget", "gt"), "shop", "gt")
    entry = AttachEntry(target, "shop", "save", uid, Author("alice"))
    await cluster.store.append_attach(MAIN, None, entry)


async def finish(cluster: Cluster, uid: str, kind: OutcomeKind, commit: str = "") -> None:
    """What the branch writer does."""
    fence = await cluster.store.acquire_lease(LeaseKind.BRANCH, MAIN.id, "t", 60_000, "writer")
    assert fence is not None
    target = TargetRef(await cluster.uid("GitTarget", "gt"), "shop", "gt")
    outcome = Outcome(
        id=f"o-{uid}",
        kind=kind,
        branch=MAIN,
        target=target,
        commit=commit,
        request_uid=uid,
        detail="live/x.sh",
    )
    entries = tuple(e.id for e in await cluster.store.read_entries(MAIN))
    assert await cluster.store.settle(MAIN, fence, Settlement(outcome, entries, pushed=bool(commit)))


async def test_a_request_waits_and_is_committed(cluster: Cluster, url: str) -> None:
    """I01: progress first, then the commit's sha and branch, the submitter kept, and nothing after."""
    uid = await prepare(cluster, url, message="Menu for spring\n\n- soup")
    record = {
        "author": "alice",
        "displayName": "Alice A.",
        "email": "",
        "requestedAt": "2031-01-01T00:00:00.5Z",
    }
    await cluster.store.client.set(author_command(uid), orjson.dumps(record))
    await cluster.settle()
    assert await cluster.conditions("CommitRequest", "save") == {
        "Ready": "False/WaitingForCloseDelay",
        "Reconciling": "True/WaitingForCloseDelay",
        "Stalled": "False/WaitingForCloseDelay",
        "Pushed": "Unknown/WaitingForCloseDelay",
        "AuthorAttributed": "True/AttributedFromAdmission",
    }
    await attach(cluster, uid)
    await cluster.store.client.delete(author_command(uid))
    await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")
    cluster.restart()
    await cluster.settle()
    found = await cluster.conditions("CommitRequest", "save")
    assert (found["Ready"], found["Pushed"]) == ("True/Committed", "True/Pushed")
    assert found["AuthorAttributed"] == "True/AttributedFromAdmission"
    status = (await cluster.get("CommitRequest", "save"))["status"]
    assert (status["sha"], status["branch"]) == ("c0ffee", "main")
    assert status["submitter"] == {"username": "alice", "displayName": "Alice A."}


@pytest.mark.parametrize(
    ("kind", "ready"),
    [
        (OutcomeKind.NO_WINDOW, "True/NoWindowInGrace"),
        (OutcomeKind.WINDOW_MISMATCH, "True/WindowMismatch"),
        (OutcomeKind.NO_CHANGE, "True/AlreadyPresent"),
        (OutcomeKind.REFUSED, "False/FinalizeFailed"),
    ],
)
async def test_ends_without_a_commit(cluster: Cluster, url: str, kind: OutcomeKind, ready: str) -> None:
    """I06, I13, I15: no sha, and a refusal names the file."""
    uid = await prepare(cluster, url)
    await attach(cluster, uid)
    await finish(cluster, uid, kind)
    await cluster.settle()
    assert (await cluster.conditions("CommitRequest", "save"))["Ready"] == ready
    assert "sha" not in (await cluster.get("CommitRequest", "save"))["status"]
    if kind is OutcomeKind.REFUSED:
        assert await cluster.message("CommitRequest", "save", "Ready") == "live/x.sh"
    if kind is OutcomeKind.NO_CHANGE:
        told = "nothing was committed; live/x.sh"
        assert await cluster.message("CommitRequest", "save", "Ready") == told, "not that Git has it all"


async def test_terminal_requests_are_inert(cluster: Cluster, url: str) -> None:
    """I26: a restart and a second outcome leave the status byte for byte."""
    uid = await prepare(cluster, url)
    await attach(cluster, uid)
    await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")
    await cluster.settle()
    before = await cluster.get("CommitRequest", "save")
    cluster.restart()
    await cluster.settle()
    assert await cluster.get("CommitRequest", "save") == before


async def test_a_stale_cache_cannot_finish_twice(cluster: Cluster, url: str) -> None:
    """Q4: the terminal check is made on the object as the API server has it."""
    uid = await prepare(cluster, url)
    await cluster.refresh()
    stale = list(cluster.caches[REQUESTS].found)
    await attach(cluster, uid)
    await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")
    await cluster.settle()
    before = await cluster.get("CommitRequest", "save")
    cluster.restart()
    await cluster.store.client.flushall()
    cluster.caches[REQUESTS].found = stale
    await cluster.look(REQUESTS, "shop/save")
    assert await cluster.get("CommitRequest", "save") == before


async def test_the_bound_starts_with_the_attach(cluster: Cluster, url: str) -> None:
    """I21, Q7: 420 s from the first attach; what it waits for is said meanwhile."""
    uid = await prepare(cluster, url)
    await cluster.settle()
    cluster.clock = 400.0
    await attach(cluster, uid)
    health = BranchHealth(ok=False, reason="PushRejected", message="no")
    await cluster.store.write_branch_health(MAIN, health)
    await cluster.settle()
    cluster.clock = 810.0
    await cluster.settle()
    assert "pushing to branch 'main' fails: no" in await cluster.message(
        "CommitRequest", "save", "Reconciling"
    )
    cluster.clock = 821.0
    await cluster.settle()
    assert (await cluster.conditions("CommitRequest", "save"))["Stalled"] == "True/FinalizeFailed"


async def test_a_missing_target_is_named(cluster: Cluster, url: str) -> None:
    """I21: the Reconciling message says what is missing."""
    await cluster.apply("CommitRequest", "save", {"targetRef": {"name": "gone"}})
    await cluster.settle()
    message = await cluster.message("CommitRequest", "save", "Reconciling")
    assert "GitTarget 'shop/gone' not found" in message


async def test_finished_requests_expire(cluster: Cluster, url: str) -> None:
    """ttlSecondsAfterFinished deletes the finished object, and only then."""
    uid = await prepare(cluster, url, ttlSecondsAfterFinished=0)
    await cluster.settle()
    assert await cluster.get("CommitRequest", "save")
    await attach(cluster, uid)
    await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")
    await cluster.settle()
    with pytest.raises(KubeNotFound):
        await cluster.get("CommitRequest", "save")


async def test_the_same_name_again_is_another_request(cluster: Cluster, url: str) -> None:
    """I25: the UID decides."""
    uid = await prepare(cluster, url)
    await attach(cluster, uid)
    await finish(cluster, uid, OutcomeKind.PUSHED, "c0ffee")
    await cluster.settle()
    await cluster.delete("CommitRequest", "save")
    await cluster.apply("CommitRequest", "save", {"targetRef": {"name": "gt"}, "message": "two"})
    await cluster.settle()
    found = await cluster.conditions("CommitRequest", "save")
    assert found["Reconciling"] == "True/WaitingForCloseDelay"


async def test_a_deleted_request_is_withdrawn(cluster: Cluster, url: str) -> None:
    """I21: deleting a waiting request takes its attach back, also when the name is used again at once."""
    first = await prepare(cluster, url)
    await attach(cluster, first)
    await cluster.settle()
    await cluster.delete("CommitRequest", "save")
    second = await prepare(cluster, url)
    await attach(cluster, second)
    await cluster.settle()
    assert await cluster.store.withdrawn([first, second]) == {first}
    await cluster.delete("CommitRequest", "save")
    await cluster.refresh()
    await cluster.look(REQUESTS, "shop/save")
    assert await cluster.store.withdrawn([first, second]) == {first, second}


async def test_deleted_while_no_controller_ran(cluster: Cluster, url: str) -> None:
    """I21: whoever leads next withdraws what is gone, and leaves alone what waits or has its answer."""
    answered = await prepare(cluster, url)
    await attach(cluster, answered)
    await finish(cluster, answered, OutcomeKind.PUSHED, "c0ffee")
    await cluster.delete("CommitRequest", "save")
    first = await prepare(cluster, url)
    await attach(cluster, first)
    await cluster.settle()
    await cluster.delete("CommitRequest", "save")
    second = await prepare(cluster, url)
    await attach(cluster, second)
    cluster.restart()
    await cluster.refresh()
    await cluster.requests.sweep()
    assert await cluster.store.withdrawn([first, second]) == {first}
    assert await cluster.store.attach_pending(second)
    assert await cluster.store.attach_outcome(answered) is not None


async def test_deleted_before_a_new_leader_looked(cluster: Cluster, url: str) -> None:
    """I21: a request that a new leader only knew from its list is withdrawn when it goes."""
    uid = await prepare(cluster, url)
    await attach(cluster, uid)
    cluster.restart()
    await cluster.refresh()
    await cluster.requests.sweep()
    await cluster.delete("CommitRequest", "save")
    await cluster.refresh()
    await cluster.look(REQUESTS, "shop/save")
    assert await cluster.store.withdrawn([uid]) == {uid}


@pytest.mark.parametrize("record", [b"", b"odd", b"[]", b"{}", b'{"author": ""}', b'{"author": null}'])
async def test_an_odd_admission_record_is_a_miss(cluster: Cluster, url: str, record: bytes) -> None:
    """Q3: without a usable name the committer stands in; the look-up is counted."""
    misses = AUTHOR_LOOKUPS.labels("miss")._value.get()
    uid = await prepare(cluster, url)
    await cluster.store.client.set(author_command(uid), record)
    await cluster.settle()
    found = await cluster.conditions("CommitRequest", "save")
    assert found["AuthorAttributed"] == "False/CommitterFallback"
    assert AUTHOR_LOOKUPS.labels("miss")._value.get() == misses + 1
