"""Free search finds whole words and their beginnings, the same on both databases."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import QuerySet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reverser.history import search
from reverser.history.models import Commit, CommitObject, CommitText
from reverser.history.paging import BoundedPaginator
from reverser.history.search import having_object, search_commits
from tests.dashboard import world

pytestmark = pytest.mark.django_db


def _numbers(rows: QuerySet[Commit]) -> list[str]:
    return [row.subject.rsplit(" ", 1)[-1] for row in rows]


def _found(text: str) -> list[str]:
    return _numbers(search_commits(Commit.objects.all(), text))


@pytest.fixture
def rows() -> world.TargetState:
    row = world.target()
    world.commit(1, row)
    world.commit(2, row, author_name="Bob Weiß", author_email="bob@example.org", username="bob:dev")
    world.commit(12, row, sha="4e12" + "a" * 36)
    return row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number", ["1", "2", "12"]),
        ("NUMBER", ["1", "2", "12"]),
        ("numb", ["1", "2", "12"]),
        ("umber", []),
        ("menu-1", ["1", "12"]),
        ("menu-12", ["12"]),
        ("1-menu", []),
        ("menu/1", ["1", "12"]),
        ("shop/live", ["1", "2", "12"]),
        ("shop/menu-2", ["2"]),
        ("bob", ["2"]),
        ("bob@example.org", ["2"]),
        ("bob:dev", ["2"]),
        ("weiss", ["2"]),
        ("bob menu-1", []),
        ("configmap bob", ["2"]),
        ("4e12aa", ["12"]),
        ("4e1", ["12"]),
        (f"{1:040x}", ["1"]),
        ("", ["1", "2", "12"]),
        ("  ", ["1", "2", "12"]),
        ('"', []),
        ("/ -", []),
        ('bob"', ["2"]),
        ("bob OR alice", []),
        ("NEAR(bob)", []),
        ("bob & !number:* | ()", ["2"]),
        ("'; DROP TABLE history_commit; --", []),
    ],
)
def test_terms(rows: object, text: str, expected: list[str]) -> None:
    """Every term must begin a word, or a row of words, of the commit; no character means anything else."""
    assert _found(text) == expected


@pytest.mark.parametrize("few", [0, 2000])
def test_many_and_few_are_the_same(rows: object, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways to read the rows, for many and for few, tell the same in the same order."""
    monkeypatch.setattr(search, "FEW", few)

    assert _found("number") == ["1", "2", "12"]
    assert _numbers(having_object(Commit.objects.all(), resource="configmaps")) == ["1", "2", "12"]
    assert _numbers(having_object(Commit.objects.all(), namespace="shop", name="menu-2")) == ["2"]
    assert _numbers(search_commits(Commit.objects.filter(username="bob:dev"), "number")) == ["2"]
    assert search_commits(Commit.objects.all(), "number").count() == 3


def test_what_is_forgotten_is_not_found(rows: object) -> None:
    """The index follows its table through deletion and change."""
    Commit.objects.get(username="bob:dev").delete()
    CommitText.objects.filter(commit__sha__startswith="4e12").update(text="quite different")

    assert _found("bob") == []
    assert _found("number") == ["1"]
    assert _found("different") == ["12"]


def test_text_is_bounded(rows: world.TargetState) -> None:
    """A commit of very many objects has a text that the database can take."""
    made = world.commit(50, rows)
    names = (f"o-{number:020}" for number in range(30_000))
    objects = [CommitObject(resource="configmaps", namespace="shop", name=name) for name in names]

    text = search.text_of(made, objects)
    CommitText.objects.filter(commit=made).update(text=text)

    assert len(text) == search.LONGEST_TEXT
    assert _found("o-00000000000000001000") == ["50"]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30), cut=st.integers(1, 20)
)
def test_whatever_is_written_is_found(rows: world.TargetState, text: str, cut: int) -> None:
    """Each word of a message, and each beginning of it, finds its commit; no text breaks the search."""
    made = Commit.objects.get(username="bob:dev")
    made.message = text
    CommitText.objects.filter(commit=made).update(text=search.text_of(made, ()))

    search_commits(Commit.objects.all(), text).count()

    for word in search.words(text):
        for part in (word, word[:cut]):
            if search.words(part) == [part]:
                assert made in search_commits(Commit.objects.all(), part), (word, part)


def test_counting_stops(rows: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page counts a whole table."""
    monkeypatch.setattr("reverser.history.paging.MOST", 2)

    found = BoundedPaginator(Commit.objects.all(), 1)

    assert (found.count, found.num_pages) == (2, 2)


def test_lists_are_read_by_an_index(rows: object) -> None:
    """The newest commits are not sorted for each page."""
    if connection.vendor != "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    for queryset in (
        Commit.objects.all(),
        Commit.objects.filter(target_namespace="shop"),
        Commit.objects.order_by("changes_total", "id"),
    ):
        plan = queryset[:50].explain()
        assert "history_commit_" in plan.lower() and "b-tree" not in plan.lower(), plan


def test_the_commits_of_a_target_have_their_own_index(rows: object) -> None:
    """A target that seldom commits does not make the database read what others of its namespace did."""
    found = Commit.objects.filter(target_namespace="shop", target_name="seldom")[:1]

    assert not found
    if connection.vendor == "sqlite":  # PostgreSQL chooses by its statistics.
        plan = found.all().explain()
        assert "history_commit_target " in plan and "b-tree" not in plan.lower(), plan


@pytest.mark.parametrize("few", [0, 2000])
@pytest.mark.parametrize("order", [("-pushed_at", "-id"), ("changes_total", "id")])
def test_commits_of_an_author(
    rows: world.TargetState, monkeypatch: pytest.MonkeyPatch, few: int, order: tuple[str, ...]
) -> None:
    """Found by name, address or user, whether they are few or many; many are not sorted for each page."""
    monkeypatch.setattr(search, "FEW", few)
    for number, who in enumerate(("author_name", "author_email", "username")):
        commit = Commit.objects.order_by("id")[number]
        setattr(commit, who, "carol")
        commit.save()

    world.commit(3, rows)

    found = search.by_author(Commit.objects.order_by(*order), "carol")

    assert sorted(_numbers(found)) == ["1", "12", "2"]
    assert not search.by_author(Commit.objects.all(), "nobody")
    if connection.vendor == "sqlite" and not few:
        assert "b-tree" not in found.all()[:50].explain().lower()
