"""The two doors to Redis: ``Store`` blocks, ``AsyncStore`` awaits; both send the very same calls.

Every operation is a function of a module beside this one; here it only becomes a method. Each call has a
deadline (the connection's), and whatever keeps Redis from serving becomes ``StoreUnavailable``: repeat the
call, every one of them is safe to repeat. A script error is a bug and stays one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationWrongNumberOfArgsError,
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from reverser.errors import SettingsInvalid, StoreUnavailable
from reverser.store import appends, attribution, branches, kept, leases, processes, settling, targets
from reverser.store.calls import Argument, Call, script
from reverser.store.connections import awaiting_pool, blocking_pool
from reverser.store.hints import AsyncHints, Hints
from reverser.store.refusals import install as install_refusals
from reverser.store.refusals import remedy

if TYPE_CHECKING:
    RedisClient = redis.Redis
    AsyncRedisClient = redis.asyncio.Redis

P = ParamSpec("P")
T = TypeVar("T")

DEADLINE_S = 5.0
MAX_CONNECTIONS = 48
_CHECKED = ("memory", "persistence", "cluster")
UNAVAILABLE = (
    AuthenticationWrongNumberOfArgsError,
    ConnectionError,
    TimeoutError,
    BusyLoadingError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
    OSError,
)
install_refusals()


class _Blocking(Generic[P, T]):
    """An operation as a method of ``Store``."""

    def __init__(self, operation: Callable[P, Call[T]]) -> None:
        self.operation = operation
        self.__doc__ = operation.__doc__

    def __get__(self, store: Store, owner: type[Store]) -> Callable[P, T]:
        @functools.wraps(self.operation)
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return store.run(self.operation(*args, **kwargs))

        return method


class _Awaiting(Generic[P, T]):
    """An operation as a coroutine method of ``AsyncStore``."""

    def __init__(self, operation: Callable[P, Call[T]]) -> None:
        self.operation = operation
        self.__doc__ = operation.__doc__

    def __get__(self, store: AsyncStore, owner: type[AsyncStore]) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(self.operation)
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await store.run(self.operation(*args, **kwargs))

        return method


def _unavailable(error: Exception) -> StoreUnavailable:
    if isinstance(error, NoPermissionError):
        return StoreUnavailable(
            f"Redis refuses its user in REVERSER_REDIS_URL a right ({error}): give it the rights that "
            "docs/install.md names"
        )
    return StoreUnavailable(f"Redis cannot serve now ({type(error).__name__}): {remedy(error)}")


def _evaluation(call: Call[Any], *, by_text: bool = False) -> tuple[Argument, ...]:
    """The command that runs a script: by its digest, or by its text for a server that does not know it."""
    lua = script(call.script)
    named = ("EVAL", lua.text) if by_text else ("EVALSHA", lua.sha)
    return (*named, len(call.keys), *call.keys, *call.args)


def _options(url: str, deadline_s: float) -> dict[str, Any]:
    # Callers queue for a connection rather than fail, as long as the deadline allows. The one silent second
    # try that goes with it lets a pooled connection outlive a restart of Redis. A socket file has no silent
    # peers to be asked for, and there the driver asks again on each connection that it makes to ask: without
    # end, while a full disk makes Redis refuse PING.
    return {
        "max_connections": MAX_CONNECTIONS,
        "timeout": deadline_s,
        "socket_timeout": deadline_s,
        "socket_connect_timeout": deadline_s,
        "health_check_interval": 0 if url.startswith("unix://") else 30,
        "decode_responses": False,
        "protocol": 2,
    }


def _verdict(memory: Any, persistence: Any, cluster: Any) -> list[str]:
    """Warnings of a server check; refused are a policy under which Redis may evict, and Redis Cluster.

    INFO is used, not CONFIG: hosted servers allow the one and forbid the other.
    """
    if int(cluster.get("cluster_enabled", 0)):
        raise SettingsInvalid(
            [
                "REVERSER_REDIS_URL names a Redis Cluster, over whose shards a step of the journal cannot be "
                "atomic; name a single primary, with or without Sentinel (hosted: cluster mode off)"
            ]
        )
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise SettingsInvalid(
            [
                f"Redis has maxmemory-policy {policy}: the journal could be evicted. "
                "Set maxmemory-policy noeviction."
            ]
        )
    if not int(persistence.get("aof_enabled", 0)):
        return [
            "Redis runs without an append-only file: changes that wait for a push are lost when it stops. "
            "Set appendonly yes."
        ]
    return []


class Store:
    """The blocking door, safe to share between threads."""

    open_journal = _Blocking(appends.open_journal)
    read_epoch = _Blocking(appends.read_epoch)
    read_cursor = _Blocking(appends.read_cursor)
    touch_cursor = _Blocking(appends.touch_cursor)
    append_events = _Blocking(appends.append_events)
    stage = _Blocking(appends.stage)
    unstage = _Blocking(appends.unstage)
    drop_staging = _Blocking(appends.drop_staging)
    read_staging = _Blocking(appends.read_staging)
    staged_names = _Blocking(appends.staged_names)
    read_staged = _Blocking(appends.read_staged)
    append_sweep = _Blocking(appends.append_sweep)
    append_attach = _Blocking(appends.append_attach)
    append_retire = _Blocking(appends.append_retire)

    acquire_lease = _Blocking(leases.acquire_lease)
    renew_lease = _Blocking(leases.renew_lease)
    renew_leases = _Blocking(leases.renew_leases)
    release_lease = _Blocking(leases.release_lease)
    verify_fence = _Blocking(leases.verify_fence)
    verify_branch = _Blocking(leases.verify_branch)
    lease_holders = _Blocking(leases.lease_holders)

    claim_due = _Blocking(branches.claim_due)
    wake_branch = _Blocking(branches.wake_branch)
    read_due = _Blocking(branches.read_due)
    sweep_journals = _Blocking(branches.sweep_journals)
    known_branches = _Blocking(branches.known_branches)
    forget_branch = _Blocking(branches.forget_branch)
    read_entries = _Blocking(branches.read_entries)
    read_texts = _Blocking(branches.read_texts)
    entry_ids = _Blocking(branches.entry_ids)
    read_boundaries = _Blocking(branches.read_boundaries)
    store_boundary = _Blocking(branches.store_boundary)
    read_intents = _Blocking(branches.read_intents)
    store_intent = _Blocking(branches.store_intent)
    note_refusal = _Blocking(branches.note_refusal)
    read_strays = _Blocking(branches.read_strays)
    note_stray = _Blocking(branches.note_stray)
    release_branch = _Blocking(branches.release_branch)
    read_branch = _Blocking(branches.read_branch)
    read_base = _Blocking(branches.read_base)
    read_backlogs = _Blocking(branches.read_backlogs)
    read_bases = _Blocking(branches.read_bases)
    read_unsettled_bytes = _Blocking(branches.read_unsettled_bytes)
    note_rewrite = _Blocking(branches.note_rewrite)
    branch_scopes = _Blocking(branches.branch_scopes)
    write_branch_health = _Blocking(branches.write_branch_health)
    read_branch_health = _Blocking(branches.read_branch_health)

    settle = _Blocking(settling.settle)
    attach_outcome = _Blocking(settling.attach_outcome)
    attach_pending = _Blocking(settling.attach_pending)
    pending_requests = _Blocking(settling.pending_requests)
    withdraw_attach = _Blocking(settling.withdraw_attach)
    withdraw_mark = _Blocking(settling.withdraw_mark)
    withdrawn = _Blocking(settling.withdrawn)
    read_outcomes = _Blocking(settling.read_outcomes)

    look_at_targets = _Blocking(targets.look_at_targets)
    read_marks = _Blocking(targets.read_marks)
    raise_wanted = _Blocking(targets.raise_wanted)
    park = _Blocking(targets.park)
    unpark = _Blocking(targets.unpark)
    write_gate = _Blocking(targets.write_gate)
    drop_gate = _Blocking(targets.drop_gate)
    read_gate = _Blocking(targets.read_gate)
    read_gates = _Blocking(targets.read_gates)
    write_stream = _Blocking(targets.write_stream)
    drop_stream = _Blocking(targets.drop_stream)
    read_streams = _Blocking(targets.read_streams)
    write_path_verdict = _Blocking(targets.write_path_verdict)
    read_path_verdict = _Blocking(targets.read_path_verdict)
    write_skipped = _Blocking(targets.write_skipped)
    read_skipped = _Blocking(targets.read_skipped)
    note_kept = _Blocking(kept.note_kept)
    read_kept = _Blocking(kept.read_kept)
    last_push = _Blocking(targets.last_push)
    write_recipients = _Blocking(targets.write_recipients)
    read_recipients = _Blocking(targets.read_recipients)
    read_digests = _Blocking(targets.read_digests)
    forget_digests = _Blocking(targets.forget_digests)
    read_unsealed = _Blocking(targets.read_unsealed)
    clear_unsealed = _Blocking(targets.clear_unsealed)
    read_holds = _Blocking(targets.read_holds)
    release_hold = _Blocking(targets.release_hold)
    forget_target = _Blocking(targets.forget_target)
    wake_target = _Blocking(targets.wake_target)

    write_facts = _Blocking(attribution.write_facts)
    read_slots = _Blocking(attribution.read_slots)
    read_claims = _Blocking(attribution.read_claims)
    write_submitter = _Blocking(attribution.write_submitter)
    read_submitter = _Blocking(attribution.read_submitter)
    read_submission = _Blocking(attribution.read_submission)
    count_fact_keys = _Blocking(attribution.count_fact_keys)
    mark_used = _Blocking(attribution.mark_used)
    drop_expired = _Blocking(attribution.drop_expired)

    heartbeat = _Blocking(processes.heartbeat)
    heartbeats = _Blocking(processes.heartbeats)
    time_ms = _Blocking(processes.time_ms)
    publish = _Blocking(processes.publish)

    def __init__(self, client: RedisClient) -> None:
        self.client: Any = client

    @classmethod
    def connect(cls, url: str, *, deadline_s: float = DEADLINE_S) -> Store:
        """A store for ``url``, in a form that ``store.address`` reads. Nothing is sent yet."""
        options = {"retry": Retry(NoBackoff(), 1), **_options(url, deadline_s)}
        pool = blocking_pool(url, **options)
        return cls(redis.Redis(connection_pool=pool))

    def run(self, call: Call[T]) -> T:
        """Send one call. Raises StoreUnavailable when Redis cannot serve it in time."""
        try:
            if call.command:
                return call.decode(self.client.execute_command(*call.command))
            try:
                reply = self.client.execute_command(*_evaluation(call))
            except NoScriptError:
                reply = self.client.execute_command(*_evaluation(call, by_text=True))
            return call.decode(reply)
        except UNAVAILABLE as error:
            raise _unavailable(error) from error

    def run_all(self, calls: Sequence[Call[T]]) -> list[T]:
        """Send many calls in one round trip, without atomicity. Raises StoreUnavailable likewise."""
        sent = self.client.pipeline(transaction=False)
        for call in calls:
            sent.execute_command(*(call.command or _evaluation(call)))
        try:
            replies = sent.execute(raise_on_error=False)
            for reply in replies:
                if isinstance(reply, Exception) and not isinstance(reply, NoScriptError):
                    raise reply
        except UNAVAILABLE as error:
            raise _unavailable(error) from error
        return [
            self.run(call) if isinstance(reply, NoScriptError) else call.decode(reply)
            for call, reply in zip(calls, replies, strict=True)
        ]

    def check_server(self) -> list[str]:
        """Warnings about the server's settings; refuses (SettingsInvalid) one that may evict the journal, and
        a Redis Cluster.
        """
        try:
            found = [self.client.info(section) for section in _CHECKED]
        except UNAVAILABLE as error:
            raise _unavailable(error) from error
        return _verdict(*found)

    def subscribe(self, *topics: str) -> Hints:
        """Listen to hints (close it when done)."""
        return Hints(self.client, topics)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class AsyncStore:
    """The asyncio door, for one event loop."""

    open_journal = _Awaiting(appends.open_journal)
    read_epoch = _Awaiting(appends.read_epoch)
    read_cursor = _Awaiting(appends.read_cursor)
    touch_cursor = _Awaiting(appends.touch_cursor)
    append_events = _Awaiting(appends.append_events)
    stage = _Awaiting(appends.stage)
    unstage = _Awaiting(appends.unstage)
    drop_staging = _Awaiting(appends.drop_staging)
    read_staging = _Awaiting(appends.read_staging)
    staged_names = _Awaiting(appends.staged_names)
    read_staged = _Awaiting(appends.read_staged)
    append_sweep = _Awaiting(appends.append_sweep)
    append_attach = _Awaiting(appends.append_attach)
    append_retire = _Awaiting(appends.append_retire)

    acquire_lease = _Awaiting(leases.acquire_lease)
    renew_lease = _Awaiting(leases.renew_lease)
    renew_leases = _Awaiting(leases.renew_leases)
    release_lease = _Awaiting(leases.release_lease)
    verify_fence = _Awaiting(leases.verify_fence)
    verify_branch = _Awaiting(leases.verify_branch)
    lease_holders = _Awaiting(leases.lease_holders)

    claim_due = _Awaiting(branches.claim_due)
    wake_branch = _Awaiting(branches.wake_branch)
    read_due = _Awaiting(branches.read_due)
    sweep_journals = _Awaiting(branches.sweep_journals)
    known_branches = _Awaiting(branches.known_branches)
    forget_branch = _Awaiting(branches.forget_branch)
    read_entries = _Awaiting(branches.read_entries)
    read_texts = _Awaiting(branches.read_texts)
    entry_ids = _Awaiting(branches.entry_ids)
    read_boundaries = _Awaiting(branches.read_boundaries)
    store_boundary = _Awaiting(branches.store_boundary)
    read_intents = _Awaiting(branches.read_intents)
    store_intent = _Awaiting(branches.store_intent)
    note_refusal = _Awaiting(branches.note_refusal)
    read_strays = _Awaiting(branches.read_strays)
    note_stray = _Awaiting(branches.note_stray)
    release_branch = _Awaiting(branches.release_branch)
    read_branch = _Awaiting(branches.read_branch)
    read_base = _Awaiting(branches.read_base)
    read_backlogs = _Awaiting(branches.read_backlogs)
    read_bases = _Awaiting(branches.read_bases)
    read_unsettled_bytes = _Awaiting(branches.read_unsettled_bytes)
    note_rewrite = _Awaiting(branches.note_rewrite)
    branch_scopes = _Awaiting(branches.branch_scopes)
    write_branch_health = _Awaiting(branches.write_branch_health)
    read_branch_health = _Awaiting(branches.read_branch_health)

    settle = _Awaiting(settling.settle)
    attach_outcome = _Awaiting(settling.attach_outcome)
    attach_pending = _Awaiting(settling.attach_pending)
    pending_requests = _Awaiting(settling.pending_requests)
    withdraw_attach = _Awaiting(settling.withdraw_attach)
    withdraw_mark = _Awaiting(settling.withdraw_mark)
    withdrawn = _Awaiting(settling.withdrawn)
    read_outcomes = _Awaiting(settling.read_outcomes)

    look_at_targets = _Awaiting(targets.look_at_targets)
    read_marks = _Awaiting(targets.read_marks)
    raise_wanted = _Awaiting(targets.raise_wanted)
    park = _Awaiting(targets.park)
    unpark = _Awaiting(targets.unpark)
    write_gate = _Awaiting(targets.write_gate)
    drop_gate = _Awaiting(targets.drop_gate)
    read_gate = _Awaiting(targets.read_gate)
    read_gates = _Awaiting(targets.read_gates)
    write_stream = _Awaiting(targets.write_stream)
    drop_stream = _Awaiting(targets.drop_stream)
    read_streams = _Awaiting(targets.read_streams)
    write_path_verdict = _Awaiting(targets.write_path_verdict)
    read_path_verdict = _Awaiting(targets.read_path_verdict)
    write_skipped = _Awaiting(targets.write_skipped)
    read_skipped = _Awaiting(targets.read_skipped)
    note_kept = _Awaiting(kept.note_kept)
    read_kept = _Awaiting(kept.read_kept)
    last_push = _Awaiting(targets.last_push)
    write_recipients = _Awaiting(targets.write_recipients)
    read_recipients = _Awaiting(targets.read_recipients)
    read_digests = _Awaiting(targets.read_digests)
    forget_digests = _Awaiting(targets.forget_digests)
    read_unsealed = _Awaiting(targets.read_unsealed)
    clear_unsealed = _Awaiting(targets.clear_unsealed)
    read_holds = _Awaiting(targets.read_holds)
    release_hold = _Awaiting(targets.release_hold)
    forget_target = _Awaiting(targets.forget_target)
    wake_target = _Awaiting(targets.wake_target)

    write_facts = _Awaiting(attribution.write_facts)
    read_slots = _Awaiting(attribution.read_slots)
    read_claims = _Awaiting(attribution.read_claims)
    write_submitter = _Awaiting(attribution.write_submitter)
    read_submitter = _Awaiting(attribution.read_submitter)
    read_submission = _Awaiting(attribution.read_submission)
    count_fact_keys = _Awaiting(attribution.count_fact_keys)
    mark_used = _Awaiting(attribution.mark_used)
    drop_expired = _Awaiting(attribution.drop_expired)

    heartbeat = _Awaiting(processes.heartbeat)
    heartbeats = _Awaiting(processes.heartbeats)
    time_ms = _Awaiting(processes.time_ms)
    publish = _Awaiting(processes.publish)

    def __init__(self, client: AsyncRedisClient) -> None:
        self.client: Any = client

    @classmethod
    def connect(cls, url: str, *, deadline_s: float = DEADLINE_S) -> AsyncStore:
        """A store for ``url``, in a form that ``store.address`` reads. Nothing is sent yet."""
        options = {"retry": AsyncRetry(NoBackoff(), 1), **_options(url, deadline_s)}
        pool = awaiting_pool(url, **options)
        return cls(redis.asyncio.Redis(connection_pool=pool))

    async def run(self, call: Call[T]) -> T:
        """Send one call. Raises StoreUnavailable when Redis cannot serve it in time."""
        try:
            if call.command:
                return call.decode(await self.client.execute_command(*call.command))
            try:
                reply = await self.client.execute_command(*_evaluation(call))
            except NoScriptError:
                reply = await self.client.execute_command(*_evaluation(call, by_text=True))
            return call.decode(reply)
        except UNAVAILABLE as error:
            raise _unavailable(error) from error

    async def check_server(self) -> list[str]:
        """Warnings about the server's settings; refuses (SettingsInvalid) one that may evict the journal, and
        a Redis Cluster.
        """
        try:
            found = [await self.client.info(section) for section in _CHECKED]
        except UNAVAILABLE as error:
            raise _unavailable(error) from error
        return _verdict(*found)

    async def server_id(self) -> str:
        """Identifies the running server: a different text after a restart or a fail-over. Raises
        StoreUnavailable.
        """
        try:
            return str((await self.client.info("server")).get("run_id", ""))
        except UNAVAILABLE as error:
            raise _unavailable(error) from error

    def subscribe(self, *topics: str) -> AsyncHints:
        """Listen to hints (``async with``)."""
        return AsyncHints(self.client, topics)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()
