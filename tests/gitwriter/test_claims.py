"""Names with a rival are taken back before their window is finalized, and no window closes before a rival
could be heard of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.claims import LEAST_PAUSE_MS, CertainPlan, has_rival, plan_with_certain_names
from gitwriter.windows import TargetSettings, plan_windows
from reverser.factmetrics import FACTS
from reverser.store.attribution import Claims, Fact, exact_key, removal_key, version_key
from reverser.store.model import Author, Claim, EventEntry, Operation, OutcomeKind, Stored
from tests.gitwriter.conftest import World
from tests.windows.build import LIMIT, T0, Journal, settings

UNTIL = "2026-01-01T10:00:00.060000000Z"
BEFORE = "2026-01-01T10:00:00.001000000Z"
AFTER = "2026-01-01T10:00:00.061000000Z"


class Index:
    """The slots of an index by key; counts how often it is asked."""

    def __init__(self, slots: dict[str, Claims] | None = None) -> None:
        self.slots = slots or {}
        self.asked = 0

    def read_claims(self, names: Sequence[str]) -> list[Claims]:
        self.asked += 1
        return [self.slots.get(name, {}) for name in names]


def contest(journal: Journal, *idents: str, ripe_ms: int = 0) -> None:
    """What these events show may have been made by others."""
    for place, stored in enumerate(journal.entries):
        if stored.id in idents:
            assert isinstance(stored.entry, EventEntry)
            entry = replace(stored.entry, claim=Claim(UNTIL, ripe_ms))
            journal.entries[place] = replace(stored, entry=entry)


def planned(
    journal: Journal, index: Index, at: float, known: dict[str, TargetSettings] | None = None
) -> CertainPlan:
    """The plan at second ``at`` over what had been appended by then."""
    now = T0 + round(at * 1000)
    look = partial(
        plan_windows,
        boundaries=(),
        now_ms=now,
        settings=known or settings(),
        buffer_limit=LIMIT,
    )
    seen: list[Stored] = [stored for stored in journal.entries if stored.time_ms <= now]
    return plan_with_certain_names(index, seen, look, now=now)  # type: ignore[arg-type]


def names(certain: CertainPlan) -> list[str]:
    authors = [unit.boundary.author for unit in certain.plan.closed]
    return [author.username if author else "" for author in authors]


def key(name: str = "x") -> str:
    return exact_key("configmaps", f"u-{name}", "1")


def test_who_is_a_rival() -> None:
    """Somebody else whose request came in before the answer; the author himself and later ones are none."""
    event = Journal()
    contest(event, event.event(0, "alice"))
    entry = event.entries[0].entry
    assert isinstance(entry, EventEntry)
    assert not has_rival(entry, {})
    assert not has_rival(entry, {"alice": BEFORE})
    assert not has_rival(entry, {"alice": BEFORE, "flux": AFTER})
    assert has_rival(entry, {"alice": BEFORE, "dave": BEFORE})
    assert has_rival(entry, {"dave": UNTIL})
    assert has_rival(entry, {"alice": BEFORE, "dave": ""})
    assert has_rival(entry, {"": ""})
    assert not has_rival(replace(entry, claim=None), {"dave": BEFORE})


def test_a_name_with_a_rival_goes_before_the_window_is_finalized() -> None:
    """G15, T4: the doubtful change is a commit of the committer, its neighbours stay hers."""
    journal = Journal()
    journal.event(0, "alice", "x")
    contest(journal, journal.event(1, "alice", "y"))
    journal.event(2, "alice", "z")
    index = Index({key("y"): {"alice": BEFORE, "dave": BEFORE}})
    before = FACTS.labels("contradicted")._value.get()
    assert names(planned(journal, index, 6)) == []
    assert index.asked == 0
    certain = planned(journal, index, 7)
    assert names(certain) == ["alice", "", "alice"]
    assert [stored.entry.author for stored in certain.entries] == [Author("alice"), None, Author("alice")]
    assert FACTS.labels("contradicted")._value.get() == before + 1


def test_nothing_is_asked_for_what_is_certain() -> None:
    """A window of certain names costs no look."""
    journal = Journal()
    journal.event(0, "alice", "x")
    index = Index({key(): {"dave": BEFORE}})
    assert names(planned(journal, index, 5)) == ["alice"]
    assert index.asked == 0


def test_evidence_without_a_uid_and_removals() -> None:
    """The slot that is read again is that of the evidence."""
    for operation, slot in (
        (Operation.UPDATE, version_key("configmaps", "1")),
        (Operation.DELETE, removal_key("configmaps", "u-x")),
    ):
        journal = Journal()
        contest(journal, journal.event(0, "alice", operation=operation))
        assert names(planned(journal, Index({slot: {"alice": BEFORE, "dave": BEFORE}}), 5)) == [""]
        assert names(planned(journal, Index({key("other"): {"dave": BEFORE}}), 5)) == ["alice"]


def test_expired_evidence_keeps_the_name() -> None:
    """A journal that waited longer than facts live keeps the names that it was given."""
    journal = Journal()
    contest(journal, journal.event(0, "alice"))
    assert names(planned(journal, Index(), 5)) == ["alice"]


def test_a_window_waits_until_its_names_are_ripe() -> None:
    """A window that another author closes at once is held until a rival would have been heard of; what
    stands behind it keeps its place; the branch is due then."""
    journal = Journal()
    contest(journal, journal.event(0, "alice", "x"), ripe_ms=1500)
    journal.event(0.1, "bob", "y")
    journal.event(0.2, "carol", "z")
    index = Index()
    held = planned(journal, index, 1)
    assert (names(held), held.held_until, held.plan.due_at_ms) == ([], T0 + 1500, T0 + 1500)
    ripe = planned(journal, index, 1.5)
    assert (names(ripe), ripe.held_until) == (["alice", "bob"], None)
    index.slots[key()] = {"alice": BEFORE, "dave": BEFORE}
    assert names(planned(journal, index, 1.5)) == ["", "bob"]


def test_many_windows_that_wait_are_looked_at_in_steps() -> None:
    """Windows that get ripe one after the other wake the writer a few times, not once for each."""
    journal = Journal()
    for number in range(100):
        contest(journal, journal.event(number / 100, "alice", f"x{number}"), ripe_ms=1500)
    known, moment, looks = settings(window=0), 1.0, 0
    while len(names(certain := planned(journal, Index(), moment, known))) < 100:
        assert certain.plan.due_at_ms is not None
        moment = (certain.plan.due_at_ms - T0) / 1000
        looks += 1
    assert looks <= 8
    assert moment <= 0.99 + 1.5 + LEAST_PAUSE_MS / 1000


def test_only_what_follows_is_held() -> None:
    """Windows in front of one that is not ripe go."""
    journal = Journal()
    journal.event(0, "bob", "y")
    contest(journal, journal.event(0.1, "alice", "x"), ripe_ms=1500)
    journal.event(0.2, "carol", "z")
    assert names(planned(journal, Index(), 1)) == ["bob"]


def test_a_request_binds_to_the_window_that_is_left() -> None:
    """T4: a request never commits a window whose author turns out not to be its submitter."""
    journal = Journal()
    contest(journal, journal.event(0, "alice"))
    journal.attach(0.5, "alice", delay=2)
    index = Index({key(): {"alice": BEFORE, "dave": BEFORE}})
    certain = planned(journal, index, 5)
    assert names(certain) == [""]
    assert certain.plan.closed[0].boundary.attach_id == ""
    assert [due.kind for due in certain.plan.attach_due] == [OutcomeKind.WINDOW_MISMATCH]


USERS = st.sampled_from(["", "alice", "bob"])
EVENTS = st.lists(
    st.tuples(USERS, st.sampled_from("xyz"), st.booleans(), st.sampled_from([0, 400, 1500]), st.booleans()),
    max_size=12,
)


@given(EVENTS, st.integers(0, 80), st.sampled_from([0.0, 1.0]))
def test_no_doubtful_name_is_ever_finalized(
    events: list[tuple[str, str, bool, int, bool]], at: int, window: float
) -> None:
    """Whatever the journal and the moment: no closed window has an unripe or a doubtful name, certain names
    stay, nothing is in two windows, and a later plan closes everything. What is nobody's waits for nothing.
    """
    journal, index = Journal(), Index()
    doubtful, ripe = set(), {}
    for number, (user, name, contested, ripe_ms, rival) in enumerate(events):
        ident = journal.event(number / 5, user, f"{name}{number}")
        if user and contested:
            contest(journal, ident, ripe_ms=ripe_ms)
            if rival:
                doubtful.add(ident)
                index.slots[key(f"{name}{number}")] = {user: BEFORE, "dave": BEFORE}
            else:
                ripe[ident] = journal.entries[-1].time_ms + ripe_ms
    users = {stored.id: user for stored, (user, *_) in zip(journal.entries, events, strict=True)}
    known = settings(window=window)
    for moment in (at / 10, 60.0):
        certain = planned(journal, index, moment, known)
        closed = [ident for unit in certain.plan.closed for ident in unit.boundary.entry_ids]
        assert closed == [stored.id for stored in journal.entries][: len(closed)]
        assert all(ripe.get(ident, 0) <= T0 + round(moment * 1000) for ident in closed)
        for unit in certain.plan.closed:
            author = unit.boundary.author.username if unit.boundary.author else ""
            made = {"" if ident in doubtful else users[ident] for ident in unit.boundary.entry_ids}
            assert made == {author}
    assert len(closed) == len(events)


def fact(user: str, name: str = "menu", received: str = BEFORE) -> Fact:
    return Fact(
        "configmaps",
        name,
        user,
        "patch",
        namespace="shop",
        uid=f"uid-{name}",
        resource_version="7",
        stage_timestamp="2026-01-01T10:00:00.010000000Z",
        received_timestamp=received,
    )


def claimed(world: World, name: str, ripe_ms: int) -> None:
    entry = world.entry(name, "1", author="alice")
    world.events([replace(entry, claim=Claim(UNTIL, ripe_ms))])


def test_the_writer_looks_again(world: World) -> None:
    """G15, T2: heard of after the change was journaled and before its commit: nobody is named; what came
    after the answer changes nothing."""
    claimed(world, "menu", 0)
    claimed(world, "list", 0)
    facts = [fact("alice"), fact("dave"), fact("alice", "list"), fact("flux", "list", AFTER)]
    world.store.write_facts(facts, 60_000)
    world.write()
    assert [commit.author for commit in reversed(world.git.log())] == [
        "GitOps Reverser <noreply@configbutler.ai>",
        "alice <alice@noreply.cluster.local>",
    ]
    assert world.git.problems() == ""


def test_the_writer_comes_back_for_what_was_not_ripe(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that closes at once is committed when a rival would have been heard of, and not before."""
    hour = 3_600_000
    claimed(world, "menu", hour)
    world.write()
    assert (world.git.log(), world.pending()) == ([], 1)
    (stored,) = world.store.read_entries(world.branch)
    assert abs(world.store.read_due()[world.branch.id] - (stored.time_ms + hour)) <= 2
    world.store.write_facts([fact("alice"), fact("dave")], 60_000)
    now = world.store.time_ms
    monkeypatch.setattr(world.store, "time_ms", lambda: now() + hour)
    world.write()
    (commit,) = world.git.log()
    assert commit.author == "GitOps Reverser <noreply@configbutler.ai>"


def test_a_shutdown_waits_for_names(world: World) -> None:
    """A name that is not ripe at a shutdown is waited for; the commit is not left behind."""
    world.set_window("60s")
    claimed(world, "menu", 500)
    world.runtime.begin_shutdown()
    world.runtime.write(world.branch)
    (commit,) = world.git.log()
    assert commit.author == "alice <alice@noreply.cluster.local>"
