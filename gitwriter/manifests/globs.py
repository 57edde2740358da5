"""Patterns of an ignore file, matched without regular expressions.

The patterns come from whoever can write to the repository, so one of them must never cost more than the
product of its length and that of the path: a translation to regular expressions takes forever on `a*a*a*…b`.
The meaning is Git's: a pattern without a slash matches at any depth, `*` and `?` stay within a segment, `**`
spans folders, a malformed pattern matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

P = TypeVar("P")

_POSIX: dict[str, Callable[[str], bool]] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": lambda char: char in " \t",
    "digit": str.isdigit,
    "lower": str.islower,
    "space": str.isspace,
    "upper": str.isupper,
    "xdigit": lambda char: char in "0123456789abcdefABCDEF",
    "punct": lambda char: char.isprintable() and not char.isalnum() and not char.isspace(),
}

_ANY = "any"
_STAR = "star"
_Token = str | Callable[[str], bool]
"""`_ANY`, `_STAR`, or a test of one character."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file. `segments` are of the pattern's path; None stands for `**`."""

    text: str
    negated: bool
    folders_only: bool
    segments: tuple[Segment | None, ...]

    def fits(self, parts: Sequence[str], *, folder: bool) -> bool:
        """True when the entry with these path segments is the one the pattern names."""
        if self.folders_only and not folder:
            return False
        return _spans(self.segments, parts)


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a pattern: its text where it has no wildcard, else its tokens."""

    literal: str | None
    tokens: tuple[_Token, ...]

    def fits(self, name: str) -> bool:
        if self.literal is not None:
            return self.literal == name
        return _glob(self.tokens, name)


def parse_pattern(line: str) -> Pattern | None:
    """One trimmed line that is no comment; None for one that fits nothing."""
    negated = line.startswith("!")
    text = line[1:] if negated else line
    folders_only = text.endswith("/")
    path = text.rstrip("/") if folders_only else text
    anchored = "/" in path
    names = [name for name in path.split("/") if name]
    if not names:
        return None
    segments: list[Segment | None] = [] if anchored else [None]
    for name in names:
        if name == "**":
            if not segments or segments[-1] is not None:
                segments.append(None)
            continue
        tokens = _tokens(name)
        if tokens is None:
            return None
        segments.append(Segment(_literal(tokens), tokens))
    if segments[-1] is None:
        segments.append(Segment(None, (_STAR,)))  # `a/**` is what stands in a, not a itself
    return Pattern(line, negated, folders_only, tuple(segments))


def _spans(segments: Sequence[Segment | None], parts: Sequence[str]) -> bool:
    return _matches(
        segments, parts, many=None, accepts=lambda segment, part: segment is not None and segment.fits(part)
    )


def _glob(tokens: Sequence[_Token], name: str) -> bool:
    return _matches(tokens, name, many=_STAR, accepts=_accepts)


def _matches(
    pattern: Sequence[P], items: Sequence[str], *, many: P, accepts: Callable[[P, str], bool]
) -> bool:
    """A pattern against items; only the last `many` is ever extended, as the earlier ones cannot help."""
    at = item = 0
    resume: tuple[int, int] | None = None
    while item < len(items):
        if at < len(pattern) and pattern[at] is many:
            at += 1
            resume = (at, item)
        elif at < len(pattern) and accepts(pattern[at], items[item]):
            at += 1
            item += 1
        elif resume is not None:
            resume = (resume[0], resume[1] + 1)
            at, item = resume
        else:
            return False
    return all(part is many for part in pattern[at:])


def _accepts(token: _Token, char: str) -> bool:
    if callable(token):
        return token(char)
    return token is _ANY or token == char


def _literal(tokens: Sequence[_Token]) -> str | None:
    if any(callable(token) or token is _ANY or token is _STAR for token in tokens):
        return None
    return "".join(token for token in tokens if isinstance(token, str))


def _tokens(name: str) -> tuple[_Token, ...] | None:
    """The tokens of a segment; None where an escape or a bracket is left open."""
    tokens: list[_Token] = []
    at = 0
    while at < len(name):
        char = name[at]
        if char == "*":
            if not tokens or tokens[-1] is not _STAR:
                tokens.append(_STAR)
        elif char == "?":
            tokens.append(_ANY)
        elif char == "[":
            found = _bracket(name, at + 1)
            if found is None:
                return None
            test, at = found
            tokens.append(test)
            continue
        elif char == "\\":
            at += 1
            if at == len(name):
                return None
            tokens.append(name[at])
        else:
            tokens.append(char)
        at += 1
    return tuple(tokens)


def _bracket(name: str, at: int) -> tuple[Callable[[str], bool], int] | None:
    """The test of a bracket expression that begins before `at`, and where the rest begins."""
    negated = name[at : at + 1] in ("!", "^")
    at += negated
    tests: list[Callable[[str], bool]] = []
    first = True
    while at < len(name) and (first or name[at] != "]"):
        first = False
        if name.startswith("[:", at):
            end = name.find(":]", at)
            if end < 0 or name[at + 2 : end] not in _POSIX:
                return None
            tests.append(_POSIX[name[at + 2 : end]])
            at = end + 2
            continue
        low, at = _member(name, at)
        high = low
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(name, at + 1)
        tests.append(_between(low, high))
    if at >= len(name):
        return None
    chosen = tuple(tests)
    return (lambda char: any(test(char) for test in chosen) != negated), at + 1


def _member(name: str, at: int) -> tuple[str, int]:
    if name[at] == "\\" and at + 1 < len(name):
        at += 1
    return name[at], at + 1


def _between(low: str, high: str) -> Callable[[str], bool]:
    return lambda char: low <= char <= high
