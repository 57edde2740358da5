"""Names and e-mails for author and committer lines, as git accepts them.

Names come from an identity provider, e-mails may be missing, and either may be hostile: an angle bracket or a
line break would forge headers. An unusable display name falls back to the user name; whatever is left is
stripped of what git's format cannot hold and is bounded, but otherwise kept (emoji and right-to-left text
included): an author should recognise themselves.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from reverser.store.model import Author

_EMAIL = re.compile(r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}")
_NOT_LOCAL = re.compile(r"[^a-z0-9.-]")
_DERIVED_DOMAIN = "noreply.cluster.local"
_MAX_NAME = 256
_MAX_EMAIL = 254
_MAX_LOCAL = 200
# Git itself strips these at both ends of a name; a name made of them alone would be empty.
_CRUD = " .,:;<>\"\\'"

DEFAULT_COMMITTER_NAME = "GitOps Reverser"
DEFAULT_COMMITTER_EMAIL = "noreply@configbutler.ai"


@dataclass(frozen=True, slots=True)
class Ident:
    """A name and an e-mail that git accepts in an author or committer line."""

    name: str
    email: str


def committer_ident(name: str, email: str) -> Ident:
    """The operator's own identity from a spec; blanks and unusable values give the defaults."""
    return Ident(
        _clean(name) or DEFAULT_COMMITTER_NAME,
        _clean_email(email) or DEFAULT_COMMITTER_EMAIL,
    )


def author_ident(author: Author | None, committer: Ident) -> Ident:
    """The author of a window: who made the change, or the committer where that is not known."""
    if author is None or not author.username:
        return committer
    return Ident(_author_name(author), _author_email(author))


def _author_name(author: Author) -> str:
    display = author.display_name.strip()
    if display and not any(unicodedata.category(char) == "Cc" or char in "<>" for char in display):
        name = _clean(display)
        if name:
            return name
    return _clean(author.username) or "unknown-user"


def _author_email(author: Author) -> str:
    claimed = author.email.strip()
    if len(claimed) <= _MAX_EMAIL and _EMAIL.fullmatch(claimed):
        return claimed
    if len(author.username) <= _MAX_EMAIL and _EMAIL.fullmatch(author.username):
        return author.username
    local = _NOT_LOCAL.sub("", author.username.lower())[:_MAX_LOCAL]
    return f"{local or 'unknown-user'}@{_DERIVED_DOMAIN}"


def _clean(text: str) -> str:
    """``text`` without control characters, angle brackets and lone surrogates, trimmed and bounded; empty
    if git would see no name in it."""
    kept = "".join(
        char for char in text if char not in "<>" and unicodedata.category(char) not in ("Cc", "Cs")
    )
    kept = kept.strip()[:_MAX_NAME].strip()
    return kept if kept.strip(_CRUD) else ""


def _clean_email(text: str) -> str:
    kept = "".join(_clean(text).split())[:_MAX_EMAIL]
    return kept if "@" in kept else ""
