"""Branch names and the globs of ``allowedBranches``.

A glob follows path matching, not a shell: ``*`` and ``?`` never cross ``/``, there is no ``**``, and
the whole name must match. A malformed pattern matches nothing and does not spoil its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from reverser.errors import ConfigInvalid

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")


def branch_problem(branch: str) -> str:
    """Why Git (or the safe use of Git) cannot have this branch name; empty when it can.

    The rules are those of ``git check-ref-format --branch``, and one more: a branch whose own name begins
    with ``refs/`` makes Git refuse every push to the branch that the rest of it names.
    """
    problem = ""
    if not branch:
        problem = "is empty"
    elif branch.startswith("-"):
        problem = "starts with '-'"
    elif branch.startswith("refs/"):
        problem = "starts with 'refs/': name the branch alone"
    elif _FORBIDDEN.search(branch):
        problem = "contains a blank, a control character or one of ~ ^ : ? * [ \\"
    elif ".." in branch or "@{" in branch or branch in {"@", "HEAD"}:
        problem = "contains '..' or '@{', or is reserved by Git"
    elif branch.startswith("/") or branch.endswith(("/", ".")) or "//" in branch:
        problem = "has an empty segment or ends with '.'"
    elif any(part.startswith(".") or part.endswith(".lock") for part in branch.split("/")):
        problem = "has a segment that starts with '.' or ends with '.lock'"
    elif len(branch.encode("utf-8", "surrogatepass")) > 244:
        problem = "is longer than 244 bytes"
    return problem


def require_branch(branch: str) -> None:
    """Raises ConfigInvalid for a name that ``branch_problem`` refuses."""
    if problem := branch_problem(branch):
        raise ConfigInvalid(f"branch {branch[:80]!r} {problem}; choose another spec.branch")


def _class(pattern: str, start: int) -> tuple[str, int] | None:
    """Translate ``[...]`` that begins at ``start``; None when malformed."""
    position = start + 1
    negated = pattern[position : position + 1] == "^"
    position += negated
    ranges: list[str] = []

    def character() -> str | None:
        nonlocal position
        if position < len(pattern) and pattern[position] == "\\":
            position += 1
        elif pattern[position : position + 1] in {"-", "]"}:
            return None
        if position >= len(pattern):
            return None
        position += 1
        return pattern[position - 1]

    while True:
        if pattern[position : position + 1] == "]" and ranges:
            break
        low = character()
        if low is None:
            return None
        high: str | None = low
        if pattern[position : position + 1] == "-":
            position += 1
            high = character()
        if high is None:
            return None
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            ranges.append("")
    body = "".join(ranges)
    if negated:
        return f"[^/{body}]", position + 1
    return (f"(?!/)[{body}]" if body else "(?!)"), position + 1


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str] | None:
    out: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "*":
            if not out or out[-1] != "[^/]*":
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            translated = _class(pattern, position)
            if translated is None:
                return None
            out.append(translated[0])
            position = translated[1]
            continue
        elif char == "\\":
            position += 1
            if position >= len(pattern):
                return None
            out.append(re.escape(pattern[position]))
        else:
            out.append(re.escape(char))
        position += 1
    return re.compile("".join(out), re.DOTALL)


def malformed_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns that can never match because they are not globs."""
    return tuple(pattern for pattern in patterns if not pattern or _compile(pattern) is None)


def branch_allowed(patterns: Iterable[str], branch: str) -> bool:
    """True when one pattern matches the whole of ``branch``, case-sensitively."""
    for pattern in patterns:
        compiled = _compile(pattern)
        if pattern and compiled is not None and compiled.fullmatch(branch):
            return True
    return False
