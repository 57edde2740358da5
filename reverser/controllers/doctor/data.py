"""Redis, the database, and how far the audit stream lags behind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from redis.exceptions import RedisError

from reverser.controllers.doctor.findings import Finding, good, note, problem
from reverser.errors import ReverserError, SettingsInvalid
from reverser.store import Store
from reverser.store.attribution import Fact, decode_slot, moment_of

FACTS = "gitops-reverser:author:v1:audit:*"
MOST_FACTS = 500
NEWEST_FACTS = 100
"""So few that what was changed in the API server's flags shows soon."""


def check_redis(store: Store) -> Iterator[Finding]:
    """Whether Redis answers, keeps what it is given, and how much waits in it."""
    try:
        warnings = store.check_server()
        branches = store.known_branches()
        waiting = sum(store.read_branch(branch).entries for branch in branches)
    except SettingsInvalid as error:
        yield problem("redis", "; ".join(error.problems), "set maxmemory-policy noeviction")
        return
    except ReverserError as error:
        yield problem("redis", str(error), "start it, or correct REVERSER_REDIS_URL")
        return
    for warning in warnings:
        yield note("redis", warning)
    yield good("redis", f"Redis answers; {waiting} entries wait on {len(branches)} branch(es)")


def check_database() -> Finding:
    """Whether the history database answers and has the tables of this release."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor
    from django.db.utils import DatabaseError

    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        return problem(
            "database", f"it does not answer: {error}", "start it, or correct REVERSER_DATABASE_URL"
        )
    if pending:
        remedy = "run `manage.py prepare_database`; `up` does it by itself"
        return problem("database", f"{len(pending)} migration(s) are missing", remedy)
    return good("database", f"{connection.vendor} answers and is current")


def audit_lags(store: Store, *, ttl: float, now_ms: int) -> list[float]:
    """Seconds from the stage time of the newest audit facts to their arrival, sorted. What was sent again
    after nobody had listened is left out.

    The arrival is derived from the fact's remaining time to live, so measuring writes nothing.
    """
    found: list[tuple[float, float]] = []
    for index, key in enumerate(store.client.scan_iter(match=FACTS, count=500)):
        if index >= MOST_FACTS:
            break
        remaining = store.client.pttl(key)
        if remaining <= 0 or store.client.type(key) != b"string":
            continue
        staged = _stage_ms(store.client.get(key))
        if staged is not None:
            found.append((staged, max(0.0, (now_ms + remaining - ttl * 1000 - staged) / 1000)))
    return sorted(lag for _, lag in sorted(found)[-NEWEST_FACTS:])


def _stage_ms(value: bytes | None) -> float | None:
    fact = decode_slot(value)
    if not isinstance(fact, Fact) or fact.from_before:
        return None
    staged = moment_of(fact.stage_timestamp)
    return None if staged is None else staged.timestamp() * 1000


def judge_lag(lags: Sequence[float], *, grace: float) -> Finding:
    """Whether authors arrive in time: 95 of 100 facts must be there within the grace."""
    if not lags:
        return note(
            "audit",
            "no audit fact has arrived lately, so the lag cannot be measured",
            "change something in the cluster and ask again; if this stays, check the audit webhook",
        )
    high = lags[min(len(lags) - 1, math.ceil(len(lags) * 0.95) - 1)]
    text = f"95 of 100 facts arrive within {high:.1f} s (grace {grace:g} s, {len(lags)} facts)"
    if high > grace:
        return problem(
            "audit",
            text + ": changes are committed before their author is known",
            "lower --audit-webhook-batch-max-wait of kube-apiserver (1s), or raise "
            "REVERSER_AUTHOR_ATTRIBUTION_GRACE",
        )
    return good("audit", text)


def check_audit(store: Store, *, on: bool, ttl: float, grace: float) -> Finding:
    """The lag of the audit stream against the grace."""
    if not on:
        return good("audit", "attribution is off: the committer is the author of every change")
    try:
        return judge_lag(audit_lags(store, ttl=ttl, now_ms=store.time_ms()), grace=grace)
    except (ReverserError, RedisError) as error:
        return problem("audit", f"facts cannot be read: {error}", "see redis above")
