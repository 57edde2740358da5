"""What status and the admin read, hints, and the two facades."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import time

import pytest
import redis

from reverser.errors import SettingsInvalid, StoreUnavailable
from reverser.store import AsyncStore, Hint, Store, appends, branches, leases, processes, settling, targets
from reverser.store.model import (
    AppendId,
    AppendStatus,
    BranchHealth,
    Gate,
    LeaseKind,
    PathVerdict,
    Scope,
    Skipped,
    SkippedObject,
    StreamRecord,
    StreamState,
)
from tests.store.world import BRANCH, CONFIGMAPS, PLENTY, SCOPE, TARGET, World, event
from tests.valkey import running_valkey


def test_gates_streams_verdicts_and_health_come_back(store: Store):
    """Each record reads as it was written, and is gone when dropped."""
    gate = Gate(True, 3, BRANCH, "live", "")
    store.write_gate("uid-a", gate)
    store.write_gate("uid-b", Gate(False, 1, reason="Suspended"))
    assert store.read_gate("uid-a") == gate
    assert set(store.read_gates()) == {"uid-a", "uid-b"}
    store.drop_gate("uid-a")
    assert store.read_gate("uid-a") is None

    record = StreamRecord(SCOPE, CONFIGMAPS, StreamState.STREAMING, "Streaming", since_ms=5)
    store.write_stream(record)
    assert store.read_streams("uid-a") == {SCOPE: record}
    store.drop_stream(SCOPE)
    assert store.read_streams("uid-a") == {}

    assert store.read_path_verdict("uid-a") is None
    verdict = PathVerdict(False, "ForeignFile", ("live/deploy.sh: not a manifest",), 1, 9)
    store.write_path_verdict("uid-a", verdict)
    assert store.read_path_verdict("uid-a") == verdict

    health = BranchHealth(False, "RemoteUnavailable", "no answer", 7, 2)
    assert store.read_branch_health(BRANCH) is None
    store.write_branch_health(BRANCH, health)
    assert store.read_branch_health(BRANCH) == health
    assert store.last_push("uid-a") == 0


def test_one_look_tells_the_same_as_three(store: Store):
    """Gate, marks and skipped objects of a target, asked for at once; nothing of another target."""
    (empty,) = store.look_at_targets(["uid-a"])
    assert (empty.gate, empty.marks, empty.skipped) == (None, {}, Skipped())
    store.write_gate("uid-a", Gate(True, 3, BRANCH, "live", ""))
    store.write_gate("uid-b", Gate(False, 1, reason="Suspended"))
    store.raise_wanted([SCOPE])
    store.write_skipped("uid-a", Skipped((SkippedObject("configmaps", "shop", "a", "Anchored", "why"),), 2))
    other, look = store.look_at_targets(["uid-b", "uid-a"])
    assert (other.gate, other.marks, other.skipped) == (store.read_gate("uid-b"), {}, Skipped())
    assert look.gate == store.read_gate("uid-a") is not None
    assert look.marks == store.read_marks("uid-a")
    assert look.marks[SCOPE].needs_replay
    assert look.skipped == store.read_skipped("uid-a")
    assert look.skipped.more == 2


def test_processes_are_shown_while_they_live(store: Store):
    """A heartbeat carries plain values and ends with its time to live."""
    store.heartbeat("watcher", "pod:1", {"targets": 3}, 30)
    store.heartbeat("watcher", "pod:2", {"targets": 1}, 30)
    assert store.heartbeats("watcher") == {"pod:1": {"targets": 3}, "pod:2": {"targets": 1}}
    store.client.delete("gitops-reverser:process:v1:watcher:pod%3A1")
    assert set(store.heartbeats("watcher")) == {"pod:2"}
    assert store.heartbeats("web") == {}


def test_hints_arrive_and_repetitions_do_not(store: Store):
    """A changed record is hinted, the same record again is not; patterns work."""
    record = StreamRecord(SCOPE, CONFIGMAPS, StreamState.REPLAYING, "Replaying")
    with store.subscribe("target:uid-a", "wanted:*") as hints:
        store.write_stream(record)
        store.write_stream(record)
        store.raise_wanted(Scope("uid-b", "secrets"))
        store.publish("target:uid-a", "hello")
        got = []
        deadline = time.monotonic() + 60
        while len(got) < 3 and time.monotonic() < deadline:
            hint = hints.get(0.1)
            if hint:
                got.append(hint)
    assert got == [Hint("target:uid-a"), Hint("wanted:uid-b"), Hint("target:uid-a", "hello")]


async def test_asynchronous_hints_can_be_added(async_store: AsyncStore):
    """A watcher listens to the targets that it holds, as they come and go."""
    async with async_store.subscribe() as hints:
        assert await hints.get(0.01) is None
        await hints.add("wanted:uid-a")
        await async_store.raise_wanted(SCOPE)

        async def first() -> Hint:
            while True:
                hint = await hints.get(0.1)
                if hint:
                    return hint

        assert await asyncio.wait_for(first(), 60) == Hint("wanted:uid-a")
        await hints.drop("wanted:uid-a")


async def test_the_asynchronous_store_writes_the_same_journal(async_store: AsyncStore, store: Store):
    """What one door appends the other reads."""
    epoch = await async_store.open_journal(BRANCH)
    fence = await async_store.acquire_lease(LeaseKind.TARGET, TARGET.uid, "w", 60_000, "pod")
    status = await async_store.append_events(
        BRANCH,
        SCOPE,
        fence,
        expected=None,
        append_id=AppendId("s", 1),
        epoch=epoch,
        fingerprint="fp",
        events=[event()],
        resource_version="5",
        limits=PLENTY,
    )
    assert status is AppendStatus.OK
    assert [stored.entry for stored in store.read_entries(BRANCH)] == [event()]
    assert await async_store.read_cursor(SCOPE) == store.read_cursor(SCOPE)
    assert abs(await async_store.time_ms() - store.time_ms()) < 60_000


@pytest.mark.parametrize("module", [appends, branches, leases, processes, settling, targets])
def test_both_doors_offer_every_operation(module):
    """An operation that is written is an operation that can be called, on both."""
    own = {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert own
    for door in (Store, AsyncStore):
        assert own <= set(vars(door))


def test_a_server_that_is_away_is_unavailable():
    """The error is transient, says what to look at, and shows no password."""
    store = Store.connect("redis://:s3cret@127.0.0.1:1/0", deadline_s=0.5)
    with pytest.raises(StoreUnavailable) as caught:
        store.time_ms()
    with pytest.raises(StoreUnavailable):
        store.subscribe("gate")
    with pytest.raises(StoreUnavailable):
        store.check_server()
    assert "s3cret" not in str(caught.value)
    assert "REVERSER_REDIS_URL" in str(caught.value)


@pytest.mark.parametrize("login", ["", ":other@", "nobody:none@"])
def test_a_wrong_login_is_told_as_such(login: str):
    """Nobody looks for memory or a network fault where the password is wrong; it is not shown."""
    with running_valkey() as server:
        redis.Redis(port=server.port).config_set("requirepass", "pw")
        store = Store.connect(f"redis://{login}127.0.0.1:{server.port}/0")
        with pytest.raises(StoreUnavailable, match="correct the user and the password") as caught:
            store.time_ms()
        store.close()
    assert "other" not in str(caught.value)


def test_a_server_that_hangs_meets_the_deadline():
    """Every call has a deadline."""
    with running_valkey() as server:
        impatient = Store.connect(f"redis://127.0.0.1:{server.port}/0", deadline_s=0.2)
        while True:  # the first answer may be late, on a machine that is busy
            with contextlib.suppress(StoreUnavailable):
                impatient.time_ms()
                break
        os.kill(server._process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable):
                impatient.time_ms()
        finally:
            os.kill(server._process.pid, signal.SIGCONT)
        impatient.close()


def test_a_full_server_is_unavailable_and_changes_nothing(world: World):
    """Out of memory is refused before anything is written, and heals."""
    config = world.store.client.config_set
    config("maxmemory", "1")
    try:
        with pytest.raises(StoreUnavailable, match="raise its maxmemory"):
            world.append(event())
    finally:
        config("maxmemory", "0")
    assert world.ids() == []
    assert world.append(event()) is AppendStatus.OK


def test_the_server_is_checked(store: Store):
    """Eviction is refused; a missing append-only file is a warning with its remedy."""
    (warning,) = store.check_server()
    assert "appendonly yes" in warning
    store.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SettingsInvalid, match="noeviction"):
            store.check_server()
    finally:
        store.client.config_set("maxmemory-policy", "noeviction")


async def test_the_server_is_checked_asynchronously(async_store: AsyncStore):
    """The same answers through the other door."""
    (warning,) = await async_store.check_server()
    assert "append-only" in warning


def test_a_script_error_is_a_bug(store: Store):
    """A key of the wrong type is not mistaken for an outage."""
    store.client.set("gitops-reverser:due:v1", "x")
    with pytest.raises(redis.ResponseError):
        store.wake_branch(BRANCH)


def test_scripts_survive_a_restart_of_the_cache(store: Store):
    """A server that forgot the scripts is sent them again."""
    store.wake_branch(BRANCH)
    store.client.script_flush()
    assert store.claim_due(1, 1000) == [BRANCH]


async def test_many_callers_queue_for_a_connection(async_store: AsyncStore):
    """Hundreds of shards at once share a few connections."""
    scopes = [Scope(f"uid-{n}", "configmaps") for n in range(300)]
    others = (await async_store.client.info("clients"))["connected_clients"]
    cursors = await asyncio.gather(*(async_store.read_cursor(scope) for scope in scopes))
    assert cursors == [None] * 300
    assert (await async_store.client.info("clients"))["connected_clients"] - others < 100
