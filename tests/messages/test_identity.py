"""Author and committer lines from whatever an identity provider says."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.identity import Ident, author_ident, committer_ident
from reverser.store.model import Author

OPERATOR = committer_ident(" GitOps Reverser ", "noreply@configbutler.ai\n")


@pytest.mark.parametrize(
    ("username", "email"),
    [
        ("alice", "alice@noreply.cluster.local"),
        ("Jane_Doe", "janedoe@noreply.cluster.local"),
        ("Jane.Doe@Corp.Example", "Jane.Doe@Corp.Example"),
        ("dev@corp", "devcorp@noreply.cluster.local"),
        ("https://idp.example/realms/x#sim", "httpsidp.examplerealmsxsim@noreply.cluster.local"),
        (
            "system:serviceaccount:flux-system:kustomize-controller",
            "systemserviceaccountflux-systemkustomize-controller@noreply.cluster.local",
        ),
        ("алиса", "unknown-user@noreply.cluster.local"),
        ("a@b.example\n", "ab.example@noreply.cluster.local"),
    ],
)
def test_email_from_the_user_name(username: str, email: str) -> None:
    """A4: an address is kept, anything else is derived; a trailing line break is no address."""
    assert author_ident(Author(username), OPERATOR).email == email


@pytest.mark.parametrize(
    ("display", "name"),
    [
        ("Ada L.", "Ada L."),
        ("  Ada  ", "Ada"),
        ("", "ada"),
        ("Bob <boss@lab.test>", "ada"),
        ("line\nbreak", "ada"),
        ("\u202egnirtS", "\u202egnirtS"),
        ("🍦", "🍦"),
        (" . ", "ada"),
    ],
)
def test_display_name_or_user_name(display: str, name: str) -> None:
    """A3, G05: an unusable display name gives way to the user name; emoji and direction marks stay."""
    assert author_ident(Author("ada", display, "ada@lab.test"), OPERATOR) == Ident(name, "ada@lab.test")


def test_nobody_known_means_the_committer() -> None:
    """A1, A2: byte for byte the committer, whose own fields are trimmed."""
    assert author_ident(None, OPERATOR) == OPERATOR == Ident("GitOps Reverser", "noreply@configbutler.ai")
    assert author_ident(Author(""), OPERATOR) == OPERATOR
    assert committer_ident("<>", " ") == OPERATOR


def test_forged_headers_cannot_leave() -> None:
    """G05, 101: a user name with a line break and a committer line stays one harmless name."""
    forged = author_ident(Author("mallory\ncommitter Root <r@r.r> 1 +0000"), OPERATOR)
    assert forged.name == "mallorycommitter Root r@r.r 1 +0000"
    long = author_ident(Author("x" * 10_000, "y" * 10_000), OPERATOR)
    assert len(long.name) <= 256
    assert len(long.email) <= 254


@given(st.text(), st.text(), st.text())
def test_any_identity_is_legal(username: str, display: str, email: str) -> None:
    """Whatever comes in, name and e-mail are non-empty and hold nothing that ends a field or a line."""
    ident = author_ident(Author(username, display, email), OPERATOR)
    for part in (ident.name, ident.email):
        assert part
        assert not any(char in "<>" or unicodedata.category(char) in ("Cc", "Cs") for char in part)
    assert " " not in ident.email
