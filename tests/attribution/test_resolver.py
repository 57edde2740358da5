"""Who is named for an event: the strength table, and the wait for a fact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from reverser.store import AsyncStore
from reverser.store.attribution import CONFLICT, Fact, Slot, exact_key
from reverser.store.keys import AUTHOR_UNUSED
from reverser.store.model import Author, Claim
from tests.auditevents import DEPLOYMENTS, audit, collection, deletion, seen
from watchers.authors import LEAST_RIPE, Clocks, FactResolver
from watchers.coverage import Coverage
from watchers.evidence import Result, is_idle, judge
from watchers.hooks import EventFacts, Named
from webhooks.evidence import facts_of

GRACE = 3.0
NOON = datetime.fromisoformat("2026-01-01T10:00:00+00:00").timestamp()


@pytest.fixture
async def resolver(async_store: AsyncStore) -> AsyncIterator[FactResolver]:
    made = FactResolver(async_store)
    yield made
    await made.close()


async def file(store: AsyncStore, *events: dict[str, Any], ttl_ms: int = 60_000) -> None:
    facts = [fact for event in events for fact in facts_of(event)]
    await store.write_facts(facts, ttl_ms)


def asked(event: EventFacts, grace: float = GRACE) -> EventFacts:
    return replace(event, deadline=asyncio.get_running_loop().time() + grace)


async def name(resolver: FactResolver, event: EventFacts, grace: float = 0.0) -> str:
    found = await resolver.resolve(asked(event, grace))
    return found.author.username if found is not None else ""


async def until(check: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Waits for a condition."""
    ends = asyncio.get_running_loop().time() + seconds
    while not check():
        assert asyncio.get_running_loop().time() < ends, f"not in time: {what}"
        await asyncio.sleep(0.01)


def counting_looks(store: AsyncStore) -> list[int]:
    """Grows by one with every look at the index."""
    run = store.run
    looks: list[int] = []

    async def counted(call: Any) -> Any:
        if call.command[:1] == ("MGET",):
            looks.append(1)
        return await run(call)

    store.run = counted  # type: ignore[method-assign]
    return looks


def deaf(resolver: FactResolver) -> None:
    """It hears no announcement."""
    resolver._listener = asyncio.create_task(asyncio.sleep(3600))


FACT = Fact("configmaps", "a", "alice", "update", namespace="shop", uid="u1", resource_version="101")
GONE = replace(FACT, verb="delete")
BARE = replace(FACT, uid="")


@pytest.mark.parametrize(
    ("slots", "removal", "result", "named"),
    [
        ((FACT, None, FACT), False, Result.EXACT_USER, True),
        (
            (replace(FACT, author="system:serviceaccount:ci:x"), None, None),
            False,
            Result.EXACT_SERVICE_ACCOUNT,
            True,
        ),
        ((GONE, None, GONE), True, Result.EXACT_DELETE, True),
        ((replace(FACT, verb="deletecollection"), None, None), True, Result.EXACT_COLLECTION_ITEM, True),
        ((None, BARE, None), False, Result.EXACT_VERSION, True),
        ((None, replace(BARE, verb="delete"), None), True, Result.EXACT_DELETE, True),
        ((None, replace(BARE, name="b"), None), False, Result.WEAK, False),
        ((None, replace(BARE, namespace="depot"), None), False, Result.WEAK, False),
        ((None, replace(BARE, verb="delete"), None), False, Result.WEAK, False),
        ((None, BARE, None), True, Result.WEAK, False),
        ((None, None, FACT), True, Result.WEAK, False),
        ((None, None, FACT), False, Result.WEAK, False),
        ((FACT, None, FACT), True, Result.WEAK, False),
        ((replace(FACT, resource_version="49"), None, None), False, Result.ABSENT, False),
        ((replace(FACT, uid="u9"), None, None), False, Result.ABSENT, False),
        ((replace(FACT, group_resource="apps/configmaps"), None, None), False, Result.ABSENT, False),
        ((CONFLICT, None, FACT), False, Result.CONFLICT, False),
        ((None, CONFLICT, None), False, Result.CONFLICT, False),
        ((None, None, None), False, Result.ABSENT, False),
    ],
)
def test_strength_table(slots: tuple[Slot, ...], removal: bool, result: Result, named: bool) -> None:
    """G28, T2: only proof about this version, or this object's removal, names somebody."""
    verdict = judge(seen(removal=removal), slots)
    assert verdict.result is result
    assert (verdict.author is not None) is named


async def test_examples_of_writes(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G01, G25: each version is its own maker's; a version without a fact is nobody's."""
    await file(
        async_store,
        audit("create", "alice", rv="1", code=201),
        audit("update", "bob", rv="2", request_rv="1"),
    )
    assert await name(resolver, seen(rv="1")) == "alice"
    assert await name(resolver, seen(rv="2")) == "bob"
    assert await name(resolver, seen(rv="3")) == ""


async def test_deleter_not_maker(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G13, T2: who deleted is named, and without his event nobody is: never the last editor."""
    await file(async_store, audit("create", "alice", rv="101"))
    assert await name(resolver, seen(rv="150", removal=True)) == ""
    await file(async_store, deletion("bob"))
    assert await name(resolver, seen(rv="150", removal=True)) == "bob"


async def test_finalizer_release_in_every_order(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G16, T3: the controller that clears the finalizer is never the author of the removal."""
    asked_by_bob = audit("delete", "bob", rv="120")
    cleared = audit("patch", "system:serviceaccount:x:controller", rv="120", stage="2026-01-01T10:00:09.0Z")
    for order in ((asked_by_bob, cleared), (cleared, asked_by_bob)):
        await async_store.client.flushall()
        await file(async_store, *order)
        assert await name(resolver, seen(rv="120", removal=True)) == "bob"
    await async_store.client.flushall()
    await file(async_store, cleared)
    assert await name(resolver, seen(rv="120", removal=True)) == ""


async def test_collection_members_only(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G18: those that the answer lists are named, their neighbours are not."""
    await file(async_store, collection("alice", ("a", "u1"), ("b", "u2")))
    assert await name(resolver, seen(uid="u1", removal=True)) == "alice"
    assert await name(resolver, seen(uid="u2", name="b", removal=True)) == "alice"
    assert await name(resolver, seen(uid="u3", name="c", removal=True)) == ""


async def test_same_name_new_object(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G26: an object that was made again is another object."""
    await file(async_store, audit("create", "alice"), deletion("alice"))
    assert await name(resolver, seen(uid="u2", rv="160")) == ""


async def test_scale_names_the_parents_editor(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G21: a scale request is a change of its parent."""
    event = audit("patch", "carol", resource="deployments", group="apps", rv="9")
    event["objectRef"]["subresource"] = "scale"
    await file(async_store, event)
    assert await name(resolver, seen(kind=DEPLOYMENTS, rv="9")) == "carol"


async def test_expired_facts(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G30: a fact that aged out never existed."""
    await file(async_store, audit("create", "alice"), ttl_ms=30)
    await asyncio.sleep(0.06)
    assert await name(resolver, seen()) == ""


async def test_wakes_on_the_fact(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G08, T6: a fact within the grace names its author at once, not at the end of the grace."""
    waiting = asyncio.create_task(name(resolver, seen(), grace=3600.0))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await file(async_store, audit("create", "alice"))
    assert await asyncio.wait_for(waiting, 60) == "alice"


async def test_late_fact_and_grace_zero(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G08, G10: the grace bounds the wait; a grace of 0 looks once."""
    loop, looks = asyncio.get_running_loop(), counting_looks(async_store)
    deaf(resolver)
    assert await name(resolver, seen(), grace=0.0) == ""
    assert len(looks) == 1
    looks.clear()
    started = loop.time()
    assert await asyncio.wait_for(name(resolver, seen(), grace=0.4), 60) == ""
    assert loop.time() - started > 0.3
    assert len(looks) == 2, "at the start and at the end of the grace"
    await file(async_store, audit("create", "alice"), audit("update", "bob", rv="102", request_rv="101"))
    assert await name(resolver, seen(rv="102")) == "bob"


async def test_conflict_ends_the_wait(resolver: FactResolver, async_store: AsyncStore) -> None:
    """Two authors on one version: the committer, without waiting for a third."""
    await file(async_store, audit("patch", "alice"), audit("patch", "dave"))
    assert await asyncio.wait_for(name(resolver, seen(), grace=3600.0), 60) == ""


async def test_no_op_patch_heard_first(async_store: AsyncStore) -> None:
    """G15: a request that came in after the change was seen cannot have made it, whoever is heard first."""
    resolver = FactResolver(async_store, wall=lambda: NOON + 0.05)
    dave = audit("patch", "dave", received="2026-01-01T10:00:00.150000Z", stage="2026-01-01T10:00:00.2Z")
    alice = audit("patch", "alice")
    waiting = asyncio.create_task(name(resolver, seen(), grace=3600.0))
    await asyncio.sleep(0.1)
    await file(async_store, dave)
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await file(async_store, alice)
    assert await asyncio.wait_for(waiting, 60) == ""
    await async_store.client.flushall()
    await file(async_store, alice)
    assert await name(resolver, seen()) == "alice"
    await resolver.close()


MARKED = replace(
    FACT, verb="patch", manager="kubectl", only_sets=True, received_timestamp="2026-01-01T10:00:05.700000000Z"
)
NOW, BEFORE = "2026-01-01T10:00:05Z", "2026-01-01T10:00:04Z"


@pytest.mark.parametrize(
    ("fact", "marks", "idle", "idle_in_backlog"),
    [
        (MARKED, (("kubectl", NOW),), False, False),
        (MARKED, (("kubectl", "2026-01-01T10:00:06Z"),), False, False),
        (MARKED, (("kubectl", BEFORE),), True, True),
        (MARKED, (("flux", NOW),), True, True),
        (MARKED, (("flux", NOW), ("kubectl", NOW)), False, False),
        (MARKED, (("kubectl", ""),), True, True),
        (MARKED, (), False, False),
        (replace(MARKED, only_sets=False), (("kubectl", BEFORE),), False, True),
        (replace(MARKED, only_sets=False), (("kubectl", NOW),), False, False),
        (replace(MARKED, manager=""), (("flux", NOW),), False, False),
        (replace(MARKED, surely_wrote=True), (("flux", NOW),), False, False),
        (replace(MARKED, subresource="scale"), (("flux", NOW),), False, False),
        (replace(MARKED, received_timestamp=""), (("kubectl", BEFORE),), False, False),
    ],
)
def test_marks_of_field_managers(
    fact: Fact, marks: tuple[tuple[str, str], ...], idle: bool, idle_in_backlog: bool
) -> None:
    """T3: who set something shows in the object. What may only have taken something away does not, and is
    not believed where it is seen late.
    """
    event = replace(seen(), marks=marks)
    assert is_idle(fact, event) is idle
    assert is_idle(fact, replace(event, backlog=True)) is idle_in_backlog
    assert not is_idle(fact, replace(event, removal=True))


async def test_idle_after_an_outage(async_store: AsyncStore) -> None:
    """T3: the event of whoever made the change is lost, and the watch was interrupted: a no-op that was sent
    meanwhile is not named, neither at once nor later. With its own mark it is what made the change.
    """
    resolver = FactResolver(async_store, wall=lambda: NOON + 60)
    idle = audit("patch", "dave", userAgent="flux/v2", received="2026-01-01T10:00:30.5Z")
    idle["requestURI"], idle["requestObject"] = "/api/v1/namespaces/shop/configmaps/a", {"data": {"v": "2"}}
    await file(async_store, idle)
    event = replace(seen(), backlog=True)
    assert await name(resolver, replace(event, marks=(("kubectl", "2026-01-01T10:00:10Z"),))) == ""
    assert await name(resolver, replace(event, marks=(("flux", "2026-01-01T10:00:10Z"),)), grace=0.2) == ""
    assert await name(resolver, replace(event, marks=(("flux", "2026-01-01T10:00:30Z"),))) == "dave"
    await resolver.close()


async def claim(resolver: FactResolver, event: EventFacts, grace: float = GRACE) -> Claim | None:
    found = await resolver.resolve(asked(event, grace))
    assert found is not None
    return found.claim


async def test_what_may_be_taken_back(resolver: FactResolver, async_store: AsyncStore) -> None:
    """T2: a patch and a removal are claims, until somewhat after they were answered; a create and a change
    of a known version are not, nor is the first apply. A grace of 0 asks for no time."""
    await file(
        async_store,
        audit("create", "alice", rv="1"),
        audit("update", "alice", rv="2", request_rv="1"),
        audit("patch", "alice", rv="3", code=201),
        audit("patch", "alice", rv="4"),
        audit("update", "alice", rv="5", stage="at noon"),
        deletion("alice"),
    )
    assert [await claim(resolver, seen(rv=rv)) for rv in "123"] == [None] * 3
    until = "2026-01-01T10:00:00.060000000Z"
    for event in (seen(rv="4"), seen(rv="9", removal=True)):
        found = await claim(resolver, event)
        assert found is not None
        assert found.until == until
        assert 0 < found.ripe_ms <= 1000 * LEAST_RIPE
    unknown = await claim(resolver, seen(rv="5"))
    assert unknown is not None
    assert unknown.until > "2999"
    assert await claim(resolver, seen(rv="4"), grace=0.0) == Claim(until, 0)


async def test_time_for_rivals_is_learnt(resolver: FactResolver, async_store: AsyncStore) -> None:
    """As long as the slowest fact lately took and somewhat more, within the grace; what was waited already
    counts."""
    resolver._lags.extend([0.1, 8.0, 0.2])
    await file(async_store, audit("patch", "alice"))
    found = await claim(resolver, seen(), grace=60.0)
    assert found is not None
    assert 1000 * LEAST_RIPE < found.ripe_ms <= 10_000
    found = await claim(resolver, seen(), grace=2.0)
    assert found is not None
    assert found.ripe_ms <= 2000


def test_clocks_that_disagree() -> None:
    """A clock here that is behind the server's is learnt, and costs a few names at the start at most."""
    clocks = Clocks()
    late = [
        replace(FACT, audit_id=str(number), received_timestamp=f"2026-01-01T10:00:{number:02}.500000000Z")
        for number in range(40)
    ]
    verdicts = [clocks.plausible(fact, NOON + number - 4.4) for number, fact in enumerate(late)]
    assert all(verdicts[6:])
    assert not clocks.plausible(
        replace(FACT, audit_id="x", received_timestamp=late[30].received_timestamp), NOON + 20
    )
    certain = replace(FACT, audit_id="y", surely_wrote=True, received_timestamp=late[39].received_timestamp)
    assert clocks.plausible(certain, NOON)


def test_an_audit_id_may_be_used_again() -> None:
    """A client chooses the id of its requests: each request is judged by itself, also without any id."""
    for audit_id in ("mine", ""):
        clocks = Clocks()
        first = replace(FACT, audit_id=audit_id, received_timestamp="2026-01-01T10:00:00.000000000Z")
        later = replace(first, resource_version="102", received_timestamp="2026-01-01T10:00:09.000000000Z")
        other = replace(later, author="dave", received_timestamp="2026-01-01T10:00:08.000000000Z")
        assert clocks.plausible(first, NOON + 0.01)
        assert not clocks.plausible(later, NOON + 1)
        assert not clocks.plausible(other, NOON + 1)
        assert clocks.plausible(replace(other, resource_version="103"), NOON + 8.5)


async def test_burst_with_facts_in_order(resolver: FactResolver, async_store: AsyncStore) -> None:
    """G33: a thousand events whose facts come in batches cost a few looks, not one wait each."""
    looks = counting_looks(async_store)
    events = [asked(seen(uid=f"u{n}", name=f"n{n}"), 3600.0) for n in range(1000)]
    tasks = [asyncio.create_task(resolver.resolve(event)) for event in events]
    for start in range(0, 1000, 100):
        batch = [audit("create", "alice", uid=f"u{n}", name=f"n{n}") for n in range(start, start + 100)]
        await file(async_store, *batch)
    found = await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert found == [Named(Author("alice"))] * 1000
    assert len(looks) <= 20
    assert resolver._waiters == {}


async def test_types_that_audit_leaves_out(async_store: AsyncStore) -> None:
    """After a few waits in vain, events of a type wait no more, until a fact of the type is heard."""
    coverage = Coverage(2)
    resolver = FactResolver(async_store, coverage=coverage)
    for number in range(4):
        await name(resolver, seen(uid=f"v{number}"), grace=0.2)
    assert await asyncio.wait_for(name(resolver, seen(uid="w"), grace=3600.0), 60) == ""
    waiting = asyncio.create_task(name(resolver, seen(kind=DEPLOYMENTS), grace=3600.0))
    await file(async_store, audit("create", "alice", resource="deployments", group="apps"))
    assert await asyncio.wait_for(waiting, 60) == "alice"
    await file(async_store, audit("create", "alice", uid="other"))
    await until(lambda: coverage.worth_waiting("configmaps"), "a fact of the type is heard")
    waiting = asyncio.create_task(name(resolver, seen(uid="w2"), grace=3600.0))
    await asyncio.sleep(0.1)
    await file(async_store, audit("create", "bob", uid="w2"))
    assert await asyncio.wait_for(waiting, 60) == "bob"
    await resolver.close()


def test_waits_at_the_same_time_count_once() -> None:
    """One slow batch, whose events all waited in vain together, condemns no type."""
    coverage = Coverage(3)
    for _ in range(100):
        coverage.in_vain("configmaps", started=0.0, ended=3.0)
    assert coverage.worth_waiting("configmaps")
    coverage.in_vain("configmaps", started=4.0, ended=7.0)
    coverage.in_vain("configmaps", started=8.0, ended=11.0)
    assert not coverage.worth_waiting("configmaps")
    assert coverage.worth_waiting("secrets")
    coverage.heard("configmaps")
    assert coverage.worth_waiting("configmaps")


async def test_redis_gone_while_reading() -> None:
    """T1, T6: an index that cannot be read names the committer, in bounded time."""
    store = AsyncStore.connect("redis://127.0.0.1:1/0", deadline_s=0.2)
    resolver = FactResolver(store)
    assert await asyncio.wait_for(name(resolver, seen(), grace=0.5), 60) == ""
    await resolver.close()
    await store.close()


async def test_announcements_lost(resolver: FactResolver, async_store: AsyncStore) -> None:
    """A fact whose announcement was lost is found by the last look."""
    run, looks = async_store.run, 0

    async def filed_after_the_first_look(call: Any) -> Any:
        nonlocal looks
        found = await run(call)
        if call.command[:1] == ("MGET",):
            looks += 1
            if looks == 1:
                await file(async_store, audit("create", "alice"))
        return found

    async_store.run = filed_after_the_first_look  # type: ignore[method-assign]
    deaf(resolver)
    assert await name(resolver, seen(), grace=0.3) == "alice"
    assert looks == 2


async def test_facts_that_named_somebody_are_used(resolver: FactResolver, async_store: AsyncStore) -> None:
    """What names somebody, by version or as a removal, is not among the facts that age out unused."""
    await file(async_store, audit("create", "alice", uid="u1", rv="101"), deletion("bob", name="b", uid="u2"))
    await file(async_store, audit("create", "carol", name="c", uid="u3", rv="103"))
    assert await name(resolver, seen(uid="u1", rv="101")) == "alice"
    assert await name(resolver, seen(name="b", uid="u2", rv="150", removal=True)) == "bob"
    assert await name(resolver, seen(name="c", uid="u3", rv="104")) == ""
    async with asyncio.timeout(60):
        while await async_store.client.zcard(AUTHOR_UNUSED) > 1:
            await asyncio.sleep(0.01)
    left = await async_store.client.zrange(AUTHOR_UNUSED, 0, -1)
    assert left == [exact_key("configmaps", "u3", "103").encode()]
