"""Free search of commits: whole words or their beginnings, found by the database's own text index.

A hundred thousand commits cannot be read for each search. What may be searched of a commit stands once more,
as plain words, in ``CommitText``: message, author, target, id and the changed objects. SQLite indexes it with
FTS5 and PostgreSQL with a GIN index on a generated ``tsvector`` (both made by the migration, both always at
hand: neither needs an extension). The words are split here and not by the databases, so that both find the
same: letters and digits are words, everything else separates them, and a term such as ``menu-1`` means these
words one after another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connections
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value

from reverser.history.models import Commit, CommitObject, CommitText

LONGEST_TEXT = 400_000
"""Characters of one commit's text; about 20,000 objects. Objects beyond are found by their own filters."""
LONGEST_WORD = 80
TERMS = 12
FEW = 2000
PLACES = 200
"""PostgreSQL keeps 255 places of a word; where a commit may have more, its names stand joined as well."""
_WORD = re.compile(r"[^\W_]+")
_SQLITE = "SELECT rowid FROM history_commitsearch WHERE history_commitsearch MATCH %s"
_POSTGRESQL = "SELECT commit_id FROM history_committext WHERE document @@ to_tsquery('simple', %s)"


def words(text: str) -> list[str]:
    """The words of a text, folded, as both databases index them."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word[:LONGEST_WORD] for word in _WORD.findall(folded)]


def text_of(commit: Commit, objects: Iterable[CommitObject]) -> str:
    """What may be searched of a commit, as words with single spaces between."""
    parts = [
        commit.sha,
        f"{commit.target_namespace}/{commit.target_name}",
        commit.author_name,
        commit.author_email,
        commit.username,
        commit.message,
    ]
    types: dict[str, None] = {}
    names: dict[str, None] = {}
    for item in objects:
        types[f"{item.resource} {item.group}"] = None
        names[f"{item.namespace}/{item.name}"] = None
    if len(names) > PLACES:
        parts += [_joined(words(name.partition("/")[2])) for name in names]
    return " ".join(words(" ".join((*parts, *types, *names))))[:LONGEST_TEXT]


def _joined(term: Sequence[str]) -> str:
    """Words that follow each other, as one."""
    return "".join(term)[:LONGEST_WORD]


def index(commits: Iterable[tuple[Commit, Iterable[CommitObject]]]) -> None:
    """Make new commits searchable."""
    CommitText.objects.bulk_create(
        CommitText(commit=commit, text=text_of(commit, objects)) for commit, objects in commits
    )


def search_commits(queryset: QuerySet[Commit], text: str) -> QuerySet[Commit]:
    """Commits that have every term of ``text`` (at most twelve); none where it has no letter and no digit."""
    terms = [found for found in map(words, text.replace("/", " ").split()[:TERMS]) if found]
    if not terms:
        return queryset.none() if text.strip() else queryset
    if connections[queryset.db].vendor == "sqlite":
        # The plus keeps SQLite from taking the ids as the way in; it has no figures to choose by.
        statement, values, column = _SQLITE, [_fts5(terms)], "+history_commit.id"
    else:
        statement, values, column = _POSTGRESQL, [_tsquery(terms)], "history_commit.id"
    few = _few(queryset, statement, values)
    if few is not None:
        return queryset.filter(pk__in=few)
    # The statement is one of the two above; what people typed is its parameter.
    return queryset.extra(where=[f"{column} IN ({statement})"], params=values)  # noqa: S610


def having_object(queryset: QuerySet[Commit], **about: str) -> QuerySet[Commit]:
    """Commits that changed an object with these values of ``CommitObject``."""
    found = CommitObject.objects.filter(**about)
    statement, values = found.order_by().values("commit_id").query.sql_with_params()
    few = _few(queryset, statement, list(values))
    if few is not None:
        return queryset.filter(pk__in=few)
    return queryset.filter(Exists(found.filter(commit=OuterRef("pk"))))


def by_author(queryset: QuerySet[Commit], author: str) -> QuerySet[Commit]:
    """Commits of whom this is the name, the address or the Kubernetes user."""
    own = Commit.objects.filter(Q(author_name=author) | Q(author_email=author) | Q(username=author))
    statement, values = own.order_by().values("pk").query.sql_with_params()
    few = _few(queryset, statement, list(values))
    if few is not None:
        return queryset.filter(pk__in=few)
    # Asked this way round, SQLite does not fetch and sort all of them by the indexes of the three columns.
    columns = [F("author_name"), F("author_email"), F("username")]
    return queryset.alias(asked=Value(author)).filter(asked__in=columns)


def _few(queryset: QuerySet[Commit], statement: str, values: list[Any]) -> set[int] | None:
    """The ids that a statement finds, or None for many. Few are looked up one by one; where there are many,
    the rows are better read in their own order: a page is full soon.
    """
    with connections[queryset.db].cursor() as cursor:
        cursor.execute(f"{statement} LIMIT {FEW + 1}", values)
        found = {row[0] for row in cursor.fetchall()}
    return found if len(found) <= FEW else None


def _fts5(terms: list[list[str]]) -> str:
    """``("menu 1" * OR "menu1" *) AND ("bob" *)``: no word has a character that could end the quotes."""

    def one(term: list[str]) -> str:
        phrase = f'"{" ".join(term)}" *'
        return f'({phrase} OR "{_joined(term)}" *)' if len(term) > 1 else f"({phrase})"

    return " AND ".join(map(one, terms))


def _tsquery(terms: list[list[str]]) -> str:
    """``(xmenu <-> x1:* | xmenu1:*) & (xbob:*)``; the ``x`` keeps PostgreSQL from reading numbers."""

    def one(term: list[str]) -> str:
        phrase = " <-> ".join(f"x{word}" for word in term)
        return f"({phrase}:* | x{_joined(term)}:*)" if len(term) > 1 else f"({phrase}:*)"

    return " & ".join(map(one, terms))
